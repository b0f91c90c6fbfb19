#!/usr/bin/env python3
"""Time sluice and torch side by side, on the CPU or a GPU, in one run.

Each method is one step of error feedback and selection on a gradient of normal
numbers: add the gradient to the residual, select, gather what is sent, clear it
in the residual.

  topk     the k largest magnitudes; torch.topk
  adtopk   the k largest of every row of 1024; torch.topk along the rows
  sidco-p  everything above a threshold; torch gets a good threshold for free,
           sluice fits its own within the time

The floor is the first part alone, residual += gradient. Gradients are new at
every step, and their making is not timed. Times are medians. On a GPU they are
by events, caches are flushed before each step, and launches wait in the stream,
for sluice and for torch.
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
FLUSHED = 256 << 20  # bytes, several times the L2 cache of a GPU
WAIT = 1_000_000  # cycles of a GPU: until all of a step is launched

MISSING = None
try:
    import numpy
    import torch
except ImportError as error:
    MISSING = error.name  # said after --help had its chance


def progress(line):
    print(f"[peers] {line}", file=sys.stderr, flush=True)


# --- sluice ---------------------------------------------------------------


def bench(binary, device, *arguments):
    """What `sluice bench select --json` prints; a message and None if it fails."""
    command = [str(binary), "bench", "select", *map(str, arguments), "--json"]
    if device != "cpu":
        command += ["--device", device]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return (f"'{' '.join(command)}' must succeed, got exit status {done.returncode}: "
                f"{done.stderr.strip()}"), None
    return None, json.loads(done.stdout)


def steady_rows(rows):
    """The steady ones, by sparsifier and density; of each there must be one."""
    steady = [row for row in rows if row["phase"] == "steady"]
    out = {(row["sparsifier"], row["density"]): row for row in steady}
    if len(out) != len(steady):
        raise ValueError(f"must have one steady row of each, got {len(steady)} of {len(out)}")
    return out


def ours_of(binary, device, methods, densities, data, n=None, threads=1):
    """The steady rows that `sluice bench select` prints."""
    arguments = ["--sparsifier", ",".join(methods), "--density", ",".join(map(repr, densities)), "--row", ROW,
                 "--data", data]
    if device == "cpu":
        arguments += ["--threads", threads]
    if n is not None:
        arguments += ["--n", n]
    problem, rows = bench(binary, device, *arguments)
    if problem:
        sys.exit(f"[peers] {problem}")
    found = steady_rows(rows)
    missing = [f"{m} at {d:g}" for m in methods for d in densities if (m, d) not in found]
    if missing:
        sys.exit(f"[peers] sluice bench select must print a steady row of each, got none of {', '.join(missing)}")
    return found


# --- torch ----------------------------------------------------------------
# Each chain takes the residual, the gradient, its setting (a count or a
# threshold) and the scratch it may use, and returns how many entries it
# selected. With an `out` of None torch allocates.


class Scratch:
    def __init__(self, n=None, device="cpu"):
        self.magnitudes = None if n is None else torch.empty(n, device=device)
        self.mask = None if n is None else torch.empty(n, dtype=torch.bool, device=device)


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


class CpuClock:
    """Seconds of a call."""

    warm_up = 1

    def time(self, call):
        start = time.perf_counter()
        result = call()
        return time.perf_counter() - start, result


class CudaClock:
    """Seconds of a call on the GPU, by events."""

    warm_up = 3  # allocations, and clocks that rise

    def __init__(self):
        self.flushed = torch.empty(FLUSHED, dtype=torch.uint8, device="cuda")
        self.start = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    def time(self, call):
        self.flushed.zero_()
        torch.cuda.synchronize()
        torch.cuda._sleep(WAIT)
        self.start.record()
        result = call()
        self.end.record()
        self.end.synchronize()
        return 1e-3 * self.start.elapsed_time(self.end), result


CLOCKS = {"cpu": CpuClock, "cuda": CudaClock}


class Torch:
    """Times chains on buffers of one size."""

    def __init__(self, n, options):
        device = options.device
        self.clock = CLOCKS[device]()
        self.scratch = Scratch(n if options.preallocate else None, device)
        self.residual = torch.zeros(n, device=device)
        self.grad = torch.empty(n, device=device)
        self.steps = options.steps
        self.generator = torch.Generator(device).manual_seed(1)

    def time(self, chain, setting=lambda *_: None, density=None):
        """Median seconds after a warm-up, and the mean count selected."""
        self.residual.zero_()
        seconds, counts = [], []
        for _ in range(self.clock.warm_up + self.steps):
            self.grad.normal_(generator=self.generator)
            told = setting(self.residual, self.grad, density)
            took, count = self.clock.time(lambda: chain(self.residual, self.grad, told, self.scratch))
            seconds.append(took)
            counts.append(count)
        warm = self.clock.warm_up
        return statistics.median(seconds[warm:]), statistics.fmean(counts[warm:])


# --- both -----------------------------------------------------------------


def expect(ok, message):
    if not ok:
        sys.exit(f"[peers] correctness check failed: {message}")


def check_counts(binary, device, densities):
    """Both must select the same number of entries of the same gradient."""
    n = 100_000 // ROW * ROW
    rows = n // ROW
    values = numpy.random.default_rng(1).standard_normal(n, dtype=numpy.float32)
    acc = torch.from_numpy(values).to(device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gradient.npy"
        numpy.save(path, values.reshape(rows, ROW))
        ours = ours_of(binary, device, list(METHODS), densities, path)
    for density in densities:
        k = max(1, int(density * n))
        threshold = torch.topk(acc.abs(), k, sorted=False).values.min()
        passed = int((acc.abs() >= threshold).sum())
        row = ours["topk", density]
        expect(row["n"] == n and row["k"] == k and row["k_hat"] == k and passed == k,
               f"topk at density {density} of {n} must select {k}; sluice has k {row['k']:g} and selects "
               f"{row['k_hat']:g}, torch selects {passed}")

        k_row = row_budget(density)
        picked = rows_chain(torch.zeros(n, device=device), acc, k_row, Scratch())
        row = ours["adtopk", density]
        expect(row["k_hat"] == picked == rows * k_row,
               f"adtopk at density {density} must select {k_row} of each of {rows} rows; sluice selects "
               f"{row['k_hat']:g}, torch {picked}")

        row = ours["sidco-p", density]
        expect(0.5 <= row["k_hat_over_k"] <= 2,
               f"sidco-p at density {density} must select {k} to a factor of 2, sluice selects {row['k_hat']:g}")
    progress(f"check passed: sluice and torch select alike on {n} elements")


def beside(ours, seconds, floor, count):
    """What one row of sluice's and torch's medians come to."""
    return {
        "method": ours["sparsifier"],
        "n": ours["n"],
        "density": ours["density"],
        "threads": ours["threads"],
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
    }


def compare_size(options, n, threads):
    results, peer = [], None
    for density in options.density:
        for method, (chain, setting) in METHODS.items():
            name = f"{method} n={n} density={density:g} threads={threads}"
            progress(f"{name}: sluice")
            ours = ours_of(options.sluice, options.device, [method], [density], "randn", n, threads)[method, density]
            if peer is None:
                # sluice keeps whole rows only
                peer = Torch(ours["n"], options)
            progress(f"{name}: torch")
            floor, _ = peer.time(floor_chain)
            seconds, count = peer.time(chain, setting, density)
            results.append({**beside(ours, seconds, floor, count), "torch": torch.__version__,
                            "torch_preallocated": options.preallocate})
    return results


def compare(options):
    results = []
    for t in options.threads:
        torch.set_num_threads(t)
        for n in options.n:
            results += compare_size(options, n, t)
    return results


COLUMNS = [
    ("method", "method", "{}", 1),
    ("n", "n", "{}", 1),
    ("density", "density", "{:g}", 1),
    ("threads", "threads", "{}", 1),
    ("sluice ms", "sluice_seconds", "{:.4g}", 1e3),
    ("torch ms", "torch_seconds", "{:.4g}", 1e3),
    ("speed-up", "speedup", "{:.1f}x", 1),
    ("sluice/floor", "sluice_ratio", "{:.2f}", 1),
    ("torch floor ms", "torch_floor_seconds", "{:.4g}", 1e3),
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


DEFAULTS = {
    "cpu": {"n": [25_000_000], "threads": [1, 2], "steps": 3},
    "cuda": {"n": [1_000_000, 25_000_000, 110_000_000, 340_000_000], "threads": [1], "steps": 9},
}


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=tuple(CLOCKS), default="cpu", help="where both compute (default: cpu)")
    parser.add_argument("--n", type=size, nargs="+", help="elements (default: 25M; on a GPU 1M 25M 110M 340M)")
    parser.add_argument("--quick", action="store_true", help="a fast look: 4M elements unless --n says otherwise")
    parser.add_argument("--density", type=share, nargs="+", default=[0.001, 0.01],
                        help="shares of entries to send (default: 0.001 0.01)")
    parser.add_argument("--threads", type=count, nargs="+",
                        help="threads for sluice and for torch, on the CPU (default: 1 2)")
    parser.add_argument("--steps", type=count,
                        help="timed repetitions in torch, after a warm-up (default: 3; on a GPU 9)")
    parser.add_argument("--preallocate", action="store_true",
                        help="give torch its temporaries (out=...), which spares it page faults")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/release/bin/sluice",
                        help="the program (default: build/release/bin/sluice of this repository)")
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and options.threads is not None:
        parser.error("--threads goes with --device cpu")
    if options.n is None and options.quick:
        options.n = [4_000_000]
    for name, value in DEFAULTS[options.device].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def check_gpu(binary):
    """Ends with a sentence where torch or sluice cannot use a GPU."""
    if torch.version.cuda is None:
        sys.exit(f"[peers] --device cuda needs a torch with CUDA, this python ({sys.executable}) has torch "
                 f"{torch.__version__}")
    if not torch.cuda.is_available():
        sys.exit("[peers] torch sees no GPU; nvidia-smi shows what there is")
    problem, _ = bench(binary, "cuda", "--n", ROW, "--sparsifier", "topk", "--density", 0.01, "--steps", 1)
    if problem:
        sys.exit(f"[peers] sluice must be able to use the GPU: {problem}")


def main():
    options = parse_options()
    if MISSING:
        sys.exit(f"[peers] needs {MISSING}, which this python ({sys.executable}) does not have; "
                 f"install it with: {sys.executable} -m pip install torch numpy")
    if not (options.sluice.is_file() and os.access(options.sluice, os.X_OK)):
        sys.exit(f"[peers] no program at {options.sluice}; build it with: "
                 "cmake --preset release && cmake --build --preset release, or name another with --sluice")
    if options.device == "cuda":
        check_gpu(options.sluice)
    check_counts(options.sluice, options.device, options.density)
    results = compare(options)
    print(json.dumps(results, indent=2) if options.json else as_table(results))


if __name__ == "__main__":
    main()
