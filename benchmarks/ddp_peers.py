#!/usr/bin/env python3
"""One training job by every way that PyTorch DDP has to exchange gradients over
gloo, on four hosts of tools/netlab, in one table: the time of a step and what the
interface sent, or with --epochs also the accuracy and the seconds to a target.

Same network, batch, data (Fashion-MNIST), seed and rate of the wire; one thread per
rank. Every method is a job of its own, and rounds of all of them are run in turns, so
that a ratio is of one run. The time of a step is the clock over five steps, a fifth
of it, on rank 0; printed is the median over all of these after the first 25 steps, by
21 of which ours are planned.
Bytes are those of rank 0's interface (tx_bytes), headers of TCP and all. What keeps
residuals trains by SGD without momentum and a rate of 0.5, the others with momentum
0.9 and a rate of 0.05; with --epochs all rates rise for a fifth of the run, one epoch
at most, and fall as half a cosine. Run it with the Python that has torch, as root.

  ddp                DDP as it is
  fp16               fp16_compress_hook
  bf16-own           three lines of torch: bf16_compress_hook refuses CPUs
  powersgd-R         powerSGD_hook of rank R, after ten exact steps, all in one bucket:
  batched-R          with several, gloo aborts; and batched_powerSGD_hook, which fails in
                     torch 2.13 but for the repair in ddp_methods.py
  postlocal-H        PostLocalSGDOptimizer: after ten exact steps, weights are averaged
                     every H steps and gradients not at all
  topk-naive@D       ten lines of torch: topk, all_gather, error feedback
  attach-none        sluice.attach with sparsifier "none"; attach-bf16: by dense-bf16
  attach-topk@D      sluice.attach with that sparsifier and density
  dense, dense-bf16, topk@D, adtopk@D
                     `sluice train`, where --only names them

With --emulate ALPHA,RATE four ranks on this machine, without root: messages of
sluice.attach wait as that network would have them wait. Those of others are gloo's own
and do not: attach-none, whose all-reduce takes what a ring would, stands for DDP. Bytes
are then those that sluice counts.
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

from accuracy_plot import draw
from demo import curve

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANK = ROOT / "benchmarks" / "ddp_rank.py"
NETLAB = ROOT / "tools" / "netlab"
LAB = "ddp-peers"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
HOSTS = 4
BATCH = 64
WARM_UP = 25  # ours are planned by 21 of them
GROUP = 5  # steps that are timed as one
SLACK = 0.005  # what the target may lie below DDP's accuracy
METHODS = [
    *["ddp", "fp16", "bf16-own", "powersgd-1", "powersgd-2", "powersgd-4", "batched-4"],
    *["postlocal-4", "topk-naive@0.01", "attach-none", "attach-adtopk@0.01", "attach-topk@0.001"],
]
IS_TRAIN = re.compile(r"dense|dense-bf16|(topk|adtopk)@0?\.[0-9]+")


def stop(message):
    sys.exit(f"[ddp_peers] {message}")


# --- jobs -----------------------------------------------------------------


def run_job(command, variables=None):
    """What the job printed on all ranks; None and what it said if it failed."""
    variables = {**os.environ, **(variables or {})}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=variables)
    if done.returncode == 0:
        return done.stdout, ""
    said = [line for line in done.stderr.splitlines() if line.startswith("[ddp_peers]")]
    said = said or [line for line in done.stderr.splitlines() if "rror" in line] or ["?"]
    return None, said[0].removeprefix("[ddp_peers] ")


def in_lab(options, command, variables=()):
    settings = [part for v in variables for part in ("--env", v)]
    return [NETLAB, "run", "--name", options.lab, "--grace", "1", *settings, "--", *command]


def train_ddp(method, options):
    command = [RANK, method, "--model", options.model, "--batch", BATCH]
    command += ["--steps", options.steps, "--epochs", options.epochs]
    command += ["--eval-every", options.eval_every]
    if options.emulate:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", HOSTS]
        variables = {"PYTHONPATH": str(options.package), "DDP_PEERS_EMULATE": options.emulate}
        out, said = run_job([*torchrun, *command], variables)
    else:
        variables = ["GLOO_SOCKET_IFNAME=eth0", f"MASTER_ADDR={options.lab}-h1", "MASTER_PORT=29500"]
        variables += [f"PYTHONPATH={options.package}"]
        out, said = run_job(in_lab(options, [sys.executable, *command], variables))
    if out is None:
        return None, said
    lines = [line for line in out.splitlines() if line.startswith('{"clocks"')]
    return json.loads(lines[0]), ""


def arguments_of(method):
    if method.startswith("dense"):
        return ["--sparsifier", "none", "--collective", method]
    sparsifier, density = method.split("@")
    return ["--sparsifier", sparsifier, "--density", density]


def train_program(method, options):
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
        out, said = run_job(in_lab(options, command))
        if out is None:
            return None, said
        lines = pathlib.Path(folder, "run", "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    steps = [row for row in rows if row["kind"] == "train"]
    at = [row["step"] for row in rows if row["kind"] == "eval"]
    return {
        "clocks": [row["time_s"] for row in steps],
        "curve": [[step, *point] for step, point in zip(at, curve(rows))],
        "step_s": sum(row["step_s"] for row in steps) / len(steps),
        "bytes_per_step": statistics.median(row["bytes_per_step"] for row in steps),
    }, ""


def train(method, options):
    """What came of a job; None, after a word, if it failed."""
    done, said = (train_program if IS_TRAIN.fullmatch(method) else train_ddp)(method, options)
    if done is None:
        print(f"[ddp_peers] {method} does not run: {said}", file=sys.stderr, flush=True)
    return done


def times_of(done):
    """Milliseconds per step, of each five after the warm-up."""
    clocks = done["clocks"]
    first = WARM_UP // GROUP - 1
    return [1e3 * (b - a) / GROUP for a, b in zip(clocks[first:], clocks[first + 1 :])]


def run_rounds(methods, options):
    """Per method the jobs of all rounds; a method that failed is left out."""
    jobs = {method: [] for method in methods}
    for number in range(options.rounds):
        # Forth and back, so that what drifts hits all alike.
        for method in list(jobs)[:: 1 if number % 2 == 0 else -1]:
            done = train(method, options)
            if done is None:
                del jobs[method]
                continue
            jobs[method].append(done)
            text = f"{statistics.median(times_of(done)):.1f} ms"
            if done["curve"]:
                text += f", {done['curve'][-1][2]:.2%}"
            print(f"[ddp_peers] {method}: {text}", file=sys.stderr, flush=True)
    return jobs


# --- tables ---------------------------------------------------------------


def heading(options):
    network = f"at {options.emulate}, emulated" if options.emulate else f"at {options.rate}"
    text = f"{options.model}, batch {BATCH}, {HOSTS} hosts {network}, {options.rounds} rounds of "
    return text + (f"{options.epochs} epochs" if options.epochs else f"{options.steps} steps")


def print_times(jobs, options):
    base = jobs.get("ddp")
    print(heading(options))
    print(f"{'method':18} {'ms per step':>12} {'low':>8} {'high':>8} {'of ddp':>8} {'kB per step':>12}")
    for method, rounds in jobs.items():
        medians = [statistics.median(times_of(done)) for done in rounds]
        ratio = "-"
        if base:
            pairs = zip(medians, (statistics.median(times_of(done)) for done in base))
            ratio = f"{statistics.median(a / b for a, b in pairs):.3f}"
        print(
            f"{method:18} {statistics.median(medians):>12.1f} {min(medians):>8.1f}"
            f" {max(medians):>8.1f} {ratio:>8} {rounds[0]['bytes_per_step'] / 1e3:>12.1f}"
        )
    print("low, high: medians of rounds; of ddp: median over rounds")


def target_of(jobs, options):
    if options.target:
        return options.target / 100
    return jobs["ddp"][0]["curve"][-1][2] - SLACK if "ddp" in jobs else 0


def print_accuracies(jobs, options):
    target = target_of(jobs, options)
    print(f"target {target:.2%}" if target else "no target: give one by --target, or run ddp")
    print(f"{'method':18} {'accuracy':>9} {'steps to it':>12} {'s to it':>9} {'low':>7} {'high':>7}")
    for method, rounds in jobs.items():
        final = statistics.median(done["curve"][-1][2] for done in rounds)
        reached = [next((p for p in done["curve"] if target and p[2] >= target), None) for done in rounds]
        if None in reached:
            print(f"{method:18} {final:>9.2%} {'-':>12} {'-':>9}")
            continue
        seconds = [point[1] for point in reached]
        print(
            f"{method:18} {final:>9.2%} {statistics.median(p[0] for p in reached):>12.0f}"
            f" {statistics.median(seconds):>9.1f} {min(seconds):>7.1f} {max(seconds):>7.1f}"
        )
    print("s to it: seconds in training steps until an evaluation was above the target")


def plot(jobs, options):
    names = options.plot_only.split(",") if options.plot_only else list(jobs)
    curves = {
        name: [(seconds, 100 * accuracy) for _, seconds, accuracy in jobs[name][0]["curve"]]
        for name in names
        if name in jobs
    }
    title = f"{options.model} on Fashion-MNIST beside PyTorch DDP"
    text = draw(title, curves, subtitle=f"four hosts over TCP at {options.rate}, batch {BATCH} each, one seed")
    options.plot.write_text(text)


def show(jobs, options):
    print_times(jobs, options)
    if not options.epochs:
        return
    print_accuracies(jobs, options)
    if options.plot:
        plot(jobs, options)


# --- the lab --------------------------------------------------------------


def check_machine(options, methods):
    if os.geteuid() != 0 and not options.emulate:
        stop("needs root for tools/netlab (network namespaces); try sudo")
    if any(IS_TRAIN.fullmatch(m) for m in methods) and not options.program.is_file():
        stop(f"no program {options.program}; build it, or name it by --program")
    try:
        import torch.distributed as dist
    except ImportError:
        stop(f"{sys.executable} has no torch; run this with one that has (.venv/bin/python)")
    if not (dist.is_available() and dist.is_gloo_available()):
        stop("this torch is built without gloo")


def check_methods(methods):
    from ddp_methods import known

    for method in methods:
        if not (known(method) or IS_TRAIN.fullmatch(method)):
            stop(f"no method '{method}'; known: {' '.join(METHODS)}, any rank or density")


def with_lab(options, action):
    if options.emulate:
        return action()
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
    parser.add_argument("--rate", default="1gbit", help="of each host: 100mbit, 1gbit (default), none")
    parser.add_argument("--emulate", default="", help="a network for sluice.attach alone, as in 50us,1Gbit")
    parser.add_argument("--model", default="mlp", choices=["mlp", "lenet"])
    parser.add_argument("--steps", type=int, default=60, help="of a job (default 60)")
    parser.add_argument("--rounds", type=int, default=3, help="jobs per method (default 3)")
    parser.add_argument("--only", help="methods, joined by ','; default: all but those of `sluice train`")
    parser.add_argument("--package", type=pathlib.Path, default=ROOT / "build/release/python")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/sluice")
    parser.add_argument("--lab", default=LAB, help=f"name of the lab (default {LAB})")
    parser.add_argument("--no-check", action="store_true", help="do not measure the lab's rate first")
    parser.add_argument("--epochs", type=int, default=0, help="train so long, and to accuracy")
    parser.add_argument("--eval-every", type=int, default=39, help="steps, with --epochs (39)")
    parser.add_argument("--target", type=float, default=0, help="percent; default: DDP's accuracy less 0.5")
    parser.add_argument("--save", type=pathlib.Path, help="write what was measured to this JSON file")
    parser.add_argument("--load", type=pathlib.Path, help="show what such a file has; run nothing")
    parser.add_argument("--plot", type=pathlib.Path, help="with --epochs: an SVG, accuracy over seconds")
    parser.add_argument("--plot-only", help="methods in it, joined by ','")
    options = parser.parse_args()
    if options.epochs < 0 or options.eval_every < 1:
        parser.error("--epochs must be at least 0 and --eval-every at least 1")
    if options.epochs and not options.load and not DATA.exists():
        parser.error(f"--epochs needs the package dataset-fashion-mnist ({DATA})")
    if options.plot and not options.epochs:
        parser.error("--plot needs accuracies, so --epochs")
    if options.steps < WARM_UP + GROUP:
        parser.error(f"--steps must be at least {WARM_UP + GROUP}, got {options.steps}")
    methods = options.only.split(",") if options.only else METHODS
    if options.emulate and not options.only:
        methods = [m for m in METHODS if m.startswith("attach-")]
    others = [m for m in methods if not m.startswith("attach-")]
    if options.emulate and others:
        parser.error(f"--emulate is for methods of sluice.attach, got '{others[0]}'")
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    options.program = options.program.resolve()
    options.package = options.package.resolve()
    return options, methods


def main():
    options, methods = parse_arguments()
    if options.load:
        jobs = json.loads(options.load.read_text())
    else:
        check_machine(options, methods)
        check_methods(methods)
        jobs = with_lab(options, lambda: run_rounds(methods, options))
    if options.save:
        options.save.write_text(json.dumps(jobs))
    show(jobs, options)
    if not options.load and len(jobs) < len(methods):
        sys.exit(1)


if __name__ == "__main__":
    main()
