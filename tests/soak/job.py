"""One training run of the soak: started, disturbed, resumed, and compared with what it would have been."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))

from checkpoint_file import tensors  # noqa: E402
from processes import children, marked, ranks_of, send  # noqa: E402

# Against hangs: nothing that ends by itself comes near.
HANG = 240
# What it sends depends on nothing that is measured, so runs repeat bit for bit, over threads as over MPI.
REPEATS = ("--plan", "size=1M", "--collective", "sparcml-split", "--dense-collective", "dense:by=ring", "--threads", 1,
           "--lr-schedule", "constant", "--network", "50us,1Gbit", "--replica-check", 5)
# Quick to start, for bits.
BITS = ("--model", "mlp:widths=64", "--dataset", "synthetic:train=4000,test=200", "--eval-every", 0)
# For losses: the seed makes far more of a difference than the number of ranks, and a few lost steps show.
LOSS = ("--model", "mlp:widths=32", "--dataset", "fashion-mnist:limit=8000", "--lr", 0.01)
LAST = 240


class Failed(Exception):
    """Something did not hold."""


class Skipped(Exception):
    """This machine cannot run the scenario."""


def check(holds, *words):
    if not holds:
        raise Failed(" ".join(map(str, words)))


def wait_for(condition, what, seconds=HANG):
    """Seconds until it holds."""
    start = time.monotonic()
    while not condition():
        check(time.monotonic() - start < seconds, f"no end after {seconds} s:", what)
        time.sleep(0.002)
    return time.monotonic() - start


class Job:
    """A run in a folder of its own. `command` goes before the program, to start it elsewhere."""

    def __init__(self, program, folder, workers, flags, env=(), command=(), engine=("--engine", "mpi")):
        self.folder, self.workers, self.env = Path(folder), workers, dict(env)
        self.out = "run"
        self.parts = (command, program, engine, flags)
        self.starts = 0
        self.run = None

    def start(self, *more):
        """Starts it, or goes on with it."""
        command, program, engine, flags = self.parts
        arguments = [*command, program, "train", *REPEATS, "--workers", self.workers, *engine, *flags, "--out", self.out,
                     "--resume", "auto", *more]
        arguments = list(map(str, arguments))
        self.starts += 1
        with open(self.log("out"), "w") as out, open(self.log("err"), "w") as errors:
            out.write(" ".join(arguments) + "\n")
            out.flush()
            self.run = subprocess.Popen(arguments, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                        env={**os.environ, **self.env, "SLUICE_SOAK": self.mark()})
        return self.run

    def mark(self):
        """What its processes have in their environment, wherever they were started."""
        return f"{self.folder}/"

    def log(self, ending):
        return self.folder / f"start-{self.starts}.{ending}"

    def said(self):
        return self.log("out").read_text(errors="replace"), self.log("err").read_text(errors="replace")

    def errors(self):
        return self.said()[1]

    def ended(self):
        return self.run.poll() is not None

    def ranks(self):
        """Processes by rank; fewer while they start or end."""
        try:
            return ranks_of(self.run)
        except (FileNotFoundError, ProcessLookupError):
            return []

    def mpirun(self):
        try:
            return children(self.run.pid)
        except (FileNotFoundError, ProcessLookupError):
            return []

    def wait(self):
        """Its status, and the seconds until then."""
        seconds = wait_for(self.ended, f"the run {self.folder}")
        return self.run.returncode, seconds

    def survivors(self):
        return [pid for pid in marked(self.mark()) if pid != self.run.pid or not self.ended()]

    def all_gone(self):
        return wait_for(lambda: not self.survivors(), f"processes {self.survivors()} outlive their run")

    def latest(self):
        path = self.folder / self.out / "checkpoints/latest"
        return path.read_text().strip() if path.exists() else ""

    def saving(self):
        return any((self.folder / self.out / "checkpoints").glob(".step-*.partial"))

    def finish(self):
        """Goes on undisturbed, to the end."""
        self.start()
        status, _ = self.wait()
        check(status == 0, f"goes on with status {status}: {self.errors()}")

    def summary(self):
        path = self.folder / self.out / "summary.json"
        check(path.exists(), f"no {path}")
        return json.loads(path.read_text())

    def clean_up(self):
        """Ends what is left of it; true if nothing was."""
        left = marked(self.mark())
        for pid in left:
            send(pid, signal.SIGKILL)
        if self.run is not None:
            self.run.wait()
        return not left


def same_bits(job, reference):
    """Weights, optimizer and every rank's residuals: the last step is that of a run that nobody disturbed."""
    ours, theirs = job.summary(), reference.summary()
    for key in ("steps", "ranks", "weights"):
        check(ours[key] == theirs[key], f"{key} must be {theirs[key]} as without faults, is {ours[key]}")
    folders = [x.folder / x.out / "checkpoints" / x.latest() for x in (job, reference)]
    names = [sorted(p.name for p in folder.glob("*.ckpt")) for folder in folders]
    check(names[0] == names[1], "other files:", names)
    for name in names[0]:
        mine, other = (tensors(folder / name) for folder in folders)
        check(mine.keys() == other.keys(), f"other tensors in {name}")
        for tensor, data in mine.items():
            if tensor == "collectives":
                continue  # has the times that exchanges took
            check(data == other[tensor], f"other bits in '{tensor}' of {name}")


class References:
    """Runs that nobody disturbs, made once."""

    def __init__(self, program, folder):
        self.program, self.folder = program, Path(folder)

    def made(self, name, workers, flags):
        folder = self.folder / name
        job = Job(self.program, folder, workers, flags, engine=("--engine", "threads"))
        if not (folder / job.out / "summary.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            job.finish()
        return job

    def bits(self, workers, seed):
        return self.made(f"bits-{workers}-{seed}", workers, (*BITS, "--max-steps", LAST, "--seed", seed))

    def losses(self, workers, seeds=10):
        """Seed -> final loss."""
        return {seed: self.made(f"loss-{workers}-{seed}", workers, (*LOSS, "--max-steps", LAST, "--seed", seed))
                .summary()["eval_loss"] for seed in range(1, seeds + 1)}
