"""Plans that are decided while training goes on."""

import json
import pathlib
import time
import warnings

import models
import pytest
import torch
import torch.distributed as dist
from pool import RankError

import sluice

# The first that goes by a decision: five steps do not count, fifteen are looked at, and
# with the vote of the next all ranks hear that there is enough to go by.
DECIDES = 22
# By costs, and as its paper says: what it decides does not hang on what "auto" gains.
PLANNER = "omgs-exact"


def made(plan=PLANNER, **how):
    model = models.small_model()
    ddp = models.wrapped(model, bucket_cap_mb=0.01)
    return model, ddp, sluice.attach(ddp, density=0.05, plan=plan, **how)


def decision(sync):
    return sync.stats()["plan"]


def steps_with_all_mass(steps, plan):
    """What was sent and what is kept, beside all gradients there were."""
    model, ddp, sync = made(plan)
    sent, there, plans = 0, 0, []
    for step in range(steps):
        there = there + models.local_gradient(model, step)
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
        sent = sent + models.gradients(model)
        plans.append(decision(sync)["since"])
    lost = models.summed(there - models.residual(sync).double()) - dist.get_world_size() * sent
    same = models.same_on_all(models.gradients(model)), sync.plan
    return (lost.abs().max() / there.abs().max()).item(), plans, decision(sync), same


@pytest.mark.parametrize("plan", [PLANNER, "auto", "lags"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_decides_by_its_first_steps_and_loses_nothing(pool, size, plan):
    answers = pool.run(size, steps_with_all_mass, 30, plan)
    for lost, plans, decided, (same, now) in answers:
        assert lost < 1e-4 and same
        assert now == answers[0][3][1]
        if size == 1:  # nothing travels
            assert set(plans) == {0} and decided["why"] == ""
            continue
        assert plans[:DECIDES] == [0] * (DECIDES - 1) + [21] and plans[-1] == 21
        assert "expected" in decided["why"] and decided == answers[0][2]
        assert plan == "auto" or decided["name"] == plan


def others_stay(plan):
    model, ddp, sync = made(plan)
    for step in range(DECIDES + 2):
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
    return decision(sync)


@pytest.mark.parametrize("plan", ["size=4k", "layerwise", "single"])
def test_plans_that_need_no_costs_stay(pool, plan):
    for decided in pool.run(2, others_stay, plan):
        assert decided["since"] == 0 and decided["why"] == ""


def trained(sync, ddp, model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in steps:
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
        optimizer.step()
    return models.flat(model.parameters()), models.residual(sync)


def repeats():
    model, ddp, sync = made()
    trained(sync, ddp, model, range(DECIDES + 3))
    saved = {"model": {k: v.clone() for k, v in model.state_dict().items()}, "sluice": sync.state_dict()}
    first = trained(sync, ddp, model, range(30, 36))
    again_model, again_ddp, again = made()
    again_model.load_state_dict(saved["model"])
    again.load_state_dict(saved["sluice"])
    plans = again.plan == sync.plan, decision(again) == decision(sync)
    second = trained(again, again_ddp, again_model, range(30, 36))
    # A plan of the user's own stays.
    _, _, own = made("single")
    own.load_state_dict(saved["sluice"])
    return plans, [torch.equal(a, b) for a, b in zip(first, second)], len(own.plan["buckets"]), decision(again)["since"]


def test_a_state_repeats_what_was_decided(pool):
    for plans, equal, own, since in pool.run(2, repeats):
        assert plans == (True, True) and equal == [True, True] and since == 21
        assert own == 2  # one of them dense


def follows():
    model = models.small_model()
    ddp = models.wrapped(model, bucket_cap_mb=0.01)
    plain = models.wrapped(models.small_model(), bucket_cap_mb=0.01)
    sync = sluice.attach(ddp, "none")
    plans, equal = [], []
    for step in range(5):
        for m in (ddp, plain):
            m.zero_grad()
            models.loss_of(m, step).backward()
        plans.append([b["tensors"] for b in sync.plan["buckets"]])
        equal.append(torch.allclose(models.gradients(ddp), models.gradients(plain), rtol=1e-5, atol=1e-7))
    return plans, equal, models.same_on_all(models.gradients(ddp))


def test_buckets_of_ddp_are_followed_where_nothing_is_sparse(pool):
    for plans, equal, same in pool.run(2, follows):
        assert all(equal) and same
        assert len(plans[0]) == 1 and len(plans[-1]) > 1
        assert sorted(t for b in plans[-1] for t in b) == sorted(plans[0][0])
        assert plans[2] == plans[-1]  # from the third on


def drifts(replan):
    _, ddp, sync = made(replan=replan)
    since = []
    for step in range(135):
        time.sleep(0.05 if step > 60 else 0.005)
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
        since.append(decision(sync)["since"])
    return since


def test_decides_again_when_steps_take_longer(pool):
    # The first 25 steps behind the decision are what later ones are held against.
    for since in pool.run(2, drifts, "drift"):
        assert since[60] == 21 and since[-1] > 60
    for since in pool.run(2, drifts, "off"):
        assert since[-1] == 21


def late_for_the_decision():
    """A rank comes too late for it: an error of all, and they go on."""
    model, ddp, sync = made(timeout=2)
    for step in range(DECIDES - 1):
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
    if dist.get_rank() == 1:
        time.sleep(4)
    texts = []
    # Who was late may be through before it hears of it.
    for step in (DECIDES - 1, DECIDES):
        try:
            ddp.zero_grad()
            models.loss_of(ddp, step).backward()
        except sluice.CommError as e:
            texts.append(str(e))
            break
    sync.recover()
    for step in range(30, 34):
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
    return texts, sync.plan, decision(sync)["since"], models.same_on_all(models.gradients(model))


def test_a_rank_that_is_late_for_a_decision(pool):
    answers = pool.run(2, late_for_the_decision)
    assert "rank 1" in answers[0][0][0] and f"step {DECIDES}" in answers[0][0][0], answers[0][0]
    for texts, plan, since, same in answers:
        assert len(texts) == 1 and same
        assert plan == answers[0][1] and since == answers[0][2] >= 21


def ends_dense(step_by_step, plan, tries=1):
    """On a network that costs nothing: what is warned of, counted and sent.

    Planners keep the plan that they have if another would gain less than 2 % of a step, and on a busy machine the
    rest of a step is long: takes so many tries until nothing is sparse.
    """
    model = models.small_model()
    how = {"density": 0.05, "plan": plan, "network": "1us,400Gbit"}
    for _ in range(tries):
        ddp = None if step_by_step else models.wrapped(model)
        sync = sluice.GradientSync(model.named_parameters(), **how) if step_by_step else sluice.attach(ddp, **how)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(DECIDES + 5):
                model.zero_grad()
                models.loss_of(ddp or model, step).backward()
                if step_by_step:
                    sync.step()
        texts = [str(w.message) for w in caught if "[sluice]" in str(w.message)]
        exact = models.summed(models.local_gradient(model, step)) / dist.get_world_size()
        error = (models.gradients(model) - exact).abs().max() / exact.abs().max()
        answer = (texts, sync.stats(), sync.plan["buckets"], error.item(), models.flat(model.parameters()).numel())
        sync.close()
        if all(bucket["sparsifier"] == "none" for bucket in answer[2]):
            break
    return answer


@pytest.mark.parametrize("step_by_step", [False, True])
def test_a_plan_that_ends_dense_says_so_and_keeps_the_values(pool, step_by_step):
    for rank, (texts, stats, buckets, error, size) in enumerate(pool.run(2, ends_dense, step_by_step, "auto", 8)):
        assert {(b["sparsifier"], b["values"]) for b in buckets} == {("none", "fp32")}, stats["plan"]
        assert len(texts) == (1 if rank == 0 else 0), (texts, stats["plan"])
        assert not any("bf16" in b["collective"] for b in buckets)
        # The residual of before is delivered as it was: only the last step is compared.
        assert error < 1e-5
        last = stats["last"]
        assert last["density"] == 1 and last["selected_per_budget"] == 1
        assert last["bytes_sent"] >= 4 * size
        assert 0.05 < stats["total"]["density"] < 1
        assert "--" not in stats["plan"]["why"]
        if rank == 0:
            assert f"from step {DECIDES} on 100 %" in texts[0] and 'sparsifier "topk"' in texts[0]
            assert "compressing would not pay" in texts[0] and "ms expected" in texts[0]
            assert 'plan="fixed"' in texts[0] and "--" not in texts[0]


def test_a_fixed_plan_stays_sparse(pool):
    for texts, stats, buckets, _, _ in pool.run(2, ends_dense, False, "fixed"):
        assert texts == [] and stats["plan"]["since"] == 0
        assert "topk" in {b["sparsifier"] for b in buckets}
        assert stats["last"]["density"] < 0.2


def recorded_plan():
    """A record of a run: size=4k, and from the fourth step on all in one bucket."""
    _, _, first = made("size=4k")
    _, _, later = made("single")
    plans = {"first": first.plan, "later": later.plan}
    first.close()
    later.close()
    decision = {"step": 3, "why": "by hand", "name": "single", "buckets": plans["later"]["buckets"]}
    return {**plans["first"], "later": [decision]}


def follows_a_record(folder):
    record = recorded_plan()
    path = pathlib.Path(folder) / f"plan{dist.get_rank()}.json"
    path.write_text(json.dumps(record, indent=dist.get_rank()))
    out = []
    for plan in (record, path, str(path)):
        model, ddp, sync = made(plan)
        counts = []
        for step in range(5):
            ddp.zero_grad()
            models.loss_of(ddp, step).backward()
            counts.append(len(sync.plan["buckets"]))
        out.append((counts, decision(sync), models.gradients(model)))
        saved = sync.state_dict()
        trained_on = trained(sync, ddp, model, range(5, 8))
        sync.close()
    # A state of behind the decision goes on by it.
    model, ddp, sync = made(record)
    sync.load_state_dict(saved)
    trained_again = trained(sync, ddp, model, range(5, 8))
    return out, len(sync.plan["buckets"]), [torch.equal(a, b) for a, b in zip(trained_on, trained_again)]


def test_a_recorded_plan_is_followed_with_what_was_decided_later(pool, tmp_path):
    for out, resumed, equal in pool.run(2, follows_a_record, str(tmp_path)):
        for counts, decided, gradients in out:
            first, last = counts[0], counts[-1]
            assert counts == [first] * 3 + [last] * 2 and first != last
            assert decided == {"name": "single", "since": 3, "why": "by hand"}
            assert torch.equal(gradients, out[0][2])
        assert resumed == out[0][0][-1] and equal == [True, True]


def plans_of_their_own(folder):
    record = recorded_plan()
    record["later"][0]["step"] += dist.get_rank()
    path = pathlib.Path(folder) / f"plan{dist.get_rank()}.json"
    path.write_text(json.dumps(record))
    made(str(path), timeout=20)


def test_ranks_with_different_plan_files_are_told(pool, tmp_path):
    pool.start(2, plans_of_their_own, str(tmp_path))
    for answer in pool.answers(2):
        assert answer.name == "ValueError" and "rank 1 differs from rank 0 in plan" in answer.text


def another_setting():
    sluice.attach(models.wrapped(models.small_model()), replan="drift" if dist.get_rank() else "off")


def made_and_gone(replan):
    made(replan=replan)


def test_bad_settings(pool):
    with pytest.raises(RankError, match="rank 1 differs from rank 0 in replan"):
        pool.run(2, another_setting)
    with pytest.raises(RankError, match="replan.* must be one of off drift, got 'often'"):
        pool.run(1, made_and_gone, "often")
