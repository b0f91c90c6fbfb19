#!/usr/bin/env python3
"""Saves with one number of ranks and goes on with another.

    torchrun --nproc-per-node 4 examples/python/resume.py --save /tmp/run
    torchrun --nproc-per-node 2 examples/python/resume.py --load /tmp/run

Residuals are gradients that the weights have not seen yet. A state is loaded
from the files of all ranks, and the new ranks owe together what the old ones
owed: the last line of the first run and the first of the second say the same.
"""

import argparse
import glob
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from fashion_mnist import DATA, accuracy, batches_of, end_group, make_model, read_split
from torch.nn.parallel import DistributedDataParallel

import sluice


def save(folder, form, model, sync):
    """One file per rank by torch.save, or a checkpoint of them all."""
    state = {"model": model.state_dict(), "sluice": sync.state_dict()}
    if form == "dcp":
        dcp.save(state, checkpoint_id=folder)
        return
    os.makedirs(folder, exist_ok=True)
    torch.save(state, f"{folder}/rank{dist.get_rank()}.pt")


def load(folder, model, sync):
    """From either form; all ranks need the states of all that were."""
    if os.path.exists(f"{folder}/.metadata"):
        state = {"model": model.state_dict()}
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        sluice.load_checkpoint(sync, folder)
        return
    files = [torch.load(path, weights_only=True) for path in sorted(glob.glob(f"{folder}/rank*.pt"))]
    if not files:
        raise SystemExit(f"[resume] '{folder}' must hold what --save wrote, but has no rank0.pt")
    model.load_state_dict(files[0]["model"])
    sync.load_state_dict([file["sluice"] for file in files])


def owed(sync):
    """The norm of the mean of all residuals: what the weights have not seen."""
    residual = sync.state_dict()[f"rank{sync.rank}"]["residual"].double()
    dist.all_reduce(residual)
    return (residual / sync.world_size).norm().item()


def report(what, model, sync, test):
    total, right = owed(sync), accuracy(model, *test)
    if dist.get_rank() == 0:
        print(
            f"{what} at step {sync.stats()['step']} on {sync.world_size} ranks: "
            f"accuracy {right:.2%}, owed {total:.6f}"
        )


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", metavar="FOLDER", help="save there in the end")
    parser.add_argument("--load", metavar="FOLDER", help="go on from there")
    parser.add_argument("--form", default="torch", choices=["torch", "dcp"], help="of what is saved (%(default)s)")
    parser.add_argument("--data", default=DATA, help="folder of the IDX files (%(default)s)")
    parser.add_argument("--limit", type=int, default=20000, help="train with the first so many images (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=128, help="of all ranks together (%(default)s)")
    return parser.parse_args()


def main():
    options = parse()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    images, labels = read_split(options.data, "train", options.limit)
    test = read_split(options.data, "t10k", 2000)
    model = make_model()
    ddp = DistributedDataParallel(model)
    sync = sluice.attach(ddp, sparsifier="adtopk", density=0.01)
    if options.load:
        load(options.load, model, sync)
        report("loaded", model, sync, test)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.5)
    # Another order than that of the run before.
    for batch in batches_of(len(labels), options.batch_size // ranks, sync.stats()["step"], rank, ranks):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(images[batch]), labels[batch]).backward()
        optimizer.step()
    report("trained", model, sync, test)
    if options.save:
        save(options.save, options.form, model, sync)
    del ddp  # before its group
    end_group()


if __name__ == "__main__":
    main()
