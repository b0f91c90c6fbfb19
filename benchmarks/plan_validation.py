#!/usr/bin/env python3
"""Predicted against measured steps of plans.

usage: plan_validation.py SLUICE [--models ...] [--rates ...] [--planners ...] [--workers 2] [--steps 60] [--json]

Profiles every model as it trains with that many workers, then trains it by every planner
behind every emulated network, from that profile alone, and puts the step that the start of
each run expects beside the median of what its windows of ten steps took. Ends with the
median and the worst error, and for every model and rate with how far auto is from the best
of the other planners. Takes about five minutes for the defaults on two cores, which should
have nothing else to do.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

IMAGES = "synthetic:channels=3,height=32,width=32,train=8000,test=64"
GREY = "synthetic:train=16000,test=64"
DATA = {"resnet20": IMAGES, "resnet56": IMAGES, "vgg16": IMAGES}
# So many that a step takes tens of milliseconds: below that a core's other work decides.
BATCHES = {"mlp": 256, "lenet": 256, "mnistnet": 256, "fcn5net": 1024, "resnet20": 16}
WARM_UP = 20  # steps


def train(arguments, model, out, *args):
    command = [arguments.sluice, "train", "--model", model, "--dataset", DATA.get(model, GREY), "--workers",
               arguments.workers, "--threads", 1, "--batch-size", BATCHES.get(model, 32), "--max-steps", arguments.steps,
               "--log-every", 10, "--eval-every", 0, "--sparsifier", arguments.sparsifier, "--density", 0.01,
               "--lr", 0.01, "--replica-check", 0, "--out", out, *args]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"[plan_validation] failed: {' '.join(map(str, command))}\n{done.stderr}")
    rows = [json.loads(line) for line in (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines()]
    windows = [row["step_s"] for row in rows if row["kind"] == "train" and row["step"] > WARM_UP]
    return statistics.median(windows), done.stdout + done.stderr


def validate(arguments, folder):
    for model in arguments.models:
        profiled = folder / f"{model}-profile"
        train(arguments, model, profiled, "--profile", arguments.steps - 10)
        for rate in arguments.rates:
            for planner in arguments.planners:
                print(f"[plan_validation] {model} {rate} {planner}", file=sys.stderr)
                measured, text = train(
                    arguments, model, folder / f"{model}-{rate}-{planner.replace('=', '-')}", "--net", f"50us,{rate}",
                    "--network", f"50us,{rate}", "--costs", profiled / "profile.json", "--plan", planner)
                expected = float(re.search(r"a step of ([\d.e+-]+) ms expected", text)[1]) / 1e3
                yield {"model": model, "rate": rate, "planner": planner, "expected": expected, "measured": measured,
                       "error": expected / measured - 1}


def show(rows):
    print(f"{'model':10} {'rate':8} {'planner':12} {'expected ms':>12} {'measured ms':>12} {'error':>7}")
    for row in rows:
        print(f"{row['model']:10} {row['rate']:8} {row['planner']:12} {1e3 * row['expected']:12.2f} "
              f"{1e3 * row['measured']:12.2f} {row['error']:7.1%}")
    errors = [abs(row["error"]) for row in rows]
    print(f"error: median {statistics.median(errors):.1%}, worst {max(errors):.1%} (bars 10 % and 25 %)")
    for key in dict.fromkeys((row["model"], row["rate"]) for row in rows):
        times = {row["planner"]: row["measured"] for row in rows if (row["model"], row["rate"]) == key}
        if "auto" not in times or len(times) == 1:
            continue
        best = min((t, name) for name, t in times.items() if name != "auto")
        print(f"{key[0]} {key[1]}: auto takes {times['auto'] / best[0]:.2f} of {best[1]}, the best of the others")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sluice")
    parser.add_argument("--models", nargs="+", default=["mlp", "lenet", "mnistnet", "resnet20", "fcn5net"])
    parser.add_argument("--rates", nargs="+", default=["100Mbit", "1Gbit", "10Gbit"])
    parser.add_argument("--planners", nargs="+", default=["auto", "omgs-exact", "layerwise", "single"])
    parser.add_argument("--sparsifier", default="topk")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    arguments = parser.parse_args()
    if arguments.steps < WARM_UP + 20:
        parser.error(f"--steps must be {WARM_UP + 20} or more, got {arguments.steps}")
    with tempfile.TemporaryDirectory() as folder:
        rows = list(validate(arguments, pathlib.Path(folder)))
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows)


if __name__ == "__main__":
    main()
