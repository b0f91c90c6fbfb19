"""What the tests of the program share. A test file is run with the path of the program as its first argument, which
is taken away when this is imported."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path


def find_program():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} PATH_TO_SLUICE [unittest options]")
    path = os.path.abspath(sys.argv.pop(1))
    if not os.access(path, os.X_OK):
        sys.exit(f"[{Path(sys.argv[0]).stem}] no program at {path}; build it with: "
                 "cmake --preset release && cmake --build --preset release")
    return path


SLUICE = find_program()
main = unittest.main

SPARSIFIERS = {
    "topk", "adtopk", "adtopk-interleaved", "adtopk-threshold", "randomk", "threshold", "dgc", "gaussiank",
    "redsync", "redsync-trimmed", "redsync-quantized", "sidco-e", "sidco-gp", "sidco-p", "tile", "none",
}
FEEDBACK = {"none", "residual", "dgc"}
CODECS = {"auto", "dense", "elias-fano", "bitpack", "rows", "bitmap", "raw32"}
KINDS = ("sparsifiers", "feedback", "codecs", "collectives", "planners", "schedules", "exceptions", "studies",
         "text-corpora", "tokenizers", "build")
DATA = ("randn", "laplace", "t3", "equal", "zeros", "ramp")

SELECT = ("bench", "select", "--steps", "1", "--sparsifier", "topk", "--density", "0.01")
WIRE = ("bench", "wire", "--steps", "1", "--density", "0.01")
COLLECTIVE = ("bench", "collective", "--steps", "1", "--warmup", "0", "--n", "20k")
# In this process, so that it is quick.
SIMULATED = ("--engine", "simulated", "--net", "50us,1Gbit")


def sluice(*args, cpu=None, stdout=subprocess.PIPE, preexec_fn=None, path=None):
    """Runs the program; SLUICE_CPU is what the test says and nothing else."""
    env = {key: value for key, value in os.environ.items() if key != "SLUICE_CPU"}
    if cpu is not None:
        env["SLUICE_CPU"] = cpu
    if path is not None:
        env["PATH"] = path
    return subprocess.run([SLUICE, *map(str, args)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                          text=True, errors="replace", timeout=120, env=env, preexec_fn=preexec_fn)


def little_memory():
    """For preexec_fn: 2 GiB of address space."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def without(option, args):
    """The arguments without an option and its value, which may be given once."""
    args = list(args)
    if option in args:
        at = args.index(option)
        del args[at:at + 2]
    return args


def needs_mpi(test):
    """Skips a test where the program cannot start ranks as processes."""
    def run(self):
        done = sluice("bench", "collective", "--n", "10", "--engine", "mpi", "--workers", "0")
        if "needs a build with MPI" in done.stderr or shutil.which("mpirun") is None:
            self.skipTest("needs Open MPI")
        test(self)
    return run


class CliTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, content, name="gradient.npy"):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def ok(self, *args, **how):
        done = sluice(*args, **how)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stderr}")
        self.assertEqual(done.stderr, "", f"{args}: nothing on stderr where it is no terminal")
        return done.stdout

    def json(self, *args, **how):
        def constant(name):
            self.fail(f"{args}: {name} is not JSON")
        return json.loads(self.ok(*args, "--json", **how), parse_constant=constant)

    def rows(self, *args, **how):
        rows = self.json(*args, **how)
        self.assertIsInstance(rows, list)
        for row in rows:
            self.assertNotIn(None, row.values(), f"{args}: a number that is none: {row}")
        return rows

    def fails(self, *args, says=(), **how):
        """Non-zero by exit, not by a signal; one line on stderr with the phrases; nothing on stdout."""
        done = sluice(*args, **how)
        self.assertGreater(done.returncode, 0, f"{args}: {done.stdout}{done.stderr}")
        self.assertLess(done.returncode, 126, f"{args}: ended by a signal: {done.stderr}")
        self.assertEqual(done.stdout, "", f"{args}: an error prints nothing on stdout")
        self.assertTrue(done.stderr.endswith("\n"), f"{args}: {done.stderr!r}")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, f"{args}: one line, got {len(lines)}: {done.stderr}")
        for word in ("terminate", "std::", "exception:", "Assertion", "Traceback"):
            self.assertNotIn(word, done.stderr, f"{args}")
        for phrase in (says,) if isinstance(says, str) else says:
            self.assertIn(phrase, done.stderr, f"{args}")
        return done.stderr

    def each_fails(self, base, option, cases):
        """`cases`: value -> phrases. Both spellings, --option value and --option=value."""
        for value, says in cases.items():
            for spelled in ((f"{option}={value}",), (option, value)):
                with self.subTest(args=spelled):
                    self.fails(*base, *spelled, says=says)


class RunTest(unittest.TestCase):
    """A command that makes run folders, in a folder that is gone afterwards."""
    COMMAND = "train"

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-run-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def command(self, *args):
        return [SLUICE, self.COMMAND, *map(str, args)]

    def run_program(self, *args, preexec_fn=None):
        return subprocess.run(self.command(*args), cwd=self.folder, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=80, preexec_fn=preexec_fn)

    def fails(self, *args, says, lines=1, preexec_fn=None):
        """It fails, on all ranks, with one line that says so."""
        done = self.run_program(*args, preexec_fn=preexec_fn)
        self.assertEqual(done.returncode, 1, done.stderr)
        for part in (says,) if isinstance(says, str) else says:
            self.assertIn(part, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), lines, done.stderr)
        return done

    def start(self, *args, **kwargs):
        """A run in the background, killed at the latest when the test ends."""
        run = subprocess.Popen(self.command(*args), cwd=self.folder, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)
        self.addCleanup(lambda: (run.poll() is None and run.kill(), run.communicate()))
        return run

    def wait_for(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, "nothing happened for a minute")
            time.sleep(0.01)
