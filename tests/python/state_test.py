"""States: saved, loaded, and re-mapped to other numbers of ranks."""

import io
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


def started(sparsifier="topk", feedback="residual"):
    model = models.small_model()
    how = {"density": 0.05, "sparsifier": sparsifier, "feedback": feedback, "collective": "balanced"}
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
