#!/usr/bin/env python3
"""A rank of a training job under PyTorch DDP over gloo, which mpirun starts for
ddp_peers.py. Rank 0 prints the clock after every fifth step and, where epochs
are trained, the accuracy over time, as JSON."""

import argparse
import gzip
import json
import math
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
GROUP = 5  # steps that are timed as one
DENSITY = 0.01
RATE = 0.05
WARM_UP = 0.2  # of the run, one epoch at most


def make_network(name):
    if name == "mlp":
        return nn.Sequential(
            *[nn.Flatten(), nn.Linear(784, 1024), nn.ReLU()],
            *[nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)],
        )
    return nn.Sequential(
        *[nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()],
        *[nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()],
        nn.Linear(84, 10),
    )


def load_data(split):
    """Fashion-MNIST, or noise of its shape where its files are not."""
    if not DATA.exists():
        return torch.randn(60000, 1, 28, 28), torch.arange(60000) % 10
    raw = [
        torch.frombuffer(bytearray(gzip.decompress(file.read_bytes())[skip:]), dtype=torch.uint8)
        for file, skip in (
            (DATA / f"{split}-images-idx3-ubyte.gz", 16),
            (DATA / f"{split}-labels-idx1-ubyte.gz", 8),
        )
    ]
    images = (raw[0].reshape(-1, 1, 28, 28).float() / 255 - 0.286) / 0.353
    return images, raw[1].long()


def naive_topk(state, bucket):
    """The k largest of a bucket, by an all-gather of values and indices."""
    gradient = bucket.buffer()
    key = (bucket.index(), gradient.numel())  # DDP makes its buckets anew once
    residual = state.setdefault(key, torch.zeros_like(gradient))
    residual += gradient
    indices = residual.abs().topk(max(1, int(DENSITY * residual.numel())), sorted=False).indices
    values = residual[indices]
    residual[indices] = 0
    ranks = dist.get_world_size()
    all_values = [torch.empty_like(values) for _ in range(ranks)]
    all_indices = [torch.empty_like(indices) for _ in range(ranks)]
    dist.all_gather(all_values, values)
    dist.all_gather(all_indices, indices)
    gradient.zero_()
    gradient.index_add_(0, torch.cat(all_indices), torch.cat(all_values) / ranks)
    future = torch.futures.Future()
    future.set_result(gradient)
    return future


def add_hook(model, method):
    def bf16(state, bucket):
        return default_hooks.bf16_compress_hook(state, bucket)

    if method == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif method == "bf16":
        model.register_comm_hook(None, bf16)
    elif method == "topk-naive":
        model.register_comm_hook({}, naive_topk)
    elif method.startswith("powersgd-"):
        state = powerSGD_hook.PowerSGDState(
            process_group=None,
            matrix_approximation_rank=int(method.split("-")[1]),
            start_powerSGD_iter=4,
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def rate_at(step, steps, epoch):
    """What `sluice train` does by default: rising, then half a cosine."""
    warm = max(1, min(epoch, int(WARM_UP * steps)))
    if step < warm:
        return RATE * (step + 1) / warm
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def accuracy(network, data):
    with torch.no_grad():
        guesses = torch.cat([network(part).argmax(1) for part in data[0].split(500)])
    return (guesses == data[1]).float().mean().item()


def train(model, options, rank, ranks):
    """The clock after every fifth step, and [seconds in steps, accuracy]."""
    images, labels = load_data("train")
    test = load_data("t10k") if rank == 0 and options.epochs else None
    epoch = len(labels) // (ranks * options.batch)
    steps = options.epochs * epoch or options.steps
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    clocks, curve, spent = [], [], 0.0
    for step in range(steps):
        if step % epoch == 0:
            order = torch.randperm(len(labels))[rank::ranks]
        began = time.perf_counter()
        if options.epochs:
            optimizer.param_groups[0]["lr"] = rate_at(step, steps, epoch)
        at = step % epoch * options.batch
        batch = order[at : at + options.batch]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
        now = time.perf_counter()
        spent += now - began
        if (step + 1) % GROUP == 0:
            clocks.append(now)
        if options.epochs and ((step + 1) % options.eval_every == 0 or step + 1 == steps):
            if rank == 0:
                curve.append([spent, accuracy(model.module, test)])
            dist.barrier()
    return {"clocks": clocks, "curve": curve, "step_s": spent / steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=0, help="instead of --steps, with evaluation")
    parser.add_argument("--eval-every", type=int, default=39)
    options = parser.parse_args()
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    ranks = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    cap = {"bucket_cap_mb": 1000} if options.method.startswith("powersgd") else {}
    model = nn.parallel.DistributedDataParallel(make_network(options.model), **cap)
    try:
        add_hook(model, options.method)
    except Exception as error:
        raise SystemExit(
            f"[ddp_peers] torch {torch.__version__} has no hook for {options.method}: {error}"
        )
    result = train(model, options, rank, ranks)
    if rank == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
