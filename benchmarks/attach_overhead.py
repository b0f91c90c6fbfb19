#!/usr/bin/env python3
"""What sluice.attach costs where nothing is gained: a training step of plain
DistributedDataParallel and of one with sparsifier "none", over gloo on loopback.

Each rank holds two copies of the network and trains them in turns, so many steps
of one, then of the other; a ratio is of two blocks that follow one another, and
printed is the median of all, with the quarters around it, and the same of the
processor time of all ranks, which hardly depends on what else the machine does. One
thread per rank. Run it with the Python that has torch, with the package on PYTHONPATH:

  PYTHONPATH=build/release/python .venv/bin/python benchmarks/attach_overhead.py
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from ddp_rank import make_network
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make_model(options, attached):
    import sluice

    torch.manual_seed(1)
    model = DistributedDataParallel(
        make_network(options.model), gradient_as_bucket_view=options.views
    )
    if attached:
        sluice.attach(model, sparsifier=options.sparsifier, density=options.density)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, optimizer, batch, steps):
    """Seconds per step of the slowest rank, and processor seconds of all."""
    dist.barrier()
    began, began_work = time.perf_counter(), time.process_time()
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
    spent = torch.tensor([(time.perf_counter() - began) / steps])
    worked = torch.tensor([(time.process_time() - began_work) / steps])
    dist.all_reduce(spent, dist.ReduceOp.MAX)
    dist.all_reduce(worked)
    return spent.item(), worked.item()


def run_rank(rank, ranks, path, options, out):
    torch.set_num_threads(1)
    store = dist.FileStore(path, ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    batch = torch.randn(options.batch, 1, 28, 28), torch.arange(options.batch) % 10
    models = [make_model(options, attached) for attached in (False, True)]
    times = []
    for number in range(options.rounds + 1):
        # Forth and back, so that what drifts hits both alike.
        order = [0, 1] if number % 2 == 0 else [1, 0]
        spent = {which: train(*models[which], batch, options.steps) for which in order}
        times.append((spent[0], spent[1]))
    if rank == 0:
        out.put(times[1:])
    dist.barrier()
    dist.destroy_process_group()


def measure(ranks, options):
    """Per round, what a step of both took."""
    out = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        mp.spawn(run_rank, (ranks, path, options, out), ranks)
    return out.get()


def print_row(ranks, times):
    ratios, work = ([ours[i] / plain[i] for plain, ours in times] for i in (0, 1))
    low, middle, high = statistics.quantiles(ratios, n=4)
    plain, ours = (1e3 * statistics.median(t[which][0] for t in times) for which in (0, 1))
    print(
        f"{ranks:5} {plain:>10.2f} {ours:>10.2f} {middle:>8.3f} {low:>8.3f} {high:>8.3f}"
        f" {statistics.median(work):>8.3f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", default="1,2,3,4", help="joined by ',' (default 1,2,3,4)")
    parser.add_argument("--model", default="mlp", choices=["mlp", "lenet"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10, help="of a block (default 10)")
    parser.add_argument("--rounds", type=int, default=30, help="pairs of blocks (default 30)")
    parser.add_argument("--views", action="store_true", help="gradient_as_bucket_view=True")
    parser.add_argument("--sparsifier", default="none")
    parser.add_argument("--density", type=float, default=0.01)
    options = parser.parse_args()
    if options.rounds < 2 or options.steps < 1:
        parser.error("--rounds must be at least 2 and --steps at least 1")
    print(f"{options.model}, batch {options.batch}, {options.rounds} pairs of {options.steps} steps")
    print(f"{'ranks':5} {'plain, ms':>10} {'ours, ms':>10} {'ratio':>8} {'low':>8} {'high':>8}", end="")
    print(f" {'work':>8}")
    for ranks in map(int, options.ranks.split(",")):
        print_row(ranks, measure(ranks, options))


if __name__ == "__main__":
    main()
