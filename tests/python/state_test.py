"""States: saved, loaded, and re-mapped to other numbers of ranks."""

import io
import json
import warnings

import models
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import sluice


def step(model, sync, number):
    for p, g in zip(model.parameters(), gradients_at(model, number)):
        p.grad = g
    assert sync.step()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad


def gradients_at(model, number):
    loss = models.loss_of(model, number)
    return torch.autograd.grad(loss, list(model.parameters()))


def started(sparsifier="topk", feedback="residual", **how):
    model = models.small_model()
    how = {"density": 0.05, "sparsifier": sparsifier, "feedback": feedback, "collective": "balanced", **how}
    return model, sluice.GradientSync(model.named_parameters(), plan="size=4k", **how)


def resumed(sparsifier, feedback):
    """Six steps, and three and three with a file between them."""
    model, sync = started(sparsifier, feedback)
    for i in range(6):
        step(model, sync, i)
    whole = models.flat(model.parameters())
    model, sync = started(sparsifier, feedback)
    for i in range(3):
        step(model, sync, i)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "sync": sync.state_dict()}, file)
    sync.close()
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again, sync = started(sparsifier, feedback)
    again.load_state_dict(saved["model"])
    sync.load_state_dict(saved["sync"])
    assert sync.stats()["step"] == 3
    for i in range(3, 6):
        step(again, sync, i)
    return torch.equal(whole, models.flat(again.parameters()))


@pytest.mark.parametrize("sparsifier, feedback", [("topk", "residual"), ("dgc", "dgc"), ("randomk", "residual")])
def test_goes_on_with_the_same_bits(pool, sparsifier, feedback):
    assert pool.run(2, resumed, sparsifier, feedback) == [True, True]


def saved_states(path):
    model, sync = started()
    for i in range(3):
        step(model, sync, i)
    dcp.save({"model": model.state_dict(), "sluice": sync.state_dict()}, checkpoint_id=path)
    return sync.state_dict()


def owed(states, path):
    """The mean of the residuals after loading, from a list and from a file."""
    out = []
    for from_file in (False, True):
        _, sync = started()
        if from_file:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                sluice.load_checkpoint(sync, path)
        else:
            sync.load_state_dict(states)
        out.append(models.summed(models.residual(sync).double()) / dist.get_world_size())
        assert sync.stats()["step"] == 3
        sync.close()
    return out


@pytest.mark.parametrize("old, new", [(2, 3), (3, 1), (3, 2), (2, 2)])
def test_another_number_of_ranks_owes_the_same(pool, tmp_path, old, new):
    path = str(tmp_path / "checkpoint")
    states = pool.run(old, saved_states, path)
    before = sum(s[f"rank{r}"]["residual"].double() for r, s in enumerate(states)) / old
    for from_list, from_file in pool.run(new, owed, states, path):
        torch.testing.assert_close(from_list, before, rtol=1e-5, atol=1e-8)
        assert torch.equal(from_list, from_file)


def refusals(states):
    _, sync = started()
    other = sluice.GradientSync([("w", torch.nn.Parameter(torch.zeros(3, 3)))])
    said = []
    for target, state in [(sync, {}), (sync, []), (sync, {"a": 1}), (sync, states[0]), (other, states)]:
        try:
            target.load_state_dict(state)
            said.append("nothing")
        except ValueError as e:
            said.append(str(e))
    return said


def test_states_that_do_not_fit(pool, tmp_path):
    states = pool.run(3, saved_states, str(tmp_path / "checkpoint"))
    expected = ["a state must be", "a state must be", "a state must be", "is missing", "the same parameters"]
    for said in pool.run(2, refusals, states):
        for text, message in zip(expected, said):
            assert text in message, message


def other_plan():
    """Residuals belong to tensors: another plan keeps them."""
    model, sync = started()
    for i in range(2):
        step(model, sync, i)
    state = sync.state_dict()
    again = sluice.GradientSync(model.named_parameters(), plan="single")
    again.load_state_dict(state)
    return torch.equal(models.residual(again), models.residual(sync))


def test_another_plan_keeps_residuals(pool):
    assert pool.run(2, other_plan) == [True, True]


def repeated_plan():
    model, sync = started()
    again = sluice.GradientSync(model.named_parameters(), plan=sync.plan)
    return again.plan["buckets"] == sync.plan["buckets"]


def test_a_plan_can_be_given_again(pool):
    assert pool.run(2, repeated_plan) == [True, True]


def traced(path):
    model, sync = started()
    sync.trace(2, path)
    for i in range(3):
        step(model, sync, i)


def traced_nowhere():
    """What the step said whose timeline could not be written; later ones go on."""
    model, sync = started()
    sync.trace(1, "/nowhere/trace.json")
    said = ""
    try:
        step(model, sync, 0)
    except RuntimeError as e:
        said = str(e)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    sync.step()
    return said, sync.stats()["step"]


def test_a_timeline_that_cannot_be_written_costs_no_step(pool):
    first, second = pool.run(2, traced_nowhere)
    assert "'/nowhere/trace.json' could not be written" in first[0]
    assert first[1] == second[1] == 2


def test_a_timeline_has_all_ranks(pool, tmp_path):
    import json

    path = tmp_path / "trace.json"
    pool.run(2, traced, str(path))
    events = json.loads(path.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in spans} == {0, 1}
    assert {e["args"]["step"] for e in spans} == {1, 2}
    assert {"select", "exchange", "apply"} <= {e["name"] for e in spans}


def whole_state(path):
    """All of it in one file, as rank 0 writes it; twice as large as a piece that travels."""
    model, sync = started()
    step(model, sync, 0)
    state = sync.state_dict(all_ranks=True)
    assert sorted(state) == (["rank0", "rank1", "rank2"] if sync.rank == 0 else [f"rank{sync.rank}"])
    if sync.rank == 0:
        torch.save(state, path)
    dist.barrier()
    again, again_sync = started()
    again_sync.load_state_dict(torch.load(path, weights_only=True))
    assert torch.equal(models.residual(again_sync), models.residual(sync))
    again.load_state_dict(model.state_dict())
    for i in range(1, 3):
        step(model, sync, i)
        step(again, again_sync, i)
    return torch.equal(models.flat(model.parameters()), models.flat(again.parameters()))


def test_one_file_has_the_states_of_all_ranks(pool, tmp_path):
    assert pool.run(3, whole_state, str(tmp_path / "state.pt")) == [True] * 3


def large_state():
    """More than travels in one piece."""
    weight = torch.nn.Parameter(torch.zeros(1200, 1000, device=models.DEVICE))
    sync = sluice.GradientSync([("w", weight)], density=0.01, plan="single")
    weight.grad = torch.full_like(weight, 1.0 + sync.rank)
    sync.step()
    mine = models.residual(sync)
    state = sync.all_ranks.state_dict()
    return mine, [state[key]["residual"] for key in sorted(state)]


def test_a_large_state_travels_in_pieces(pool):
    (first, all_of_them), (second, own) = pool.run(2, large_state)
    assert torch.equal(all_of_them[0], first) and torch.equal(all_of_them[1], second)
    assert len(own) == 1 and torch.equal(own[0], second)


def one_rank_saves():
    model, sync = started(timeout=3.0)
    step(model, sync, 0)
    if sync.rank == 0:
        try:
            sync.state_dict(all_ranks=True)
        except sluice.CommError as e:
            return str(e)
    else:
        import time

        time.sleep(4)
    return ""


def test_a_rank_that_does_not_save_is_named(pool):
    text = pool.run(2, one_rank_saves)[0]
    assert "[state_dict] rank 0 waited" in text and "rank 1" in text


class Holder(torch.nn.Module):
    """Gives its model's parameters names with a prefix."""

    def __init__(self, name, model):
        super().__init__()
        self.add_module(name, model)


def renamed(prefix, back):
    model, sync = started("adtopk")
    for i in range(3):
        step(model, sync, i)
    state = sync.state_dict()
    holder = model
    for part in reversed(prefix.split(".")):
        holder = Holder(part, holder)
    how = {"density": 0.05, "sparsifier": "adtopk", "collective": "balanced", "plan": "size=4k"}
    other = sluice.GradientSync(holder.named_parameters(), **how)
    other.load_state_dict(state)
    if back:
        state = other.state_dict()
        other = sluice.GradientSync(model.named_parameters(), **how)
        other.load_state_dict(state)
    results = []
    for one in (sync, other):
        for p, g in zip(model.parameters(), gradients_at(model, 3)):
            p.grad = g
        one.step()
        results.append((models.gradients(model), one.state_dict()[f"rank{one.rank}"]))
    (gradient, mine), (same_gradient, theirs) = results
    # Of collectives, some have measured times.
    same = [torch.equal(mine[key], theirs[key]) for key in ("residual", "momentum", "rules")]
    return all(same) and torch.equal(gradient, same_gradient)


@pytest.mark.parametrize("prefix", ["module", "_orig_mod", "module._orig_mod", "_orig_mod.module"])
def test_names_may_gain_and_lose_prefixes(pool, prefix):
    assert pool.run(2, renamed, prefix, False) == [True, True]
    assert pool.run(2, renamed, prefix, True) == [True, True]


def some_fit(how):
    model, sync = started()
    for i in range(2):
        step(model, sync, i)
    state = sync.state_dict()
    mine = dict(zip(sync.names, models.residual(sync).split([p.numel() for p in sync.parameters])))
    other = torch.nn.Sequential(*model[:5], torch.nn.Linear(40, 12)).to(models.DEVICE)
    if how == "old":
        other = torch.nn.Sequential(*model[:5])
    if how == "all differ":
        other = torch.nn.Linear(3, 3).to(models.DEVICE)
    if how == "old":
        entry = state[f"rank{sync.rank}"]
        info = json.loads(entry["info"])
        del info["sizes"]
        entry["info"] = json.dumps(info)
        sync.load_state_dict(state)  # of the same model: taken as ever
    again = sluice.GradientSync(list(other.named_parameters()), density=0.05)
    said = []
    for strict in (True, False):
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                again.load_state_dict(state, strict=strict)
            said += [str(w.message) for w in caught]
        except ValueError as e:
            said.append(str(e))
    if how != "some":
        return said
    theirs = dict(zip(again.names, models.residual(again).split([p.numel() for p in again.parameters])))
    for name, values in theirs.items():
        expected = torch.zeros_like(values) if name.startswith("5.") else mine[name]
        assert torch.equal(values, expected), name
    for p in other.parameters():
        p.grad = torch.ones_like(p)
    assert again.step() and again.stats()["step"] == 3
    return said


def test_what_fits_is_taken_if_that_is_asked_for(pool):
    first, second = pool.run(2, some_fit, "some")
    refused, warned = first
    assert "the same parameters" in refused and "'5.weight' and 1 more" in refused and "strict=False" in refused
    assert "residuals of what is new start empty" in warned and "'5.weight' and 1 more" in warned
    assert len(second) == 1  # rank 0 alone warns


def test_a_state_of_which_nothing_fits_is_refused(pool):
    for refused, not_strict in pool.run(2, some_fit, "all differ"):
        assert "the same parameters" in refused and "none does" in not_strict


def test_a_state_of_before_does_not_say_what_fits(pool):
    for refused, not_strict in pool.run(2, some_fit, "old"):
        assert "the same parameters" in refused and "strict=False needs a state that says" in not_strict


def damaged(change):
    model, sync = started()
    state = sync.state_dict()
    entry = state[f"rank{sync.rank}"]
    info = json.loads(entry["info"])
    info.update(change)
    entry["info"] = json.dumps(info)
    said = []
    for strict in (True, False):
        try:
            sync.load_state_dict(state, strict)
        except ValueError as e:
            said.append(str(e))
    step(model, sync, 0)
    return said


@pytest.mark.parametrize(
    "change, text",
    [
        ({"names": "0.weight"}, "must name each tensor once"),
        ({"names": ["0.weight", "0.weight"]}, "must name each tensor once"),
        ({"names": [1, None]}, "must name each tensor once"),
        ({"sizes": [1, 2]}, "with its number of elements"),
        ({"sizes": {"a": 1}}, "with its number of elements"),
        ({"sizes": [36, 4, 5760, 40, 400, -10]}, "with its number of elements"),
        ({"sizes": [36, 4, 5760, 40, 400, 9]}, ""),
    ],
)
def test_states_that_are_damaged_are_refused(pool, change, text):
    for said in pool.run(1, damaged, change):
        assert len(said) == 2 and all(text in message for message in said), said


def sparse_density(sync):
    """The share of the sparse tensors' entries that the last step sent."""
    last = sync.stats()["last"]
    sparse, dense = last["sparse_elements"], last["dense_elements"]
    return (last["density"] * (sparse + dense) - dense) / sparse


def other_density():
    model, sync = started()
    step(model, sync, 0)
    sync.set_density(1.0)
    step(model, sync, 1)
    most = sparse_density(sync)
    left = models.residual(sync).abs().sum().item()
    sync.set_density(0.02)
    step(model, sync, 2)
    return most, left, sparse_density(sync)


def test_a_density_can_be_set(pool):
    for most, left, later in pool.run(2, other_density):
        # All but what is 0 anyway.
        assert most > 0.5 and left == 0
        assert later == pytest.approx(0.02, rel=0.05)


def wrong_densities():
    model, sync = started()
    rank = dist.get_rank()
    dense = sluice.GradientSync(model.named_parameters(), sparsifier="none")
    said = []
    tries = [(sync, 0.1 * (rank + 1)), (sync, 0.0), (sync, 2.0 if rank == 1 else 0.1), (sync, float("nan")), (dense, 0.1)]
    for target, density in tries:
        try:
            target.set_density(density)
            said.append("nothing")
        except ValueError as e:
            said.append(str(e))
    step(model, sync, 0)
    return said, sparse_density(sync)


def test_densities_that_make_no_sense_are_refused_on_all_ranks(pool):
    expected = ["the same value of density", "must be above 0", "density", "must be above 0", "something sparse"]
    for said, density in pool.run(2, wrong_densities):
        for text, message in zip(expected, said):
            assert text in message, message
        assert density == pytest.approx(0.05, rel=0.05)


def densities_of_the_plan():
    """A plan whose buckets have densities of their own keeps their proportion."""
    model, sync = started()
    plan = sync.plan
    for bucket in plan["buckets"]:
        if bucket["sparsifier"] != "none":
            bucket["density"] = 0.1
    again = sluice.GradientSync(model.named_parameters(), density=0.05, plan=plan)
    step(model, again, 0)
    before = sparse_density(again)
    again.set_density(0.025)
    step(model, again, 1)
    return before, sparse_density(again)


def test_a_density_that_is_set_scales_those_of_the_plan(pool):
    for before, after in pool.run(2, densities_of_the_plan):
        assert (before, after) == pytest.approx((0.1, 0.05), rel=0.05)


def ended_warm_up():
    model = models.small_model()
    sync = sluice.GradientSync(
        model.named_parameters(), density=0.01, warmup="warmup:epochs=4", steps_per_epoch=1, plan="size=4k"
    )
    step(model, sync, 0)
    first = sparse_density(sync)
    sync.set_density(0.05)
    step(model, sync, 1)
    return first, sparse_density(sync)


def test_setting_a_density_ends_a_warm_up(pool):
    for first, second in pool.run(2, ended_warm_up):
        assert first > 0.3 and second == pytest.approx(0.05, rel=0.05)


def detached(views, scaled):
    model = models.small_model().to(memory_format=torch.channels_last)
    ddp = models.wrapped(model, gradient_as_bucket_view=views, bucket_cap_mb=0.01)
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=256.0) if scaled else None
    sync = sluice.attach(ddp, density=0.05, scaler=scaler)
    world = dist.get_world_size()
    factor = 256.0 if scaled else 1.0
    for i in range(3):
        ddp.zero_grad()
        (models.loss_of(ddp, i) * factor).backward()
    # As they lie: what waits in memory, and what comes.
    as_it_lies = lambda t: t.permute(0, 2, 3, 1) if t.dim() == 4 else t  # noqa: E731
    owed = models.residual(sync).double()
    sync.detach()
    gradients = torch.autograd.grad(models.loss_of(model, 3), list(model.parameters()))
    expected = models.summed(owed + models.flat([as_it_lies(g) for g in gradients])) / world * factor
    ddp.zero_grad()
    (models.loss_of(ddp, 3) * factor).backward()
    mean = models.flat([as_it_lies(p.grad) for p in model.parameters()])
    torch.testing.assert_close(mean, expected, rtol=1e-4, atol=1e-5 * factor)
    ddp.zero_grad()
    (models.loss_of(ddp, 4) * factor).backward()
    plain = models.summed(models.local_gradient(model, 4)) / world * factor
    torch.testing.assert_close(models.gradients(model), plain, rtol=1e-4, atol=1e-5 * factor)
    try:
        sync.stats()
        return "nothing"
    except RuntimeError as e:
        return str(e)


@pytest.mark.parametrize("views, scaled", [(False, False), (True, True)])
def test_a_model_can_go_on_without(pool, views, scaled):
    for text in pool.run(2, detached, views, scaled):
        assert "it was closed" in text


def attached_again():
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, density=0.05, plan="fixed")
    for i in range(3):
        ddp.zero_grad()
        models.loss_of(ddp, i).backward()
    owed = models.residual(sync).double()
    sync.detach()
    again = sluice.attach(ddp, "none")
    expected = models.summed(owed + models.local_gradient(model, 3)) / dist.get_world_size()
    ddp.zero_grad()
    models.loss_of(ddp, 3).backward()
    torch.testing.assert_close(models.gradients(model), expected, rtol=1e-4, atol=1e-5)
    steps = again.stats()["step"]
    again.close()
    return steps


def test_what_a_detached_sync_owed_goes_with_the_next_one(pool):
    assert pool.run(2, attached_again) == [1, 1]


def detached_on_one_rank():
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, density=0.05, timeout=3.0)
    # Before its second step DDP itself exchanges what its buckets are to be.
    for i in range(3):
        models.loss_of(ddp, i).backward()
    try:
        if dist.get_rank() == 0:
            sync.detach()
        else:
            models.loss_of(ddp, 1).backward()
    except sluice.CommError as e:
        return str(e)
    finally:
        sync.close()
    return "nothing"


def test_a_rank_that_detaches_alone_is_named(pool):
    for text in pool.run(2, detached_on_one_rank):
        assert "rank 0" in text and "rank 1" in text, text
