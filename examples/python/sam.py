#!/usr/bin/env python3
"""Sharpness-aware minimization (SAM), and steps that are dropped for their norm.

    torchrun --nproc-per-node 2 examples/python/sam.py

SAM takes a gradient to move the weights uphill, and another one there to learn from.
The first is each rank's own and is not exchanged: sync.paused(). The second runs in
sync.tentative(), so that a step whose norm is too large leaves nothing behind:
sync.discard().
"""

import argparse

import torch
import torch.distributed as dist
from fashion_mnist import DATA, accuracy, batches_of, end_group, make_model, read_split, start_group
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import sluice


@torch.no_grad()
def climb(parameters, rho):
    """Moves weights by rho along their gradient; returns what they were."""
    norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in parameters]))
    before = [p.clone() for p in parameters]
    for p in parameters:
        p += rho / (norm + 1e-12) * p.grad
    return before


@torch.no_grad()
def return_to(parameters, before):
    # Copied, not subtracted: all ranks must have the same bits again.
    for p, values in zip(parameters, before):
        p.copy_(values)


def train(ddp, sync, optimizer, images, labels, options):
    """The number of steps that were dropped."""
    parameters, dropped = list(ddp.parameters()), 0
    for batch in batches_of(len(labels), options.batch_size, 0, dist.get_rank(), dist.get_world_size()):
        optimizer.zero_grad()
        with sync.paused():
            nn.functional.cross_entropy(ddp(images[batch]), labels[batch]).backward()
        before = climb(parameters, options.rho)
        optimizer.zero_grad()
        with sync.tentative():
            nn.functional.cross_entropy(ddp(images[batch]), labels[batch]).backward()
        return_to(parameters, before)
        # All ranks have the same mean, and decide alike. That of a skipped step is NaN.
        if nn.utils.clip_grad_norm_(parameters, torch.inf) <= options.max_norm:
            optimizer.step()
        else:
            sync.discard()
            dropped += 1
    return dropped


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA, help="folder of the IDX files (%(default)s)")
    parser.add_argument("--limit", type=int, default=20000, help="train with the first so many images (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="per rank (%(default)s)")
    parser.add_argument("--rho", type=float, default=0.05, help="how far SAM climbs (%(default)s)")
    parser.add_argument("--max-norm", type=float, default=5.0, help="drop steps of a larger norm (%(default)s)")
    parser.add_argument("--sparsifier", default="adtopk", help="a name of sluice.list() (%(default)s)")
    parser.add_argument("--density", type=float, default=0.01, help="share that is sent (%(default)s)")
    parser.add_argument("--lr", type=float, default=0.3, help="learning rate (%(default)s)")
    return parser.parse_args()


def main():
    options = parse()
    device = start_group()
    images, labels = (t.to(device) for t in read_split(options.data, "train", options.limit))
    ddp = DistributedDataParallel(make_model().to(device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=options.lr)
    sync = sluice.attach(ddp, sparsifier=options.sparsifier, density=options.density)
    dropped = train(ddp, sync, optimizer, images, labels, options)
    right = accuracy(ddp.module, *(t.to(device) for t in read_split(options.data, "t10k")))
    if dist.get_rank() == 0:
        stats = sync.stats()
        print(f"accuracy {right:.2%} after {stats['step']} steps, {dropped} of them dropped")
        print(f"sent {stats['total']['bytes_sent'] / stats['step'] / 1e6:.3f} MB per step and rank")
    del ddp  # before its group
    end_group()


if __name__ == "__main__":
    main()
