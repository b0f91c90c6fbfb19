#!/usr/bin/env python3
"""Trains one job with several methods and seeds and prints accuracy as a table.
A run that is there already is not run again."""

import argparse
import json
import pathlib
import subprocess
import sys

METHODS = {
    "dense": ["--sparsifier", "none"],
    "topk": ["--sparsifier", "topk"],
    "adtopk": ["--sparsifier", "adtopk"],
    "dgc": ["--sparsifier", "dgc", "--feedback", "dgc", "--optimizer"]
    + ["sgd:momentum=0"],
    "sidco-p": ["--sparsifier", "sidco-p"],
    "gtopk": ["--sparsifier", "topk", "--collective", "gtopk"],
}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--program", default="build/release/bin/sluice")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--out", default="runs/accuracy")
    return parser.parse_args()


def run(options, method, seed):
    name = f"{options.model}-{method}-{options.density}-{seed}"
    folder = pathlib.Path(options.out) / name
    metrics = folder / "metrics.jsonl"
    if not (folder / "done").exists():
        command = [
            options.program,
            "train",
            *["--model", options.model, "--workers", str(options.workers)],
            *["--epochs", str(options.epochs), "--seed", str(seed)],
            *["--density", str(options.density), "--out", str(folder)],
            *["--lr-schedule", "cosine", "--overwrite"],
            *METHODS[method],
        ]
        print(f"[accuracy] {' '.join(command)}", file=sys.stderr, flush=True)
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"[accuracy] {name} ended with status {done.returncode}")
        (folder / "done").touch()
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    train = [row for row in rows if row["kind"] == "train"]
    accuracy = [row["accuracy"] for row in rows if row["kind"] == "eval"][-1]
    return {
        "accuracy": accuracy,
        "loss": train[-1]["loss"],
        "k": sum(row["k_hat_over_k"] for row in train) / len(train),
        "mb": sum(row["bytes_per_step"] for row in train) / len(train) / 1e6,
    }


def main():
    options = parse_arguments()
    seeds = options.seeds
    print(f"| method | {' | '.join(f'seed {s}' for s in seeds)} | mean | "
          "last loss | k_hat/k | MB per step |")
    print("|---" * (len(seeds) + 5) + "|")
    for method in options.methods:
        results = [run(options, method, seed) for seed in seeds]
        mean = {
            key: sum(r[key] for r in results) / len(results)
            for key in results[0]
        }
        cells = " | ".join(f"{r['accuracy']:.2%}" for r in results)
        print(
            f"| `{method}` | {cells} | {mean['accuracy']:.2%} | "
            f"{mean['loss']:.3f} | {mean['k']:.2f} | {mean['mb']:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
