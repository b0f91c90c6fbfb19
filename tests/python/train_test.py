"""The package beside what it must equal: the rule by hand, and `sluice train`."""

import collections
import os
import struct
import subprocess

import models
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

import sluice

SLUICE = os.environ.get("SLUICE_PROGRAM", "")
DENSITY = 0.05


def exact_gradient(shape, rank, step):
    """Eighths of small whole numbers: sums and halves of them are exact."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(-4000, 4000, shape, generator=generator).float() / 8


def exchange(shape, steps):
    parameter = torch.nn.Parameter(torch.zeros(shape, device=models.DEVICE))
    sync = sluice.GradientSync([("w", parameter)], sparsifier="topk", density=DENSITY, collective="allgather")
    means = []
    for step in range(steps):
        parameter.grad = exact_gradient(shape, dist.get_rank(), step).to(models.DEVICE)
        sync.step()
        means.append(parameter.grad.cpu())
    sync.close()
    return means


@pytest.mark.parametrize("size", [1, 2, 4])
def test_means_are_those_of_top_k_by_hand(pool, size):
    shape, steps = (40, 50), 5
    k = int(DENSITY * 40 * 50)
    residuals = [torch.zeros(40 * 50) for _ in range(size)]
    found = pool.run(size, exchange, shape, steps)
    for step in range(steps):
        total = torch.zeros(40 * 50)
        for rank, residual in enumerate(residuals):
            residual += exact_gradient(shape, rank, step).flatten()
            # Ties go to the lower index.
            chosen = torch.sort(residual.abs(), descending=True, stable=True).indices[:k]
            total[chosen] += residual[chosen]
            residual[chosen] = 0
        for means in found:
            assert torch.equal(means[step].flatten(), total / size)


PIXELS, CLASSES, HIDDEN, BATCH, STEPS, RATE = 28 * 28, 10, 24, 4, 8, 0.1
# Of the data set `mnist`: mean and deviation.
NORMAL = (0.1307, 0.3081)
IMAGE = [(37 * i) % 251 for i in range(PIXELS)]


def write_idx(folder, count):
    """The same image and label over and over: every worker has the same batch,
    whatever the order."""
    for part in ("train", "t10k"):
        with open(folder / f"{part}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 28, 28) + bytes(IMAGE) * count)
        with open(folder / f"{part}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes([3]) * count)


def mlp():
    torch.manual_seed(5)
    layers = [("fc1", torch.nn.Linear(PIXELS, HIDDEN)), ("relu", torch.nn.ReLU()), ("fc2", torch.nn.Linear(HIDDEN, CLASSES))]
    return torch.nn.Sequential(collections.OrderedDict(layers))


def train_in_python(steps):
    model = mlp()
    ddp = models.wrapped(model)
    sluice.attach(ddp, sparsifier="topk", density=DENSITY, collective="allgather")
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    images = (torch.tensor(IMAGE).repeat(BATCH, 1) / 255 - NORMAL[0]) / NORMAL[1]
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(images), torch.full((BATCH,), 3)).backward()
        optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}


def run(*words):
    done = subprocess.run([SLUICE, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not SLUICE, reason="SLUICE_PROGRAM names no built `sluice`")
@pytest.mark.skipif(models.DEVICE != "cpu", reason="`sluice train` is compared with on the CPU")
@pytest.mark.parametrize("size", [1, 2])
def test_weights_are_those_of_sluice_train(pool, tmp_path, size):
    write_idx(tmp_path, size * BATCH)
    save_file(dict(mlp().state_dict()), tmp_path / "first.safetensors")
    run("train", "--model", f"mlp:widths={HIDDEN}", "--dataset", "mnist", "--data-dir", tmp_path,
        "--workers", size, "--engine", "threads", "--threads", 1, "--batch-size", BATCH, "--epochs", STEPS,
        "--lr", RATE, "--lr-schedule", "constant", "--optimizer", "sgd:momentum=0", "--sparsifier", "topk",
        "--density", DENSITY, "--collective", "allgather", "--plan", "size=1M", "--eval-every", 0,
        "--init", tmp_path / "first.safetensors", "--out", tmp_path / "run")  # fmt: skip
    run("export", tmp_path / "run", "--to", tmp_path / "last.safetensors")
    theirs = load_file(tmp_path / "last.safetensors")
    first = mlp().state_dict()
    for ours in pool.run(size, train_in_python, STEPS):
        assert ours.keys() == theirs.keys()
        for name, tensor in ours.items():
            # Both multiply matrices by torch; sums may be made in another order.
            torch.testing.assert_close(tensor, theirs[name], rtol=1e-5, atol=1e-6)
            assert not torch.equal(tensor, first[name]), f"{name} was not trained"
