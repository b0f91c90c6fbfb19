#!/usr/bin/env python3
"""Tests of ranks as processes: how they start and how they end.

Run as: python3 tests/cli/ranks_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from harness import COLLECTIVE, CliTest, SLUICE, main, needs_mpi, sluice
from processes import children


class Ranks(CliTest):
    """Ranks as processes: every failure ends, and says whose it was."""
    LONG = ("bench", "collective", "--n", "1M", "--steps", "1000000", "--workers", "3", "--collective", "balanced")

    def start(self, *args):
        """The program, and its ranks once they run."""
        program = subprocess.Popen([SLUICE, *self.LONG, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(program.kill)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            ranks = [rank for mpirun in children(program.pid) for rank in children(mpirun)]
            if len(ranks) == 3:
                time.sleep(2)  # until MPI is up; loading torch takes a while
                return program, ranks
            time.sleep(0.05)
        self.fail("no ranks were started")

    def gone(self, pids):
        for pid in pids:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                continue
            self.assertEqual(state, "Z", f"rank {pid} still runs")

    @needs_mpi
    def test_dead_rank_is_named(self):
        program, ranks = self.start("--timeout", "1.5")
        os.kill(ranks[2], signal.SIGKILL)
        out, errors = program.communicate(timeout=30)
        self.assertEqual((program.returncode, out), (1, ""))
        self.assertRegex(errors, r"rank [01] \(host \S+, process \d+\): .* rank 2 does not answer")
        self.assertIn("[launch] all of 3 ranks must end well; a rank that has not said why was killed", errors)
        self.gone(ranks)

    @needs_mpi
    def test_signal_ends_all(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                program, ranks = self.start()
                program.send_signal(number)
                program.communicate(timeout=10)
                self.assertEqual(program.returncode, 1)
                self.gone(ranks)

    @needs_mpi
    def test_late_rank_fails_all(self):
        done = sluice("bench", "collective", "--n", "1M", "--workers", "2", "--timeout", "0.0001")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "does not answer|was paused or slow")
        self.assertTrue(done.stderr.endswith("[launch] all of 2 ranks must end well\n"), "both say why: none was killed")

    def test_late_thread_fails_all(self):
        self.fails("bench", "collective", "--n", "1M", "--engine", "threads", "--timeout", "0.0001",
                   says="; rank ")

    def test_without_mpirun(self):
        done = sluice(*COLLECTIVE, "--engine", "mpi", path="/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--engine threads works", done.stderr)
        self.ok(*COLLECTIVE, "--engine", "threads", path="/nowhere")

    def mpirun(self, *args):
        env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(["mpirun", "--quiet", "-n", "2", "--oversubscribe", SLUICE, *args], env=env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    @needs_mpi
    def test_under_mpirun(self):
        done = self.mpirun(*COLLECTIVE, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual({row["workers"] for row in json.loads(done.stdout)}, {2})

    @needs_mpi
    def test_mistakes_under_mpirun_are_told_once(self):
        cases = {("--workers", "3"): "--workers must be the number of ranks that mpirun started, 2,",
                 ("--density", "2"): "density must be above 0",
                 ("--engine", "threads"): "--engine must be mpi"}
        for args, says in cases.items():
            with self.subTest(args=args):
                done = self.mpirun(*COLLECTIVE, *args)
                self.assertGreater(done.returncode, 0)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    main()
