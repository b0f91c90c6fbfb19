#!/usr/bin/env python3
"""A rank of a training job under PyTorch DDP over gloo, which mpirun starts for
ddp_peers.py. Rank 0 prints the clock after every fifth step, what its host's
interface sent per step and, where epochs are trained, the accuracy over time, as
JSON."""

import argparse
import gzip
import json
import math
import os
import pathlib
import time

import ddp_methods
import torch
import torch.distributed as dist
from torch import nn

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
GROUP = 5  # steps that are timed as one
WARM_UP = 0.2  # of the run, one epoch at most
FIRST = 25  # steps whose bytes are not counted: buckets, exact steps, what plans measure
SENT = pathlib.Path("/sys/class/net/eth0/statistics/tx_bytes")


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


def share_of_rate(step, steps, epoch):
    """What `sluice train` does by default: rising, then half a cosine."""
    warm = max(1, min(epoch, int(WARM_UP * steps)))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def bytes_sent(state):
    """By this host, whatever they were for; outside a lab by sluice, as it counts."""
    if os.environ.get("DDP_PEERS_EMULATE"):
        return state.stats()["total"]["bytes_sent"]
    return int(SENT.read_text()) if SENT.exists() else 0


def place():
    """Rank and number of ranks, as mpirun or torchrun say."""
    of_mpi = "OMPI_COMM_WORLD_RANK" in os.environ
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE") if of_mpi else ("RANK", "WORLD_SIZE")
    return [int(os.environ[name]) for name in names]


def accuracy(network, data):
    with torch.no_grad():
        guesses = torch.cat([network(part).argmax(1) for part in data[0].split(500)])
    return (guesses == data[1]).float().mean().item()


def train(model, state, options, rank, ranks):
    """The clock after every fifth step, and [step, seconds in steps, accuracy]."""
    images, labels = load_data("train")
    test = load_data("t10k") if rank == 0 and options.epochs else None
    epoch = len(labels) // (ranks * options.batch)
    steps = options.epochs * epoch or options.steps
    optimizer = ddp_methods.make_optimizer(model, options.method)
    rate = optimizer.param_groups[0]["lr"]
    clocks, curve, spent, sent = [], [], 0.0, 0
    for step in range(steps):
        if step % epoch == 0:
            order = torch.randperm(len(labels))[rank::ranks]
        if step == FIRST:
            sent = bytes_sent(state)
        began = time.perf_counter()
        if options.epochs:
            optimizer.param_groups[0]["lr"] = rate * share_of_rate(step, steps, epoch)
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
                curve.append([step + 1, spent, accuracy(model.module, test)])
            dist.barrier()
    return {
        "clocks": clocks,
        "curve": curve,
        "step_s": spent / steps,
        "bytes_per_step": (bytes_sent(state) - sent) / (steps - FIRST),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=0, help="instead of --steps, with evaluation")
    parser.add_argument("--eval-every", type=int, default=39)
    options = parser.parse_args()
    rank, ranks = place()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    model = nn.parallel.DistributedDataParallel(
        make_network(options.model), **ddp_methods.settings_of_ddp(options.method)
    )
    try:
        state = ddp_methods.add_hook(model, options.method)
    except Exception as error:
        raise SystemExit(
            f"[ddp_peers] {options.method} cannot be made (torch {torch.__version__}): {error}"
        )
    result = train(model, state, options, rank, ranks)
    if rank == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    if state is not None:
        state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
