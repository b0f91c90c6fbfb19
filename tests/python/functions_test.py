"""The methods as functions of tensors, and arguments that make no sense."""

import builtins
import pathlib
from datetime import timedelta

import models
import numpy as np
import pytest
import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import _apply_optimizer_in_backward
from torch.nn.parallel import DistributedDataParallel

import sluice

SPARSIFIERS = [row["name"] for row in sluice.list()["sparsifiers"]]


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("sparsifier", SPARSIFIERS)
def test_select_loses_nothing(sparsifier, device):
    generator = torch.Generator().manual_seed(1)
    residual = torch.zeros(60, 70, device=device)
    for step in range(3):
        gradient = torch.randn(60, 70, generator=generator).to(device)
        before = residual.double() + gradient.double()
        indices, values = sluice.select(residual, gradient, sparsifier=sparsifier, density=0.02, step=step)
        assert (indices[1:] > indices[:-1]).all()
        sent = torch.zeros(60 * 70, dtype=torch.double, device=device)
        sent[indices] = values.double()
        total = residual.double() + sent.view(60, 70)
        torch.testing.assert_close(total, before, rtol=1e-6, atol=1e-6)


def test_select_takes_the_largest():
    residual = torch.zeros(100)
    indices, values = sluice.select(residual, torch.arange(100.0), sparsifier="topk", density=0.03)
    assert indices.tolist() == [97, 98, 99] and values.tolist() == [97, 98, 99]
    assert residual.sum() == sum(range(97))


@needs_gpu
def test_select_is_the_same_on_a_gpu():
    generator = torch.Generator().manual_seed(2)
    gradient = torch.randn(300, 400, generator=generator)
    for sparsifier in SPARSIFIERS:
        ours, theirs = torch.zeros(300, 400), torch.zeros(300, 400, device="cuda")
        on_host = sluice.select(ours, gradient, sparsifier=sparsifier)
        on_gpu = sluice.select(theirs, gradient.cuda(), sparsifier=sparsifier)
        assert torch.equal(on_gpu[0].cpu(), on_host[0]) and torch.equal(on_gpu[1].cpu(), on_host[1]), sparsifier
        assert torch.equal(theirs.cpu(), ours), sparsifier


@pytest.mark.parametrize("codec", ["auto", "elias-fano", "bitpack", "raw32", "bitmap"])
def test_decode_gives_what_encode_took(codec):
    indices = torch.tensor([3, 17, 400, 999])
    values = torch.tensor([1.5, -2.0, 0.25, 8.0])
    message = sluice.encode(indices, values, 1000, codec)
    assert message.dtype == torch.uint8
    again = sluice.decode(message, 1000)
    assert torch.equal(again[0], indices) and torch.equal(again[1], values)


def test_decode_trusts_nothing():
    message = sluice.encode(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), 10)
    for bad in (message[:-1], torch.zeros(0, dtype=torch.uint8), message.flip(0)):
        with pytest.raises(ValueError):
            sluice.decode(bad, 10)
    with pytest.raises(ValueError):
        sluice.decode(message, 1)


def refused(error, text, f, *arguments, **how):
    with pytest.raises(error) as caught:
        f(*arguments, **how)
    assert text in str(caught.value), str(caught.value)


def test_arguments_that_make_no_sense():
    r, g = torch.zeros(10), torch.ones(10)
    refused(ValueError, "density must be above 0", sluice.select, r, g, density=0)
    refused(ValueError, "no sparsifier 'topkk'", sluice.select, r, g, sparsifier="topkk")
    refused(ValueError, "must have one shape", sluice.select, r, torch.ones(9))
    refused(ValueError, "contiguous float32 on the CPU or a GPU", sluice.select, r, g.double())
    refused(ValueError, "indices must ascend", sluice.encode, torch.tensor([5, 2]), torch.ones(2), 10)
    refused(ValueError, "no codec 'zip'", sluice.encode, torch.tensor([5]), torch.ones(1), 10, "zip")
    refused(TypeError, "must be a DistributedDataParallel, got Linear", sluice.attach, torch.nn.Linear(2, 2))
    model = torch.nn.Linear(4, 4)
    refused(RuntimeError, "must be initialized", sluice.GradientSync, model.named_parameters())
    refused(TypeError, "come with their names, as model.named_parameters()", sluice.GradientSync, model)
    refused(TypeError, "gives them, got Parameter", sluice.GradientSync, model.parameters())


HOSTILE = [
    ({"density": 0}, "density"),
    ({"density": 1.5}, "density"),
    ({"density": float("nan")}, "density"),
    ({"density": "much"}, "density"),
    ({"sparsifier": "topkk"}, "no sparsifier 'topkk'"),
    ({"sparsifier": "topk:k=5"}, "topk"),
    ({"collective": "ring"}, "no collective 'ring'"),
    ({"feedback": "memory"}, "no feedback 'memory'"),
    ({"values": "int8"}, "values"),
    ({"plan": "size=none"}, "size="),
    ({"plan": "nobody"}, "no planner 'nobody'"),
    ({"plan": {"version": 2}}, "plan"),
    ({"plan": "nowhere.json"}, "nowhere.json"),
    ({"exceptions": {"nothing": "dense"}}, "pattern 'nothing' of 'dense' must match a tensor"),
    ({"exceptions": {"weight": "sparse"}}, "must be one of dense, no_feedback"),
    ({"exceptions": {"a,b": "dense"}}, "no comma"),
    ({"nonfinite": "ignore"}, "nonfinite"),
    ({"timeout": -1}, "timeout"),
    ({"timeout": 0}, "'timeout' must be above 0 seconds"),
    ({"densty": 0.1}, "no setting 'densty'; known: sparsifier density feedback"),
    ({"exceptions": ["embed"]}, "exceptions must be a dictionary, got a list"),
    ({"warmup": "warmup:epochs=2"}, "steps_per_epoch"),
    ({"warmup": "slowly", "steps_per_epoch": 3}, "slowly"),
    ({"network": "fast"}, "fast"),
    ({"emulate": "fast"}, "50us,1Gbit"),
    ({"emulate": "50us"}, "expected ALPHA,RATE"),
    ({"gpu_link": "wire"}, "gpu_link must be one of auto, nccl, host, got 'wire'"),
    ({"gpu_link": "nccl"}, 'gpu_link="nccl" needs parameters on a GPU'),
    ({"seed": -1}, "seed"),
    ({"seed": object()}, "seed"),
    ({"density": 1.0000001}, "at most 1, got 1.0000001"),
    ({"density": [0.1]}, "'[0.1]'"),
    ({"steps_per_epoch": -1}, "'steps_per_epoch' must be a whole number of steps, 0 or more, got -1"),
    ({"steps_per_epoch": "many"}, "'steps_per_epoch' must be a whole number of steps, 0 or more, got \"many\""),
    ({"total_steps": 1.5}, "'total_steps' must be a whole number of steps, 0 or more, got 1.5"),
    ({"timeout": timedelta(seconds=-1)}, "timeout"),
    ({"timeout": "soon"}, "timeout"),
    ({"scaler": 3}, "scaler must be a GradScaler, as torch.amp.GradScaler(), or None, got int"),
    ({"exceptions": {"": "dense"}}, "a key of exceptions must be the name of a parameter or a module"),
    ({"exceptions": {7: "dense"}}, "got 7"),
    ({"values": torch.float64}, "must be one of fp32 bf16 fp16, got 'torch.float64'"),
    ({"dtype": torch.bfloat16}, "values=torch.bfloat16 is the form of what is sent"),
    ({"plan": {"version": 2, "name": 3, "buckets": []}}, "expected the JSON of a plan"),
    ({"plan": {"version": 2, "name": "x", "buckets": [{"tensors": 3}]}}, "[plan]"),
    ({"plan": pathlib.Path("nowhere.json")}, "the plan 'nowhere.json' must be a file that can be read"),
]
# What belongs to another program, or to a library of ours.
FOREIGN = ("json.exception", "[train]", "--", "rebuild()")


def hostile():
    """What each of them says; a later one is not disturbed by those before."""
    said = []
    model = torch.nn.Linear(8, 8)
    for how, _ in HOSTILE:
        try:
            sluice.GradientSync(model.named_parameters(), **how)
            said.append("nothing")
        except (TypeError, ValueError, RuntimeError) as e:
            said.append(str(e))
    return said


def test_settings_that_make_no_sense(pool):
    for said in pool.run(2, hostile):
        for (how, text), message in zip(HOSTILE, said):
            assert text in message, f"{how}: {message}"
            assert not any(word in message for word in FOREIGN), message


def settings_of_other_types():
    model = models.small_model()
    ddp = models.wrapped(model)
    how = {"density": np.float32(0.25), "values": torch.bfloat16, "timeout": timedelta(seconds=30)}
    sync = sluice.attach(ddp, plan="fixed", dense_rank=np.int64(1), seed=np.uint8(3), **how)
    models.loss_of(ddp, 0).backward()
    sparse = [b for b in sync.plan["buckets"] if b["sparsifier"] == "topk"]
    last = sync.stats()["last"]
    return {b["values"] for b in sparse}, last["selected_per_budget"], 0.25 < last["density"] < 0.27


def test_numbers_of_numpy_dtypes_and_timedeltas(pool):
    assert pool.run(2, settings_of_other_types) == [({"bf16"}, 1, True)] * 2


def test_a_star_import_leaves_list_alone():
    names = {"list": builtins.list}
    exec("from sluice import *", names)
    assert names["list"] is builtins.list and names["attach"] is sluice.attach
    assert "sparsifiers" in sluice.list()


def hostile_models():
    said = []

    def attempt(f):
        try:
            f()
            said.append("nothing")
        except (ValueError, RuntimeError, TypeError) as e:
            said.append(str(e))

    attempt(lambda: sluice.GradientSync([]))
    attempt(lambda: sluice.GradientSync([("c", torch.nn.Parameter(torch.zeros(3).to(torch.float8_e5m2)))]))
    p = torch.nn.Parameter(torch.zeros(3, 3))
    attempt(lambda: sluice.GradientSync([("p", p), ("q", p)]))
    attempt(lambda: sluice.GradientSync([("m", torch.nn.Parameter(torch.zeros(3, device="meta")))]))

    device = models.DEVICE
    ddp = DistributedDataParallel(torch.nn.Linear(4, 4, device=device))
    sync = sluice.attach(ddp)
    attempt(lambda: sluice.attach(ddp, density=0.5))
    hooked = DistributedDataParallel(torch.nn.Linear(4, 4, device=device))
    hooked.register_comm_hook(None, default_hooks.allreduce_hook)
    attempt(lambda: sluice.attach(hooked))
    stepped = torch.nn.Linear(4, 4, device=device)
    _apply_optimizer_in_backward(torch.optim.SGD, stepped.parameters(), {"lr": 0.1})
    attempt(lambda: sluice.attach(DistributedDataParallel(stepped)))
    sync.close()
    attempt(lambda: ddp(torch.ones(2, 4, device=device)).sum().backward())

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).to(device)
    state = sluice.HookState(model, timeout=20)
    model[1].bias.requires_grad_(False)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, sluice.comm_hook)
    attempt(lambda: ddp(torch.ones(2, 4, device=device)).sum().backward())
    return said


def test_models_that_cannot_be_taken(pool):
    expected = [
        "there must be a parameter that requires a gradient",
        "parameter 'c' must be fp32, bf16 or fp16",
        "every parameter must come once",
        "must be on the CPU or a CUDA GPU",
        "is attached already, with another density: 0.01, 0.5; close() that sync first",
        "the model must have no hook yet, but torch says: register_comm_hook",
        "an optimizer must step behind backward(), but that of 'weight' steps inside of it",
        "it was closed",
        "brought none of '1.bias' (1 of 4 are missing)",
    ]
    for said in pool.run(2, hostile_models):
        for text, message in zip(expected, said):
            assert text in message, message
        assert len(said) == len(expected)


def destroyed():
    model = torch.nn.Linear(4, 4)
    sync = sluice.GradientSync(model.named_parameters())
    torch.distributed.destroy_process_group()
    try:
        sync.step()
    except RuntimeError as e:
        return str(e)
    return "nothing"


def test_a_group_that_was_destroyed(pool):
    for said in pool.run(2, destroyed):
        assert "was destroyed" in said


def test_another_torch_is_refused_in_one_sentence(monkeypatch):
    from sluice import _build_info, _check_torch

    monkeypatch.setattr(_build_info, "TORCH", "2.4.0+cu118")
    with pytest.raises(ImportError) as caught:
        _check_torch.check_torch()
    assert "is for torch 2.4.0+cu118" in str(caught.value) and torch.__version__ in str(caught.value)


@pytest.mark.parametrize(
    "feedback, momentum, text",
    [
        ("residual", 0.0, ""),
        ("residual", 0.9, "feedback=\"dgc:momentum=0.9\""),
        ("dgc", 0.0, ""),
        ("dgc", 0.9, "momentum=0"),
    ],
)
def test_momentum_goes_with_the_feedback(feedback, momentum, text):
    from sluice.momentum import advice

    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1, momentum=momentum)
    said = advice({"sparsifier": "topk", "feedback": feedback}, optimizer)
    assert (text in said) if text else said == ""
    assert advice({"sparsifier": "none", "feedback": feedback}, optimizer) == ""


@pytest.mark.parametrize(
    "beta, feedback, text", [(0.9, "residual", "betas=(0.0, ...)"), (0.0, "residual", ""), (0.9, "dgc", "instead of betas=(0.9")]
)
def test_adam_has_a_momentum_too(beta, feedback, text):
    from sluice.momentum import advice

    optimizer = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters(), betas=(beta, 0.999))
    said = advice({"sparsifier": "topk", "feedback": feedback}, optimizer)
    assert (text in said) if text else said == ""


def warned():
    import warnings

    model, other = torch.nn.Linear(40, 40), torch.nn.Linear(2, 2)
    sync = sluice.GradientSync(model.named_parameters(), density=0.1)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.5) for m in (other, model, model)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        counts = []
        for optimizer in optimizers:
            optimizer.step()
            counts.append(sum("waited in residuals" in str(w.message) for w in found))
    sync.close()
    return counts


def test_an_optimizer_with_momentum_is_warned_of_once(pool):
    # Not of one that has other parameters, nor on the other ranks.
    assert pool.run(2, warned) == [[0, 1, 1], [0, 0, 0]]


def logged():
    rows = []

    class Writer:
        def add_scalar(self, *row):
            rows.append(row)

    model = torch.nn.Linear(40, 40)
    sync = sluice.GradientSync(model.named_parameters(), density=0.1)
    model(torch.ones(1, 40)).sum().backward()
    sync.step()
    sync.log_to(Writer())
    return {name: (value, step) for name, value, step in rows}


def test_steps_are_logged(pool):
    for rows in pool.run(2, logged):
        assert rows["sluice/density"] == ((0.1 * 1600 + 40) / 1640, 1), "biases stay dense"
        assert rows["sluice/bytes_sent"][0] > 0
        assert rows["sluice/selected_per_budget"] == (1.0, 1)
