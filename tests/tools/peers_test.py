#!/usr/bin/env python3
"""Tests of benchmarks/peers.py, as far as they need neither torch nor sluice."""

import contextlib
import io
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import peers  # noqa: E402


def row(**changes):
    return {"sparsifier": "topk", "n": 4096, "density": 0.01, "threads": 1, "phase": "steady", "seconds": 0.002,
            "floor_seconds": 0.001, "ratio": 2.0, "k_hat": 40, "device": "cpu/avx2", **changes}


class Arithmetic(unittest.TestCase):
    def test_keeps_steady_rows_by_name_and_density(self):
        rows = peers.steady_rows([row(phase="cold"), row(), row(density=0.001), row(sparsifier="adtopk")])
        self.assertEqual(set(rows), {("topk", 0.01), ("topk", 0.001), ("adtopk", 0.01)})

    def test_refuses_two_of_a_kind(self):
        with self.assertRaisesRegex(ValueError, "must have one steady row of each, got 2 of 1"):
            peers.steady_rows([row(), row()])

    def test_divides_theirs_by_ours(self):
        found = peers.beside(row(), 0.01, 0.004, 41)
        self.assertEqual((found["speedup"], found["torch_ratio"]), (5, 2.5))
        self.assertEqual((found["sluice_selected"], found["torch_selected"]), (40, 41))

    def test_prints_milliseconds(self):
        title, cells = peers.as_table([peers.beside(row(), 0.01, 0.004, 41)]).splitlines()
        self.assertEqual(cells.split(), ["topk", "4096", "0.01", "1", "2", "10", "5.0x", "2.00", "4"])


class Options(unittest.TestCase):
    def error(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stderr(out), self.assertRaises(SystemExit):
            peers.parse_options(arguments)
        return out.getvalue()

    def test_defaults_are_those_of_the_device(self):
        options = peers.parse_options([])
        self.assertEqual((options.n, options.threads, options.steps), ([25_000_000], [1, 2], 3))
        options = peers.parse_options(["--device", "cuda"])
        self.assertEqual(options.n, [1_000_000, 25_000_000, 110_000_000, 340_000_000])
        self.assertGreaterEqual(options.steps, 7)

    def test_what_is_given_wins(self):
        options = peers.parse_options(["--device", "cuda", "--n", "4k", "25M", "--steps", "2", "--quick"])
        self.assertEqual((options.n, options.steps), ([4000, 25_000_000], 2))
        self.assertEqual(peers.parse_options(["--quick"]).n, [4_000_000])

    def test_refuses_threads_on_a_gpu(self):
        self.assertIn("--threads goes with --device cpu", self.error("--device", "cuda", "--threads", "2"))

    def test_refuses_sizes_below_a_row(self):
        self.assertIn("must be a whole number of at least 1024", self.error("--n", "5"))


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = Path(folder.name) / "sluice"

    def write(self, script):
        self.program.write_text(f"#!/bin/sh\n{script}\n")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def test_says_what_it_said(self):
        self.write("echo '[cuda] this build has no CUDA' >&2; exit 1")
        problem, rows = peers.bench(self.program, "cuda", "--n", 1024)
        self.assertIsNone(rows)
        self.assertEqual(problem, f"'{self.program} bench select --n 1024 --json --device cuda' must succeed, got exit "
                                  "status 1: [cuda] this build has no CUDA")

    def test_names_what_is_missing(self):
        self.write("echo '[]'")
        with self.assertRaisesRegex(SystemExit, "must print a steady row of each, got none of topk at 0.01"):
            peers.ours_of(self.program, "cuda", ["topk"], [0.01], "randn")


if __name__ == "__main__":
    unittest.main()
