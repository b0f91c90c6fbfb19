#!/usr/bin/env python3
"""Steps of one training job under PyTorch DDP over gloo and under `sluice
train`, on four hosts of tools/netlab, in one table.

Same network, batch, data (Fashion-MNIST), optimizer and rate of the wire; one
thread per rank. Every method is a job of its own, and rounds of all of them are
run in turns, so that a ratio is of one run. The time of a step is the clock over
five steps, a fifth of it, on rank 0; printed is the median over all of these
after the first ten steps. Run it with the Python that has torch, as root.

  ddp                   DDP as it is
  fp16, bf16            its compression hooks (DDP refuses bf16 on a CPU by the
                        hook's name; under another name it runs)
  powersgd-1, -2, -4    powerSGD_hook of that rank, all in one bucket: with
                        several, gloo aborts
  topk-naive            1 %, ten lines of torch: topk, all_gather, error feedback
  dense, dense-bf16, topk, adtopk
                        `sluice train`, the last two with 1 %
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETLAB = ROOT / "tools" / "netlab"
LAB = "ddp-peers"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
HOSTS = 4
BATCH = 64
WARM_UP = 10
GROUP = 5  # steps that are timed as one
DENSITY = 0.01
PEERS = ["ddp", "fp16", "bf16", "powersgd-1", "powersgd-2", "powersgd-4", "topk-naive"]
OURS = {
    "dense": ["--sparsifier", "none", "--collective", "dense"],
    "dense-bf16": ["--sparsifier", "none", "--collective", "dense-bf16"],
    "topk": ["--sparsifier", "topk", "--density", str(DENSITY)],
    "adtopk": ["--sparsifier", "adtopk", "--density", str(DENSITY)],
}


def stop(message):
    sys.exit(f"[ddp_peers] {message}")


# --- a rank of a DDP job --------------------------------------------------


def make_network(name):
    from torch import nn

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


def load_data(torch):
    """Fashion-MNIST, or noise of its shape where its files are not."""
    if not DATA.exists():
        return torch.randn(60000, 1, 28, 28), torch.arange(60000) % 10
    raw = [
        torch.frombuffer(bytearray(gzip.decompress(file.read_bytes())[skip:]), dtype=torch.uint8)
        for file, skip in (
            (DATA / "train-images-idx3-ubyte.gz", 16),
            (DATA / "train-labels-idx1-ubyte.gz", 8),
        )
    ]
    images = (raw[0].reshape(-1, 1, 28, 28).float() / 255 - 0.286) / 0.353
    return images, raw[1].long()


def naive_topk(state, bucket):
    """The k largest of a bucket, by an all-gather of values and indices."""
    import torch
    import torch.distributed as dist

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
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

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


def run_rank(method, options):
    """Trains as one of the ranks that mpirun started; rank 0 prints the clock
    after every fifth step."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    ranks = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    images, labels = load_data(torch)
    network = make_network(options.model)
    cap = {"bucket_cap_mb": 1000} if method.startswith("powersgd") else {}
    model = torch.nn.parallel.DistributedDataParallel(network, **cap)
    try:
        add_hook(model, method)
    except Exception as error:
        raise SystemExit(f"[ddp_peers] torch {torch.__version__} has no hook for {method}: {error}")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = torch.randperm(len(labels))[rank::ranks]
    clocks = []
    for step in range(options.steps):
        at = step * BATCH % (len(order) - BATCH)
        batch = order[at : at + BATCH]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
        if (step + 1) % GROUP == 0:
            clocks.append(time.perf_counter())
    if rank == 0:
        print(json.dumps({"clocks": clocks}), flush=True)
    dist.destroy_process_group()


# --- jobs -----------------------------------------------------------------


def run_job(lab, command, variables=()):
    """What the job printed on all ranks; None and what it said if it failed."""
    settings = [part for v in variables for part in ("--env", v)]
    done = subprocess.run(
        [NETLAB, "run", "--name", lab, "--grace", "1", *settings, "--", *map(str, command)],
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return done.stdout, ""
    said = [line for line in done.stderr.splitlines() if line.startswith("[ddp_peers]")]
    said = said or [line for line in done.stderr.splitlines() if "rror" in line] or ["?"]
    return None, said[0].removeprefix("[ddp_peers] ")


def clocks_of_peer(method, options):
    variables = ["GLOO_SOCKET_IFNAME=eth0", f"MASTER_ADDR={options.lab}-h1", "MASTER_PORT=29500"]
    command = [sys.executable, __file__, "--rank-of", method, "--model", options.model]
    out, said = run_job(options.lab, [*command, "--steps", options.steps], variables)
    if out is None:
        return None, said
    lines = [line for line in out.splitlines() if line.startswith('{"clocks"')]
    return json.loads(lines[0])["clocks"], ""


def clocks_of_ours(method, options):
    data = "fashion-mnist" if DATA.exists() else "synthetic:height=28,width=28,channels=1"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *[options.program, "train", "--model", options.model, "--dataset", data],
            *["--batch-size", BATCH, "--threads", 1, "--max-steps", options.steps],
            *["--log-every", GROUP, "--eval-every", 0, "--replica-check", 0],
            *["--out", f"{folder}/run", *OURS[method]],
        ]
        out, said = run_job(options.lab, command)
        if out is None:
            return None, said
        lines = pathlib.Path(folder, "run", "metrics.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        return [row["time_s"] for row in rows if row["kind"] == "train"], ""


def times_of(method, options):
    """Milliseconds per step, of each five after the warm-up."""
    clocks, said = (clocks_of_ours if method in OURS else clocks_of_peer)(method, options)
    if clocks is None:
        print(f"[ddp_peers] {method} does not run: {said}", file=sys.stderr, flush=True)
        return []
    first = WARM_UP // GROUP - 1
    return [1e3 * (b - a) / GROUP for a, b in zip(clocks[first:], clocks[first + 1 :])]


def run_rounds(methods, options):
    """Per method a list of times per round; a method that failed is left out."""
    times = {method: [] for method in methods}
    for number in range(options.rounds):
        # Forth and back, so that what drifts hits all alike.
        for method in list(times)[:: 1 if number % 2 == 0 else -1]:
            new = times_of(method, options)
            if not new:
                del times[method]
                continue
            times[method].append(new)
            median = statistics.median(new)
            print(f"[ddp_peers] {method}: {median:.1f} ms", file=sys.stderr, flush=True)
    return times


def print_table(times, options):
    base = times.get("ddp")
    print(f"{options.model}, batch {BATCH}, {HOSTS} hosts at {options.rate}, ", end="")
    print(f"{options.rounds} rounds of {options.steps} steps")
    print(f"{'method':14} {'ms per step':>12} {'low':>8} {'high':>8} {'of ddp':>8}")
    for method, rounds in times.items():
        medians = [statistics.median(new) for new in rounds]
        all_times = [t for new in rounds for t in new]
        ratio = "-"
        if base:
            pairs = zip(medians, (statistics.median(new) for new in base))
            ratio = f"{statistics.median(a / b for a, b in pairs):.2f}"
        print(
            f"{method:14} {statistics.median(all_times):>12.1f} {min(medians):>8.1f}"
            f" {max(medians):>8.1f} {ratio:>8}"
        )
    print("low, high: medians of rounds; of ddp: median over rounds")


# --- the lab --------------------------------------------------------------


def check_machine(options, methods):
    if os.geteuid() != 0:
        stop("needs root for tools/netlab (network namespaces); try sudo")
    if any(m in OURS for m in methods) and not options.program.is_file():
        stop(f"no program {options.program}; build it, or name it by --program")
    if any(m in PEERS for m in methods):
        try:
            import torch.distributed as dist
        except ImportError:
            stop(f"{sys.executable} has no torch; run this with one that has (.venv/bin/python)")
        if not (dist.is_available() and dist.is_gloo_available()):
            stop("this torch is built without gloo")


def with_lab(options, action):
    check = ["--no-check"] if options.no_check else []
    up = [NETLAB, "up", "--name", options.lab, "--hosts", HOSTS, "--rate", options.rate, *check]
    done = subprocess.run(list(map(str, up)), stdout=sys.stderr)
    if done.returncode != 0:
        stop("tools/netlab cannot make the hosts, see above")
    try:
        return action()
    finally:
        subprocess.run([NETLAB, "down", "--name", options.lab], stdout=sys.stderr)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", default="1gbit", help="of each host: 100mbit, 1gbit (default) ...")
    parser.add_argument("--model", default="mlp", choices=["mlp", "lenet"])
    parser.add_argument("--steps", type=int, default=60, help="of a job (default 60)")
    parser.add_argument("--rounds", type=int, default=3, help="jobs per method (default 3)")
    parser.add_argument("--only", help="methods, joined by ','; default: all")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/sluice")
    parser.add_argument("--lab", default=LAB, help=f"name of the lab (default {LAB})")
    parser.add_argument("--no-check", action="store_true", help="do not measure the lab's rate first")
    parser.add_argument("--rank-of", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = [*PEERS, *OURS]
    methods = options.only.split(",") if options.only else known
    for method in methods:
        if method not in known:
            parser.error(f"no method '{method}'; known: {' '.join(known)}")
    if options.steps < WARM_UP + GROUP:
        parser.error(f"--steps must be at least {WARM_UP + GROUP}, got {options.steps}")
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    options.program = options.program.resolve()
    return options, methods


def main():
    options, methods = parse_arguments()
    if options.rank_of:
        run_rank(options.rank_of, options)
        return
    check_machine(options, methods)
    times = with_lab(options, lambda: run_rounds(methods, options))
    print_table(times, options)
    if len(times) < len(methods):
        sys.exit(1)


if __name__ == "__main__":
    main()
