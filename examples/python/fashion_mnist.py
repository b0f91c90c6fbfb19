#!/usr/bin/env python3
"""A CNN on Fashion-MNIST under DistributedDataParallel, sparse or dense.

    torchrun --nproc-per-node 2 examples/python/fashion_mnist.py
    torchrun --nproc-per-node 2 examples/python/fashion_mnist.py --dense

Prints the accuracy, and what a rank has sent beside what dense gradients take.
"""

import argparse
import gzip
import os
import pathlib
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import sluice

DATA = "/usr/share/datasets/fashion-mnist"  # Debian: apt-get install dataset-fashion-mnist


def read_split(folder, split, limit=None):
    """Images of mean 0 and variance 1, and labels; the first `limit` of them."""
    paths = [pathlib.Path(folder, f"{split}-{part}-ubyte.gz") for part in ("images-idx3", "labels-idx1")]
    if not all(path.exists() for path in paths):
        raise SystemExit(f"'{folder}' must hold {paths[0].name}; --data names a folder that does")
    # IDX: a header of 16 bytes before images, of 8 before labels.
    raw = [np.frombuffer(gzip.decompress(p.read_bytes()), np.uint8, offset=o) for p, o in zip(paths, (16, 8))]
    images = torch.from_numpy(raw[0].reshape(-1, 1, 28, 28)[:limit].astype(np.float32) / 255)
    return (images - 0.286) / 0.353, torch.from_numpy(raw[1][:limit].astype(np.int64))


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(
        *[nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10)],
    )


def batches_of(count, batch, epoch, rank, ranks):
    """This rank's share of one order that all ranks draw."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))[rank::ranks]
    return order[: count // ranks].split(batch)


@torch.no_grad()
def accuracy(model, images, labels):
    """Of all images, of which every rank looks at its share. A call of all ranks."""
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    guesses = torch.cat([model(part).argmax(1) for part in images[mine].split(1000)])
    right = (guesses == labels[mine]).sum()
    dist.all_reduce(right)
    return right.item() / len(labels)


def start_group():
    """The device of this rank: a GPU where each rank of the machine has one."""
    local, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpu = torch.cuda.device_count() >= here
    dist.init_process_group("nccl" if on_gpu else "gloo")
    return torch.device("cuda", local) if on_gpu else torch.device("cpu")


def end_group():
    """torch 2.13 aborts now and then if the interpreter ends while gloo's threads let
    go of a tensor that was reduced just before: leaves them a moment."""
    dist.destroy_process_group()
    time.sleep(0.1)


def train(ddp, optimizer, images, labels, options):
    """Seconds per step."""
    steps, began = 0, time.perf_counter()
    for epoch in range(options.epochs):
        for batch in batches_of(len(labels), options.batch_size, epoch, dist.get_rank(), dist.get_world_size()):
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(images[batch]), labels[batch]).backward()
            optimizer.step()
            steps += 1
    return (time.perf_counter() - began) / steps


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA, help="folder of the IDX files (%(default)s)")
    parser.add_argument("--limit", type=int, help="train with the first so many images only")
    parser.add_argument("--epochs", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="per rank (%(default)s)")
    parser.add_argument("--dense", action="store_true", help="DDP as it is, with momentum 0.9")
    parser.add_argument("--sparsifier", default="adtopk", help="a name of sluice.list() (%(default)s)")
    parser.add_argument("--density", type=float, default=0.01, help="share that is sent (%(default)s)")
    parser.add_argument("--lr", type=float, help="learning rate (0.05 dense, 0.5 sparse)")
    return parser.parse_args()


def main():
    options = parse()
    device = start_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    images, labels = (t.to(device) for t in read_split(options.data, "train", options.limit))
    ddp = DistributedDataParallel(make_model().to(device))
    sync = None
    if options.dense:
        optimizer = torch.optim.SGD(ddp.parameters(), lr=options.lr or 0.05, momentum=0.9)
    else:
        # What waits in residuals comes late, so momentum would repeat it late.
        optimizer = torch.optim.SGD(ddp.parameters(), lr=options.lr or 0.5)
        sync = sluice.attach(ddp, sparsifier=options.sparsifier, density=options.density)
    seconds = train(ddp, optimizer, images, labels, options)
    right = accuracy(ddp.module, *(t.to(device) for t in read_split(options.data, "t10k")))
    if rank == 0:
        print(f"accuracy {right:.2%}, {1e3 * seconds:.1f} ms per step")
        # A ring all-reduce: every rank sends its gradient twice, less its own part.
        dense = 4 * sum(p.numel() for p in ddp.parameters()) * 2 * (ranks - 1) / ranks
        if sync is None:
            print(f"a ring all-reduce sends {dense / 1e6:.3f} MB per step and rank")
        else:
            sent = sync.stats()["total"]["bytes_sent"] / sync.stats()["step"]
            print(f"sent {sent / 1e6:.3f} MB per step and rank, a dense ring all-reduce {dense / 1e6:.3f}")
    del ddp  # before its group
    end_group()


if __name__ == "__main__":
    main()
