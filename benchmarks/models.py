#!/usr/bin/env python3
"""Forward and backward of models in C++ against the same networks in Python.

usage: models.py SLUICE_MODEL_STEPS [--device cpu|cuda] [--threads 1,2] [--rounds 9]
                 [--model ...]

Build the target sluice_model_steps first, and run this with the Python that has
torch. Both take the same shapes, threads and memory format (contiguous), and a
step is: drop the gradients, forward, loss, backward. Rounds of both
alternate, so that whatever else the machine does hits both. Times are medians
over steps, ratios (C++ / Python) are medians over rounds: of the clock, and of the
time of all processors, which says more where others use the machine.

On a GPU (--device cuda) steps are in bf16 by autocast, of larger cases, by one thread;
the host waits for the GPU at the end of each.

Both keep the memory that a step gives back, as the trainer does: what glibc
returns to the kernel otherwise depends on what happens to lie on top of the heap.
Set MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_ to have it otherwise.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "torch"))
import model_jobs  # noqa: E402
import model_reference  # noqa: E402

# Model, kind and numbers of samples (tests/torch/model_job.h), steps per round.
CASES = [
    ("resnet20", "images", (3, 32, 32, 10, 32), 8),
    ("resnet18", "images", (3, 32, 32, 10, 16), 3),
    ("resnet18", "images", (3, 224, 224, 1000, 4), 3),
    ("resnet50", "images", (3, 32, 32, 100, 8), 2),
    ("resnet50", "images", (3, 224, 224, 1000, 2), 2),
    ("vgg16", "images", (3, 32, 32, 10, 32), 3),
    ("vgg16:widths=4096-4096", "images", (3, 32, 32, 100, 32), 3),
    ("vgg16", "images", (3, 224, 224, 1000, 1), 1),
    ("alexnet", "images", (3, 224, 224, 1000, 8), 2),
    ("vit-tiny", "images", (3, 32, 32, 10, 16), 4),
    ("vit-tiny", "images", (3, 224, 224, 1000, 4), 3),
    ("vit-base", "images", (3, 224, 224, 1000, 1), 1),
    ("lstm:hidden=200", "tokens", (10000, 35, 8), 3),
    ("lstm:hidden=500,dropout=0.5", "tokens", (5000, 35, 4), 2),
    ("transformer:layers=4,width=200", "tokens", (5000, 64, 4), 3),
    ("transformer:layers=4,width=200,dropout=0", "tokens", (5000, 64, 4), 3),
    ("gpt2:layers=4,width=256,heads=4", "tokens", (5000, 128, 4), 3),
    ("gpt2:layers=4,width=256,heads=4,dropout=0", "tokens", (5000, 128, 4), 3),
    ("bert-base:layers=4,width=256,heads=4", "tokens", (5000, 128, 4), 3),
    ("bert-base:layers=4,width=256,heads=4,dropout=0", "tokens", (5000, 128, 4), 3),
    ("deepspeech:width=200,layers=3", "spectra", (161, 29, 200, 4), 2),
]
# Large enough that the GPU, not the host, takes the time; two of them are the papers'.
GPU_CASES = [
    ("lstm", "tokens", (10000, 35, 20), 10),
    ("lstm", "tokens", (10000, 35, 100), 10),
    ("transformer", "tokens", (33278, 100, 64), 10),
    ("bert-large", "tokens", (30522, 384, 16), 5),
    ("gpt2-large", "tokens", (50257, 1024, 4), 5),
    ("gpt2-large:attention_dropout=0", "tokens", (50257, 1024, 4), 5),
    ("deepspeech", "spectra", (161, 29, 800, 8), 5),
]
WARM_UP = 2
GPU_WARM_UP = 5


class InCpp:
    def __init__(self, program, model, kind, numbers, device, threads):
        self.process = subprocess.Popen(
            [program, model, device, str(threads), kind, *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, count):
        print(count, file=self.process.stdin, flush=True)
        numbers = [float(text) for text in self.process.stdout.readline().split()]
        if len(numbers) != 2 * count:
            sys.exit("[models] the program must answer with two times per step")
        return list(zip(numbers[::2], numbers[1::2]))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class InPython:
    def __init__(self, model, kind, numbers, device):
        self.device = device
        self.network = model_reference.make(model, kind, numbers).to(device)
        self.samples = {
            name: tensor if name.endswith("lengths") else tensor.to(device)
            for name, tensor in model_jobs.draw_samples(self.network, numbers).items()
        }

    def step(self):
        start, busy = time.perf_counter(), time.process_time()
        self.network.zero_grad()
        on_gpu = self.device == "cuda"
        with torch.autocast(self.device, torch.bfloat16, enabled=on_gpu):
            scores = model_jobs.scores_of(self.network, self.samples)
            loss = model_jobs.loss_of(self.network, scores, self.samples)
        loss.backward()
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - start, time.process_time() - busy

    def run(self, count):
        return [self.step() for _ in range(count)]

    def close(self):
        pass


def keep_memory():
    """Starts anew with the limits of sluice/torch/train/device.cpp."""
    limits = {
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1),
    }
    if not limits.keys() & os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | limits)


def medians(pairs):
    return [statistics.median(column) for column in zip(*pairs)]


def compare(program, case, device, threads, rounds):
    model, kind, numbers, steps = case
    torch.set_num_threads(threads)
    sides = [
        InCpp(program, model, kind, numbers, device, threads),
        InPython(model, kind, numbers, device),
    ]
    for side in sides:
        side.run(GPU_WARM_UP if device == "cuda" else WARM_UP)
    times = [[], []]
    ratios = []
    for number in range(rounds):
        new = [None, None]
        # Each goes first every second time.
        for i in (0, 1) if number % 2 == 0 else (1, 0):
            new[i] = sides[i].run(steps)
            times[i] += new[i]
        cpp, python = map(medians, new)
        ratios.append((cpp[0] / python[0], cpp[1] / python[1]))
    for side in sides:
        side.close()
    cpp, python = map(medians, times)
    ratio, busy_ratio = medians(ratios)
    sizes = "x".join(map(str, numbers))
    print(
        f"{model:50} {sizes:>17} {threads:>8} {1e3 * python[0]:>10.1f}"
        f" {1e3 * cpp[0]:>8.1f} {ratio:>7.3f} {busy_ratio:>11.3f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="the built sluice_model_steps")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", help="joined by ','; 1,2, on a GPU 1")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--model", help="only cases of this one")
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        sys.exit("[models] torch sees no GPU; without --device cuda the CPU is measured")
    torch.backends.cuda.matmul.allow_tf32 = True
    threads_of = (arguments.threads or ("1" if on_gpu else "1,2")).split(",")
    cases = [
        case for case in (GPU_CASES if on_gpu else CASES) if arguments.model in (None, case[0].split(":")[0])
    ]
    if not cases:
        parser.error(f"no case of '{arguments.model}'")
    print(
        f"{'model':50} {'samples x batch':>17} {'threads':>8} {'python ms':>10}"
        f" {'c++ ms':>8} {'ratio':>7} {'processors':>11}"
    )
    for case in cases:
        for threads in threads_of:
            program = pathlib.Path(arguments.program).resolve()
            compare(program, case, arguments.device, int(threads), arguments.rounds)


if __name__ == "__main__":
    keep_memory()
    main()
