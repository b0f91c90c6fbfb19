"""A small network on Fashion-MNIST, by DistributedDataParallel and two lines of sluice.

    torchrun --nproc-per-node 2 examples/python/fashion_mnist.py
"""

import argparse
import gzip
import pathlib

import numpy
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import sluice


def read(path, skip):
    """The bytes of an IDX file behind its header."""
    with gzip.open(path) as file:
        return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8, offset=skip).copy())


def load(folder, part):
    images = read(folder / f"{part}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).float() / 255
    return images, read(folder / f"{part}-labels-idx1-ubyte.gz", 8).long()


def make_model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 4 * 4, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--density", type=float, default=0.01)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)

    ddp = DistributedDataParallel(make_model())
    sync = sluice.attach(ddp, sparsifier="adtopk", density=options.density)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)

    images, labels = load(options.data, "train")
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(options.steps):
        batch = torch.randint(len(labels), (64,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(ddp(images[batch]), labels[batch]).backward()
        optimizer.step()

    images, labels = load(options.data, "t10k")
    with torch.no_grad():
        right = (ddp.module(images).argmax(1) == labels).float().mean().item()
    if dist.get_rank() == 0:
        sent = sync.stats()["total"]["bytes_sent"] / options.steps
        dense = 4 * sum(p.numel() for p in ddp.parameters())
        print(f"accuracy {100 * right:.1f} %, {sent / 1e3:.1f} kB sent per step; all gradients are {dense / 1e3:.1f} kB")
    sync.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
