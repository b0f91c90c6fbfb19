#!/usr/bin/env python3
"""Trains one model with dense and with sparse exchange over the same slow
network and prints what that came to, in one table."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from accuracy_plot import draw

# Each with the optimizer and the rate that the program chooses for it: what is
# sparse has no momentum, and the rate that momentum comes to.
METHODS = {
    "dense": ["--sparsifier", "none", "--collective", "dense"],
    "dense-bf16": ["--sparsifier", "none", "--collective", "dense-bf16"],
    "adtopk 1 %": ["--sparsifier", "adtopk", "--density", "0.01"],
}
FREE_STEPS = 60
SLACK = 0.005  # of accuracy, that a method may be behind dense


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--program", default="build/demo/bin/sluice")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--net", default="50us,1Gbit", help="emulated network")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--batch-size", type=int, default=16, help="per worker")
    parser.add_argument("--epochs", type=int, default=1, help="of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="keep the run folders here")
    parser.add_argument("--json", action="store_true", help="print JSON rows")
    parser.add_argument("--picture", type=pathlib.Path, help="an SVG: accuracy over time")
    return parser.parse_args()


def train(options, method, folder, *more):
    command = [
        options.program,
        "train",
        *["--model", options.model, "--dataset", "fashion-mnist"],
        *["--workers", str(options.workers)],
        *["--batch-size", str(options.batch_size)],
        *["--epochs", str(options.epochs)],
        *["--seed", str(options.seed)],
        *["--log-every", "10", "--out", str(folder)],
        *METHODS[method],
        *more,
    ]
    print(f"[demo] {method}: {' '.join(command)}", file=sys.stderr, flush=True)
    log = subprocess.PIPE if not sys.stderr.isatty() else None
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=log)
    if done.returncode != 0:
        if done.stderr:
            sys.stderr.write(done.stderr.decode())
        sys.exit(f"[demo] {method} ended with status {done.returncode}")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def recipe(folder):
    config = json.loads((folder / "config.json").read_text())
    return f"{config['optimizer']}, lr {config['lr']:g}"


def curve(rows):
    """(seconds of training, accuracy) at each evaluation."""
    seconds, last, out = 0.0, 0, []
    for row in rows:
        if row["kind"] == "train":
            seconds += row["step_s"] * (row["step"] - last)
            last = row["step"]
        elif row["kind"] == "eval":
            out.append((seconds, row["accuracy"]))
    return out


def median(values):
    return sorted(values)[len(values) // 2]


def step_of(rows):
    return median([row["step_s"] for row in rows if row["kind"] == "train"])


def summarise(method, rows, target, free, optimizer):
    steps = [row for row in rows if row["kind"] == "train"]
    step = step_of(rows)
    reached = [t for t, accuracy in curve(rows) if accuracy >= target]
    return {
        "method": method,
        "optimizer": optimizer,
        "steps": steps[-1]["step"],
        "step_ms": 1e3 * step,
        "free_step_ms": 1e3 * free,
        "exposed_share": median([r["exposed_s"] for r in steps]) / step,
        "seconds_to_target": reached[0] if reached else None,
        "mb_per_step": median([r["bytes_per_step"] for r in steps]) / 1e6,
        "accuracy": curve(rows)[-1][1],
    }


def table(rows, target):
    base = rows[0]
    head = (
        f"{'method':<12} {'steps':>6} {'ms/step':>8} {'free':>6} "
        f"{'waiting':>8} {'MB/step':>8} {'accuracy':>9} "
        f"{f's to {target:.1%}':>11} {'step':>6} {'to target':>10}  optimizer"
    )
    yield head
    for row in rows:
        seconds = row["seconds_to_target"]
        gain = base["seconds_to_target"] / seconds if seconds else None
        yield (
            f"{row['method']:<12} {row['steps']:>6} {row['step_ms']:>8.1f} "
            f"{row['free_step_ms']:>6.1f} {row['exposed_share']:>8.0%} {row['mb_per_step']:>8.3f} "
            f"{row['accuracy']:>9.2%} "
            f"{f'{seconds:.1f}' if seconds else 'never':>11} "
            f"{base['step_ms'] / row['step_ms']:>5.1f}x "
            f"{f'{gain:.1f}x' if gain else '-':>10}  {row['optimizer']}"
        )


def picture(runs, target, options):
    curves = {m: [(seconds, 100 * accuracy) for seconds, accuracy in curve(rows)] for m, rows in runs.items()}
    network = options.net.replace("us,", " \u00b5s, ").replace("Gbit", " Gbit/s").replace("Mbit", " Mbit/s")
    return draw(
        f"{options.model} on Fashion-MNIST: accuracy over time",
        curves,
        low=70,
        subtitle=f"emulated network {network}, {options.workers} workers of batch {options.batch_size}, "
        f"seed {options.seed}",
        mark=100 * target,
    )


def first_look(options, out):
    """Soon, and of few steps: how long a step takes, dense and sparse."""
    few = ["--net", options.net, "--max-steps", str(FREE_STEPS), "--eval-every", "0"]
    for i, method in enumerate(METHODS):
        step = 1e3 * step_of(train(options, method, out / f"look{i}", *few))
        print(f"[demo] {method}: {step:.1f} ms per step, of {FREE_STEPS} steps", file=sys.stderr, flush=True)


def main():
    options = parse_arguments()
    if not os.access(options.program, os.X_OK):
        sys.exit(f"[demo] no program at {options.program}; run tools/demo")
    out = pathlib.Path(options.out or tempfile.mkdtemp(prefix="sluice-demo-"))
    first_look(options, out)
    runs, free, recipes = {}, {}, {}
    # The fastest first, so that there is something to see soon.
    for method in reversed(METHODS):
        folder = out / method.replace(" ", "").replace("%", "")
        shutil.rmtree(folder, ignore_errors=True)
        slow = ["--net", options.net, "--eval-every", "50"]
        runs[method] = train(options, method, folder / "slow", *slow)
        # By the same plan: without a network another one might be faster.
        few = ["--max-steps", str(FREE_STEPS), "--eval-every", "0", "--plan", str(folder / "slow" / "plan.json")]
        free[method] = step_of(train(options, method, folder / "free", *few))
        recipes[method] = recipe(folder / "slow")
        seconds, accuracy = curve(runs[method])[-1]
        print(
            f"[demo] {method}: {1e3 * step_of(runs[method]):.1f} ms per step, accuracy {accuracy:.1%} after {seconds:.0f} s of training",
            file=sys.stderr,
            flush=True,
        )
    target = curve(runs["dense"])[-1][1] - SLACK
    rows = [summarise(m, runs[m], target, free[m], recipes[m]) for m in METHODS]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(
            f"\n{options.model} on Fashion-MNIST, {options.workers} workers "
            f"of batch {options.batch_size}, emulated network {options.net}\n"
        )
        print("\n".join(table(rows, target)))
        print(
            "\nfree: ms/step without the emulated network, the least that any "
            "method could reach here.\nwaiting: share of the step after "
            "backward that waits for the exchange (and, with more workers\nthan "
            "cores, for each other). On your own machines:\n  mpirun -n 4 --hostfile HOSTS "
            "build/release/bin/sluice train --preset mlp-fashion-mnist --out runs/a"
        )
    if options.picture:
        options.picture.write_text(picture(runs, target, options))
    if not options.out:
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
