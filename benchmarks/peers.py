#!/usr/bin/env python3
"""Time sluice and torch side by side, on the CPU, in one run.

Each method is one step of error feedback and selection on a gradient of normal
numbers: add the gradient to the residual, select, gather what is sent, clear it
in the residual.

  topk     the k largest magnitudes; torch.topk
  adtopk   the k largest of every row of 1024; torch.topk along the rows
  sidco-p  everything above a threshold; torch gets a good threshold for free,
           sluice fits its own within the time

The floor is the first part alone, residual += gradient. Gradients are new at
every step, and their making is not timed. Times are medians.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = 1024
SAMPLE = 1 << 20  # elements that torch's threshold is estimated from

MISSING = None
try:
    import numpy
    import torch
except ImportError as error:
    MISSING = error.name  # said after --help had its chance


def progress(line):
    print(f"[peers] {line}", file=sys.stderr, flush=True)


# --- sluice ---------------------------------------------------------------


def steady_row(binary, sparsifier, density, threads, data, n=None):
    """The steady row that `sluice bench select` prints."""
    command = [str(binary), "bench", "select", "--sparsifier", sparsifier, "--density", repr(density),
               "--threads", str(threads), "--row", str(ROW), "--data", str(data), "--json"]
    if n is not None:
        command += ["--n", str(n)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"[peers] '{' '.join(command)}' must succeed, got exit status {done.returncode}: "
                 f"{done.stderr.strip()}")
    rows = [row for row in json.loads(done.stdout) if row["phase"] == "steady"]
    if len(rows) != 1:
        sys.exit(f"[peers] '{' '.join(command)}' must print one steady row, got {len(rows)}")
    return rows[0]


# --- torch ----------------------------------------------------------------
# Each chain takes the residual, the gradient, its setting (a count or a
# threshold) and the scratch it may use, and returns how many entries it
# selected. With an `out` of None torch allocates.


class Scratch:
    def __init__(self, n=None):
        self.magnitudes = None if n is None else torch.empty(n)
        self.mask = None if n is None else torch.empty(n, dtype=torch.bool)


def topk_chain(residual, grad, k, scratch):
    acc = residual.add_(grad)
    _, idx = torch.topk(torch.abs(acc, out=scratch.magnitudes), k, sorted=False)
    values = acc[idx]
    residual[idx] = 0
    return values.numel()


def rows_chain(residual, grad, k_row, scratch):
    acc = residual.add_(grad)
    magnitudes = torch.abs(acc, out=scratch.magnitudes).view(-1, ROW)
    _, idx = torch.topk(magnitudes, k_row, dim=1, sorted=False)
    values = acc.view(-1, ROW).gather(1, idx)
    residual.view(-1, ROW).scatter_(1, idx, 0)
    return values.numel()


def threshold_chain(residual, grad, threshold, scratch):
    acc = residual.add_(grad)
    mask = torch.gt(torch.abs(acc, out=scratch.magnitudes), threshold, out=scratch.mask)
    idx = mask.nonzero().squeeze(1)
    values = acc[idx]
    residual[idx] = 0
    return values.numel()


def floor_chain(residual, grad, *_):
    residual.add_(grad)
    return 0


def sampled_threshold(residual, grad, density):
    """The magnitude that about `density` of the next accumulation exceeds."""
    stride = max(1, residual.numel() // SAMPLE)
    sample = (residual[::stride] + grad[::stride]).abs()
    k = max(1, int(density * sample.numel()))
    return torch.topk(sample, k).values[-1].item()


def row_budget(density):
    return max(1, int(density * ROW))


# Each method: its chain, and what the chain is told before a step.
METHODS = {
    "topk": (topk_chain, lambda residual, grad, density: max(1, int(density * residual.numel()))),
    "adtopk": (rows_chain, lambda residual, grad, density: row_budget(density)),
    "sidco-p": (threshold_chain, sampled_threshold),
}


class Torch:
    """Times chains on buffers of one size."""

    def __init__(self, n, steps, preallocate):
        self.scratch = Scratch(n if preallocate else None)
        self.residual = torch.zeros(n)
        self.grad = torch.empty(n)
        self.steps = steps
        self.generator = torch.Generator().manual_seed(1)

    def time(self, chain, setting=lambda *_: None, density=None):
        """Median seconds after a warm-up, and the mean count selected."""
        self.residual.zero_()
        seconds, counts = [], []
        for _ in range(1 + self.steps):
            self.grad.normal_(generator=self.generator)
            told = setting(self.residual, self.grad, density)
            start = time.perf_counter()
            count = chain(self.residual, self.grad, told, self.scratch)
            seconds.append(time.perf_counter() - start)
            counts.append(count)
        return statistics.median(seconds[1:]), statistics.fmean(counts[1:])


# --- both -----------------------------------------------------------------


def expect(ok, message):
    if not ok:
        sys.exit(f"[peers] correctness check failed: {message}")


def check_counts(binary, densities):
    """Both must select the same number of entries of the same gradient."""
    n = 100_000 // ROW * ROW
    rows = n // ROW
    values = numpy.random.default_rng(1).standard_normal(n, dtype=numpy.float32)
    acc = torch.from_numpy(values)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gradient.npy"
        numpy.save(path, values.reshape(rows, ROW))
        for density in densities:
            k = max(1, int(density * n))
            threshold = torch.topk(acc.abs(), k, sorted=False).values.min()
            passed = int((acc.abs() >= threshold).sum())
            row = steady_row(binary, "topk", density, 1, path)
            expect(row["n"] == n and row["k"] == k and row["k_hat"] == k and passed == k,
                   f"topk at density {density} of {n} must select {k}; sluice has k {row['k']:g} and selects "
                   f"{row['k_hat']:g}, torch selects {passed}")

            k_row = row_budget(density)
            picked = rows_chain(torch.zeros(n), acc, k_row, Scratch())
            row = steady_row(binary, "adtopk", density, 1, path)
            expect(row["k_hat"] == picked == rows * k_row,
                   f"adtopk at density {density} must select {k_row} of each of {rows} rows; sluice selects "
                   f"{row['k_hat']:g}, torch {picked}")

            row = steady_row(binary, "sidco-p", density, 1, path)
            expect(0.5 <= row["k_hat_over_k"] <= 2,
                   f"sidco-p at density {density} must select {k} to a factor of 2, sluice selects {row['k_hat']:g}")
    progress(f"check passed: sluice and torch select alike on {n} elements")


def compare(options):
    results = []
    for t in options.threads:
        torch.set_num_threads(t)
        peer = None
        for density in options.density:
            for method, (chain, setting) in METHODS.items():
                progress(f"{method} density={density:g} threads={t}: sluice")
                ours = steady_row(options.sluice, method, density, t, "randn", options.n)
                if peer is None:
                    # sluice keeps whole rows only
                    peer = Torch(ours["n"], options.steps, options.preallocate)
                progress(f"{method} density={density:g} threads={t}: torch")
                floor, _ = peer.time(floor_chain)
                seconds, count = peer.time(chain, setting, density)
                results.append({
                    "method": method,
                    "n": ours["n"],
                    "density": density,
                    "threads": t,
                    "sluice_seconds": ours["seconds"],
                    "torch_seconds": seconds,
                    "speedup": seconds / ours["seconds"],
                    "sluice_ratio": ours["ratio"],
                    "sluice_floor_seconds": ours["floor_seconds"],
                    "torch_floor_seconds": floor,
                    "torch_ratio": seconds / floor,
                    "sluice_selected": ours["k_hat"],
                    "torch_selected": count,
                    "device": ours["device"],
                    "torch": torch.__version__,
                    "torch_preallocated": options.preallocate,
                })
    return results


COLUMNS = [
    ("method", "method", "{}", 1),
    ("n", "n", "{}", 1),
    ("density", "density", "{:g}", 1),
    ("threads", "threads", "{}", 1),
    ("sluice ms", "sluice_seconds", "{:.1f}", 1e3),
    ("torch ms", "torch_seconds", "{:.1f}", 1e3),
    ("speed-up", "speedup", "{:.1f}x", 1),
    ("sluice/floor", "sluice_ratio", "{:.2f}", 1),
    ("torch floor ms", "torch_floor_seconds", "{:.1f}", 1e3),
]


def as_table(results):
    lines = [[title for title, *_ in COLUMNS]]
    for row in results:
        lines.append([form.format(row[key] if scale == 1 else row[key] * scale) for _, key, form, scale in COLUMNS])
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(line, widths))) for line in lines)


# --- options --------------------------------------------------------------


def size(text):
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    try:
        value = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
        whole = int(value)
    except (ValueError, OverflowError):
        value, whole = 0, -1
    if whole != value or whole < ROW:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least {ROW}, as in 25M or 1e6, got '{text}'")
    return whole


def share(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got '{text}'")
    return value


def count(text):
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"must be from 1 to 1024, got '{text}'")
    return value


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=size, help="elements (default: 25M)")
    parser.add_argument("--quick", action="store_true", help="a fast look: 4M elements unless --n says otherwise")
    parser.add_argument("--density", type=share, nargs="+", default=[0.001, 0.01],
                        help="shares of entries to send (default: 0.001 0.01)")
    parser.add_argument("--threads", type=count, nargs="+", default=[1, 2],
                        help="threads for sluice and for torch (default: 1 2)")
    parser.add_argument("--steps", type=count, default=3,
                        help="timed repetitions in torch, after a warm-up (default: 3)")
    parser.add_argument("--preallocate", action="store_true",
                        help="give torch its temporaries (out=...), which spares it page faults")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/release/bin/sluice",
                        help="the program (default: build/release/bin/sluice of this repository)")
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    options = parser.parse_args()
    if options.n is None:
        options.n = 4_000_000 if options.quick else 25_000_000
    return options


def main():
    options = parse_options()
    if MISSING:
        sys.exit(f"[peers] needs {MISSING}, which this python ({sys.executable}) does not have; "
                 f"install it with: {sys.executable} -m pip install torch numpy")
    if not (options.sluice.is_file() and os.access(options.sluice, os.X_OK)):
        sys.exit(f"[peers] no program at {options.sluice}; build it with: "
                 "cmake --preset release && cmake --build --preset release, or name another with --sluice")
    check_counts(options.sluice, options.density)
    results = compare(options)
    print(json.dumps(results, indent=2) if options.json else as_table(results))


if __name__ == "__main__":
    main()
