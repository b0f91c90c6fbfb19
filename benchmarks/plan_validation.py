#!/usr/bin/env python3
"""Predicted against measured steps of plans.

usage: plan_validation.py SLUICE [--net emulated|netlab] [--repeat 2] [--quick] [--json]
                          [--models ...] [--rates ...] [--planners ...] [--workers 2] [--steps 50]

Profiles every model as it trains with that many workers and without a network, then trains it by
every planner behind every network, from that profile alone, and puts the step that the start of
each run expects beside the median of what its windows of ten steps took. `dense-bf16` among the
planners sends everything, by the plan that auto makes of that. A model's planners take turns,
forth and back, --repeat times: what is printed are medians, and the spread is how far the least
and the most lie apart, over the median.

--net emulated   workers as processes, behind the network that `sluice train` emulates
--net netlab     the same over TCP between network namespaces that tools/netlab shapes by htb.
                 Needs root

Plans go by what `sluice probe` measures on either: processes add something of their own to an
emulated network, and rates that a machine does not reach are planned by what it does.

Ends with the median and the worst error, and for every model and rate with how far auto is from
the best of the fixed planners and from dense-bf16, beside the bars. Takes up to ten minutes for
the defaults on two cores, which should have nothing else to do.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETLAB = ROOT / "tools" / "netlab"
LAB = "plan-validation"
IMAGES = "synthetic:channels=3,height=32,width=32,train=8000,test=64"
GREY = "synthetic:train=16000,test=64"
DATA = {"resnet20": IMAGES, "resnet56": IMAGES, "vgg16": IMAGES}
# So many that a step takes tens of milliseconds: below that a core's other work decides.
BATCHES = {"mlp": 256, "lenet": 256, "mnistnet": 256, "fcn5net": 1024, "resnet20": 16}
MODELS = ["mlp", "lenet", "mnistnet", "resnet20", "fcn5net"]
RATES = ["100Mbit", "1Gbit", "10Gbit"]
DENSE = "dense-bf16"
PLANNERS = ["auto", "omgs-exact", "layerwise", "single", DENSE]
WARM_UP = 20  # steps
WINDOW = 10  # steps that are timed as one
MEDIAN_BAR, WORST_BAR = 0.10, 0.25  # of errors
FIXED_BAR, DENSE_BAR = 1.03, 1.02  # auto over the best fixed planner, over dense-bf16


def stop(message):
    sys.exit(f"[plan_validation] {message}")


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        stop(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


# --- networks -------------------------------------------------------------


def probe(start, rate, folder, more=()):
    """What `sluice train` is told of a network: what `sluice probe` measures there."""
    probed = folder / f"{rate}.json"
    run([*start, "probe", *more, "--out", probed])
    net = json.loads(probed.read_text())
    alpha, beta = net["alpha"], net["beta"]
    print(f"[plan_validation] {rate}: {1e6 * alpha:.0f} us, {8e-9 / beta:.3g} Gbit/s by sluice probe", file=sys.stderr)
    return ["--network", f"{alpha!r},{beta!r}"]


class Emulated:
    def __init__(self, arguments):
        self.arguments = arguments

    @contextlib.contextmanager
    def at(self, rate, folder):
        """How programs are started behind that network, and what `sluice train` is told of it."""
        start = [self.arguments.sluice]
        net = ["--workers", self.arguments.workers, "--net", f"50us,{rate}"]
        yield start, [*net, *probe(start, rate, folder, net)]


class Netlab:
    def __init__(self, arguments):
        self.arguments = arguments
        if os.geteuid() != 0:
            stop("--net netlab needs root for network namespaces; try sudo")

    @contextlib.contextmanager
    def at(self, rate, folder):
        name = self.arguments.lab
        up = [NETLAB, "up", "--name", name, "--hosts", self.arguments.workers, "--rate", rate.lower(), "--no-check"]
        if subprocess.run(list(map(str, up)), stdout=sys.stderr, check=False).returncode != 0:
            stop("tools/netlab cannot make the hosts, see above")
        try:
            start = [NETLAB, "run", "--name", name, "--grace", 1, "--", self.arguments.sluice]
            # The hosts are one machine, which none of them knows.
            yield start, [*probe(start, rate, folder), "--spare-cores", "no"]
        finally:
            subprocess.run([NETLAB, "down", "--name", name], stdout=sys.stderr, check=False)


NETWORKS = {"emulated": Emulated, "netlab": Netlab}


# --- runs -----------------------------------------------------------------


def train(arguments, start, model, out, *args):
    """Seconds of a step, and what the run said."""
    text = run([*start, "train", "--model", model, "--dataset", DATA.get(model, GREY), "--threads", 1,
                "--batch-size", BATCHES.get(model, 32), "--max-steps", arguments.steps, "--log-every", WINDOW,
                "--eval-every", 0, "--density", 0.01, "--lr", 0.01, "--replica-check", 0, "--out", out, *args])
    rows = [json.loads(line) for line in (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines()]
    windows = [row["step_s"] for row in rows if row["kind"] == "train" and row["step"] > WARM_UP]
    return statistics.median(windows), text


def profile(arguments, model, folder):
    out = folder / f"{model}-profile"
    train(arguments, [arguments.sluice], model, out, "--workers", arguments.workers, "--sparsifier",
          arguments.sparsifier, "--profile", arguments.steps - 10)
    return out / "profile.json"


def method_of(arguments, planner):
    if planner == DENSE:
        return ["--sparsifier", "none", "--collective", DENSE, "--plan", "auto"]
    return ["--sparsifier", arguments.sparsifier, "--plan", planner]


def run_cell(arguments, start, told, costs, cell, folder):
    """Of one model and rate: planners in turns, forth and back."""
    model, rate = cell
    found = {planner: [] for planner in arguments.planners}
    for number in range(arguments.repeat):
        for planner in arguments.planners[:: 1 if number % 2 == 0 else -1]:
            print(f"[plan_validation] {model} {rate} {planner}, {number + 1} of {arguments.repeat}", file=sys.stderr)
            out = folder / f"{model}-{rate}-{planner.replace('=', '-')}-{number}"
            measured, text = train(arguments, start, model, out, *told, "--costs", costs,
                                   *method_of(arguments, planner))
            expected = re.search(r"a step of ([\d.e+-]+) ms expected", text)
            if expected is None:
                stop(f"the run did not say what it expects:\n{text}")
            found[planner].append((float(expected[1]) / 1e3, measured))
    for planner, runs in found.items():
        yield row_of(model, rate, planner, [e for e, _ in runs], [m for _, m in runs])


def validate(arguments, folder):
    costs = {}
    network = NETWORKS[arguments.net](arguments)
    for model in arguments.models:
        print(f"[plan_validation] {model}: profile", file=sys.stderr)
        costs[model] = profile(arguments, model, folder)
    for rate in arguments.rates:
        with network.at(rate, folder) as (start, told):
            for model in arguments.models:
                yield from run_cell(arguments, start, told, costs[model], (model, rate), folder)


# --- tables ---------------------------------------------------------------


def spread_of(values):
    return (max(values) - min(values)) / statistics.median(values)


def row_of(model, rate, planner, expected, measured):
    """Of one planner's runs: medians, and all that was measured."""
    e, m = statistics.median(expected), statistics.median(measured)
    return {"model": model, "rate": rate, "planner": planner, "expected": e, "measured": m, "error": e / m - 1,
            "spread": spread_of(measured), "runs": measured}


def ratios(auto, other):
    """The median of auto's time over another's, run by run, and the least and the most."""
    by_run = [a / b for a, b in zip(auto["runs"], other["runs"])]
    return statistics.median(by_run), min(by_run), max(by_run)


def cells_of(rows):
    """For every model and rate: auto over the best fixed planner, and over dense-bf16."""
    for key in dict.fromkeys((row["model"], row["rate"]) for row in rows):
        by = {row["planner"]: row for row in rows if (row["model"], row["rate"]) == key}
        auto = by.pop("auto", None)
        if auto is None:
            continue
        dense = by.pop(DENSE, None)
        cell = {"model": key[0], "rate": key[1], "best": None, "over_best": None, "over_dense": None}
        if by:
            best = min(by.values(), key=lambda row: row["measured"])
            cell["best"], cell["over_best"] = best["planner"], ratios(auto, best)
        if dense is not None:
            cell["over_dense"] = ratios(auto, dense)
        yield cell


def verdict(ratio, bar):
    """Whether a bar is met; within the spread where other runs say otherwise."""
    middle, least, most = ratio
    met = "met" if middle <= bar else "missed"
    return met + (", within the spread" if least <= bar < most else "")


def show_cells(cells):
    print(f"{'model':10} {'rate':8} {'auto over best fixed':>30} {'bar 1.03':26} {'over dense-bf16':>20} bar 1.02")
    for cell in cells:
        columns = []
        for ratio, bar, name in ((cell["over_best"], FIXED_BAR, cell["best"]), (cell["over_dense"], DENSE_BAR, "")):
            text = "-" if ratio is None else f"{name} {ratio[0]:.3f} ({ratio[1]:.2f}..{ratio[2]:.2f})".strip()
            columns.append((text, "" if ratio is None else verdict(ratio, bar)))
        (best, says), (dense, says_dense) = columns
        print(f"{cell['model']:10} {cell['rate']:8} {best:>30} {says:26} {dense:>20} {says_dense}".rstrip())


def count_met(cells, key, bar):
    found = [cell[key] for cell in cells if cell[key] is not None]
    if not found:
        return "not measured"
    met = sum(ratio[0] <= bar for ratio in found)
    close = sum(ratio[0] > bar >= ratio[1] for ratio in found)
    return f"met in {met} of {len(found)} cells, missed within the spread in {close}"


def show(rows):
    print(f"{'model':10} {'rate':8} {'planner':12} {'expected ms':>12} {'measured ms':>12} {'spread':>7} {'error':>7}")
    for row in rows:
        print(f"{row['model']:10} {row['rate']:8} {row['planner']:12} {1e3 * row['expected']:12.2f} "
              f"{1e3 * row['measured']:12.2f} {row['spread']:7.1%} {row['error']:7.1%}")
    cells = list(cells_of(rows))
    print()
    show_cells(cells)
    print()
    errors = [abs(row["error"]) for row in rows]
    median, worst = statistics.median(errors), max(errors)
    far = max(rows, key=lambda row: abs(row["error"]))
    within = ", within the spread" if worst > WORST_BAR >= worst - far["spread"] else ""
    print(f"error: median {median:.1%} (bar 10 %: {'met' if median <= MEDIAN_BAR else 'missed'}), "
          f"worst {worst:.1%} (bar 25 %: {'met' if worst <= WORST_BAR else 'missed'}{within})")
    print(f"auto over the best fixed planner, bar {FIXED_BAR}: {count_met(cells, 'over_best', FIXED_BAR)}")
    print(f"auto over dense-bf16, bar {DENSE_BAR}: {count_met(cells, 'over_dense', DENSE_BAR)}")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sluice")
    parser.add_argument("--net", choices=list(NETWORKS), default="emulated")
    parser.add_argument("--models", nargs="+", default=None, help=" ".join(MODELS))
    parser.add_argument("--rates", nargs="+", default=None, help=" ".join(RATES))
    parser.add_argument("--planners", nargs="+", default=None, help=" ".join(PLANNERS))
    parser.add_argument("--repeat", type=int, default=None, help="runs of each, in turns (default 2)")
    parser.add_argument("--quick", action="store_true", help="one model, rate and run, auto, single and dense-bf16")
    parser.add_argument("--sparsifier", default="topk")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=None, help="of a run (default 50)")
    parser.add_argument("--lab", default=LAB, help=f"name of the netlab (default {LAB})")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    arguments = parser.parse_args(words)
    quick = arguments.quick
    arguments.models = arguments.models or (MODELS[:1] if quick else MODELS)
    arguments.rates = arguments.rates or (RATES[1:2] if quick else RATES)
    arguments.planners = arguments.planners or (["auto", "single", DENSE] if quick else PLANNERS)
    arguments.repeat = arguments.repeat if arguments.repeat is not None else 1 if quick else 2
    arguments.steps = arguments.steps if arguments.steps is not None else 40 if quick else 50
    if arguments.steps < WARM_UP + 2 * WINDOW:
        parser.error(f"--steps must be {WARM_UP + 2 * WINDOW} or more, got {arguments.steps}")
    if arguments.repeat < 1:
        parser.error(f"--repeat must be 1 or more, got {arguments.repeat}")
    if arguments.workers < 2:
        parser.error(f"--workers must be 2 or more, got {arguments.workers}")
    for rate in arguments.rates:
        if not re.fullmatch(r"[1-9]\d*[MG]bit", rate):
            parser.error(f"--rates must be as 100Mbit or 10Gbit, got '{rate}'")
    return arguments


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        rows = list(validate(arguments, pathlib.Path(folder)))
    if arguments.json:
        print(json.dumps({"net": arguments.net, "rows": rows, "cells": list(cells_of(rows))}, indent=1))
    else:
        show(rows)


if __name__ == "__main__":
    main()
