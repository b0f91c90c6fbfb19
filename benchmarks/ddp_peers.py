#!/usr/bin/env python3
"""One training job under PyTorch DDP over gloo and under `sluice train`, on four
hosts of tools/netlab, in one table: the time of a step, or with --epochs the
accuracy and the seconds to a target.

Same network, batch, data (Fashion-MNIST) and rate of the wire; one thread per
rank. Every method is a job of its own, and rounds of all of them are run in
turns, so that a ratio is of one run. The time of a step is the clock over five
steps, a fifth of it, on rank 0; printed is the median over all of these after
the first ten steps. DDP and its hooks train by SGD with momentum 0.9 and a rate
of 0.05, `sluice train` by what it chooses by itself; with --epochs all rates
rise for a fifth of the run, one epoch at most, and fall as half a cosine. Run it
with the Python that has torch, as root.

  ddp                   DDP as it is
  fp16, bf16            its compression hooks (DDP refuses bf16 on a CPU by the
                        hook's name; under another name it runs)
  powersgd-R            powerSGD_hook of rank R, all in one bucket: with several,
                        gloo aborts; from the fifth step on
  topk-naive            1 %, ten lines of torch: topk, all_gather, error feedback
  dense, dense-bf16     `sluice train`
  topk@D, adtopk@D      the same with a density of D
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from demo import curve

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANK = ROOT / "benchmarks" / "ddp_rank.py"
NETLAB = ROOT / "tools" / "netlab"
LAB = "ddp-peers"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
HOSTS = 4
BATCH = 64
WARM_UP = 10
GROUP = 5  # steps that are timed as one
SLACK = 0.005  # what the target may lie below DDP's accuracy
PEERS = ["ddp", "fp16", "bf16", "powersgd-1", "powersgd-2", "powersgd-4", "topk-naive"]
OURS = ["dense", "dense-bf16", "topk@0.01", "adtopk@0.01", "topk@0.001"]
IS_PEER = re.compile(r"ddp|fp16|bf16|topk-naive|powersgd-[1-9][0-9]*")
IS_OURS = re.compile(r"dense|dense-bf16|(topk|adtopk)@0?\.[0-9]+")


def stop(message):
    sys.exit(f"[ddp_peers] {message}")


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


def train_peer(method, options):
    variables = ["GLOO_SOCKET_IFNAME=eth0", f"MASTER_ADDR={options.lab}-h1", "MASTER_PORT=29500"]
    command = [sys.executable, RANK, method, "--model", options.model, "--batch", BATCH]
    command += ["--steps", options.steps, "--epochs", options.epochs]
    command += ["--eval-every", options.eval_every]
    out, said = run_job(options.lab, command, variables)
    if out is None:
        return None, said
    lines = [line for line in out.splitlines() if line.startswith('{"clocks"')]
    return json.loads(lines[0]), ""


def arguments_of(method):
    if method.startswith("dense"):
        return ["--sparsifier", "none", "--collective", method]
    sparsifier, density = method.split("@")
    return ["--sparsifier", sparsifier, "--density", density]


def train_ours(method, options):
    data = "fashion-mnist" if DATA.exists() else "synthetic:height=28,width=28,channels=1"
    length = ["--max-steps", options.steps, "--eval-every", 0]
    if options.epochs:
        length = ["--epochs", options.epochs, "--eval-every", options.eval_every]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *[options.program, "train", "--model", options.model, "--dataset", data],
            *["--batch-size", BATCH, "--threads", 1, *length],
            *["--log-every", GROUP, "--replica-check", 0, "--checkpoint-every", 0],
            *["--out", f"{folder}/run", *arguments_of(method)],
        ]
        out, said = run_job(options.lab, command)
        if out is None:
            return None, said
        lines = pathlib.Path(folder, "run", "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    steps = [row for row in rows if row["kind"] == "train"]
    return {
        "clocks": [row["time_s"] for row in steps],
        "curve": curve(rows),
        "step_s": sum(row["step_s"] for row in steps) / len(steps),
    }, ""


def train(method, options):
    """What came of a job; None, after a word, if it failed."""
    done, said = (train_peer if IS_PEER.fullmatch(method) else train_ours)(method, options)
    if done is None:
        print(f"[ddp_peers] {method} does not run: {said}", file=sys.stderr, flush=True)
    return done


def times_of(method, options):
    """Milliseconds per step, of each five after the warm-up."""
    done = train(method, options)
    if done is None:
        return []
    clocks = done["clocks"]
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


def run_to_accuracy(methods, options):
    done = {}
    for method in methods:
        result = train(method, options)
        if result is None:
            continue
        done[method] = result
        text = f"{1e3 * result['step_s']:.1f} ms, {result['curve'][-1][1]:.2%}"
        print(f"[ddp_peers] {method}: {text}", file=sys.stderr, flush=True)
    return done


def print_accuracies(done, options):
    target = options.target / 100
    if not target and "ddp" in done:
        target = done["ddp"]["curve"][-1][1] - SLACK
    print(f"{options.model}, batch {BATCH}, {HOSTS} hosts at {options.rate}, ", end="")
    print(f"{options.epochs} epochs; target {target:.2%}" if target else f"{options.epochs} epochs")
    print(f"{'method':14} {'ms per step':>12} {'accuracy':>9} {'s to target':>12}")
    for method, result in done.items():
        reached = [s for s, accuracy in result["curve"] if target and accuracy >= target]
        print(
            f"{method:14} {1e3 * result['step_s']:>12.1f} {result['curve'][-1][1]:>9.2%}"
            f" {f'{reached[0]:.1f}' if reached else '-':>12}"
        )
    print("ms per step: mean over the run; s to target: in training steps")


# --- the lab --------------------------------------------------------------


def check_machine(options, methods):
    if os.geteuid() != 0:
        stop("needs root for tools/netlab (network namespaces); try sudo")
    if any(IS_OURS.fullmatch(m) for m in methods) and not options.program.is_file():
        stop(f"no program {options.program}; build it, or name it by --program")
    if any(IS_PEER.fullmatch(m) for m in methods):
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
    parser.add_argument("--epochs", type=int, default=0, help="train so long, and to accuracy")
    parser.add_argument("--eval-every", type=int, default=39, help="steps, with --epochs (39)")
    parser.add_argument(
        "--target", type=float, default=0, help="percent; default: DDP's accuracy less 0.5"
    )
    options = parser.parse_args()
    known = [*PEERS, *OURS]
    methods = options.only.split(",") if options.only else known
    for method in methods:
        if not (IS_PEER.fullmatch(method) or IS_OURS.fullmatch(method)):
            parser.error(f"no method '{method}'; known: {' '.join(known)}, any rank or density")
    if options.epochs < 0 or options.eval_every < 1:
        parser.error("--epochs must be at least 0 and --eval-every at least 1")
    if options.epochs and not DATA.exists():
        parser.error(f"--epochs needs the package dataset-fashion-mnist ({DATA})")
    if options.steps < WARM_UP + GROUP:
        parser.error(f"--steps must be at least {WARM_UP + GROUP}, got {options.steps}")
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    options.program = options.program.resolve()
    return options, methods


def main():
    options, methods = parse_arguments()
    check_machine(options, methods)
    run, show = (run_to_accuracy, print_accuracies) if options.epochs else (run_rounds, print_table)
    done = with_lab(options, lambda: run(methods, options))
    show(done, options)
    if len(done) < len(methods):
        sys.exit(1)


if __name__ == "__main__":
    main()
