#!/usr/bin/env python3
"""What sluice.attach costs where nothing is gained: a training step of plain
DistributedDataParallel and of one with sparsifier "none", over gloo on loopback or,
on GPUs, over nccl. Beside it torch's own allreduce_hook, which does what
DistributedDataParallel does without a hook: what any hook costs.

Each rank holds a copy of the network for each and trains them in turns, so many steps
of one, then of the next; a ratio is of blocks that follow one another, and
printed is the median of all, with the quarters around it, the same of torch's hook,
and of the processor time of all ranks, which hardly depends on what else the machine
does. One
thread per rank. On GPUs networks of 224 x 224 images train in bf16 (autocast),
channels-last, with TF32 and fused SGD, 64 images at a time. Run it with the Python
that has torch, with the package on PYTHONPATH:

  PYTHONPATH=build/release/python .venv/bin/python benchmarks/attach_overhead.py
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from ddp_rank import make_network
from gpu_models import CLASSES, SHAPE, model_reference
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


SMALL = ("mlp", "lenet")  # for CPUs


KINDS = ("plain", "ours", "hook")


def make_model(options, kind):
    import sluice

    torch.manual_seed(1)
    if options.model in SMALL:
        network = make_network(options.model).to(options.device)
    else:
        network = model_reference.make(options.model, "images", (*SHAPE, CLASSES))
        network = network.to(options.device, memory_format=torch.channels_last)
    model = DistributedDataParallel(network, gradient_as_bucket_view=options.views)
    if kind == "hook":
        model.register_comm_hook(None, default_hooks.allreduce_hook)
    if kind == "ours":
        sluice.attach(model, sparsifier=options.sparsifier, density=options.density)
    # Those of GPUs are many, and small.
    return model, torch.optim.SGD(model.parameters(), lr=0.01, fused=options.device == "cuda")


def make_batch(options):
    shape, classes = ((1, 28, 28), 10) if options.model in SMALL else (SHAPE, CLASSES)
    images = torch.randn(options.batch, *shape, device=options.device)
    if options.model not in SMALL:
        images = images.contiguous(memory_format=torch.channels_last)
    return images, torch.arange(options.batch, device=options.device) % classes


def train(model, optimizer, batch, steps):
    """Seconds per step of the slowest rank, and processor seconds of all."""
    device = batch[0].device
    settle = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    dist.barrier()
    settle()
    began, began_work = time.perf_counter(), time.process_time()
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
    settle()
    spent = torch.tensor([(time.perf_counter() - began) / steps], device=device)
    worked = torch.tensor([(time.process_time() - began_work) / steps], device=device)
    dist.all_reduce(spent, dist.ReduceOp.MAX)
    dist.all_reduce(worked)
    return spent.item(), worked.item()


def run_rank(rank, ranks, path, options, out):
    torch.set_num_threads(1)
    store = dist.FileStore(path, ranks)
    backend = "gloo"
    if options.device == "cuda":
        backend = "nccl"
        torch.cuda.set_device(rank % torch.cuda.device_count())
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    batch = make_batch(options)
    models = {kind: make_model(options, kind) for kind in KINDS}
    times = []
    for number in range(options.rounds + 1):
        # Forth and back, so that what drifts hits both alike.
        order = KINDS if number % 2 == 0 else KINDS[::-1]
        times.append({kind: train(*models[kind], batch, options.steps) for kind in order})
    if rank == 0:
        out.put(times[1:])
    dist.barrier()
    dist.destroy_process_group()


def measure(ranks, options):
    """Per round, what a step of each took."""
    out = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        mp.spawn(run_rank, (ranks, path, options, out), ranks)
    return out.get()


def row_of(ranks, times):
    ratios, work = ([t["ours"][i] / t["plain"][i] for t in times] for i in (0, 1))
    low, middle, high = statistics.quantiles(ratios, n=4)
    plain, ours = (statistics.median(t[kind][0] for t in times) for kind in ("plain", "ours"))
    hook = statistics.median(t["hook"][0] / t["plain"][0] for t in times)
    names = ("ranks", "plain_s", "ours_s", "ratio", "low", "high", "hook", "work")
    return dict(zip(names, (ranks, plain, ours, middle, low, high, hook, statistics.median(work))))


def print_row(row):
    print(
        f"{row['ranks']:5} {1e3 * row['plain_s']:>10.2f} {1e3 * row['ours_s']:>10.2f} {row['ratio']:>8.3f}"
        f" {row['low']:>8.3f} {row['high']:>8.3f} {row['hook']:>8.3f} {row['work']:>8.3f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", default="1,2,3,4", help="joined by ',' (default 1,2,3,4)")
    parser.add_argument("--model", default="mlp", help="mlp (default), lenet, or one for GPUs, as resnet50")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", action="store_true", help="a line per number of ranks, for programs")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10, help="of a block (default 10)")
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each (default 30)")
    parser.add_argument("--views", action="store_true", help="gradient_as_bucket_view=True")
    parser.add_argument("--sparsifier", default="none")
    parser.add_argument("--density", type=float, default=0.01)
    options = parser.parse_args()
    if options.rounds < 2 or options.steps < 1:
        parser.error("--rounds must be at least 2 and --steps at least 1")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs a GPU, but torch sees none")
    if not options.json:
        print(f"{options.model}, batch {options.batch}, {options.rounds} blocks of {options.steps} steps each")
        print(f"{'ranks':5} {'plain, ms':>10} {'ours, ms':>10} {'ratio':>8} {'low':>8} {'high':>8}", end="")
        print(f" {'hook':>8} {'work':>8}")
    for ranks in map(int, options.ranks.split(",")):
        row = row_of(ranks, measure(ranks, options))
        print(json.dumps(row), flush=True) if options.json else print_row(row)


if __name__ == "__main__":
    main()
