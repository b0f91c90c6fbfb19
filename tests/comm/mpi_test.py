#!/usr/bin/env python3
"""Real processes under mpirun: what works, and what happens when ranks are
killed, stopped, silent or astray. Usage: mpi_test.py MPI_RANKS"""

import os
import subprocess
import sys
import time
import unittest

PROGRAM = None
ENV = dict(
    os.environ,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
)
# Survivors of a kill need time to name the peer.
PATIENT = ["--mca", "odls_base_sigkill_timeout", "4"]


def mpirun(ranks, *arguments, options=()):
    """Returns (status, stdout, stderr, seconds); a hang is a failure."""
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to"]
    command += ["none", "--mca", "mpi_yield_when_idle", "1", *options]
    start = time.monotonic()
    done = subprocess.run(
        [*command, PROGRAM, *arguments],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=120,
    )
    seconds = time.monotonic() - start
    return done.returncode, done.stdout, done.stderr, seconds


class Works(unittest.TestCase):
    def check(self, ranks, *arguments):
        status, out, err, _ = mpirun(ranks, *arguments)
        self.assertEqual((status, out), (0, "good\n"), err)

    def test_law_on_1_to_5_ranks(self):
        for ranks in (1, 2, 3, 4, 5):
            with self.subTest(ranks=ranks):
                self.check(ranks, "law")

    def test_messages_in_parts(self):
        self.check(3, "parts")

    def test_sums_after_one_that_missed_its_deadline(self):
        for victim in ("0", "2"):
            with self.subTest(victim=victim):
                self.check(3, "late-sum", victim, "2")

    def test_a_message_over_2_gib(self):
        with open("/proc/meminfo") as info:
            kib = next(int(x.split()[1]) for x in info if "MemAvailable" in x)
        if kib < 20 << 20:
            self.skipTest(f"needs 20 GiB of memory, {kib >> 20} GiB are free")
        self.check(2, "large")


class Fails(unittest.TestCase):
    def check_named(self, err, ranks, victim):
        """Every survivor names the victim, the operation and the step."""
        for rank in range(ranks):
            if rank == victim:
                continue
            lines = [x for x in err.splitlines() if f"] rank {rank} " in x]
            self.assertTrue(lines, f"rank {rank} says nothing:\n{err}")
            self.assertRegex(lines[0], rf"^\[(balanced|vote)\] .*rank {victim}")
            self.assertIn("step 3", lines[0])

    def test_a_killed_rank_is_named(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                status, _, err, seconds = mpirun(
                    4, "killed", str(victim), "2", options=PATIENT
                )
                self.assertEqual(status, 137, err)
                self.assertLess(seconds, 20)
                self.check_named(err, 4, victim)

    def test_under_plain_mpirun_survivors_say_what_they_waited_for(self):
        status, _, err, seconds = mpirun(4, "killed", "1", "30")
        self.assertNotEqual(status, 0)
        self.assertLess(seconds, 20)
        self.assertRegex(
            err, r"was told to stop \(SIGTERM\) while it waited for rank 1"
        )

    def test_a_stopped_rank_is_named(self):
        status, _, err, seconds = mpirun(
            4, "stopped", "2", "2", options=PATIENT
        )
        self.assertNotEqual(status, 0)
        self.assertLess(seconds, 40)
        self.check_named(err, 4, 2)
        self.assertIn("does not answer", err)

    def test_a_silent_rank_is_named(self):
        status, _, err, seconds = mpirun(3, "silent", "0", "2", options=PATIENT)
        self.assertNotEqual(status, 0)
        self.assertLess(seconds, 40)
        self.check_named(err, 3, 0)

    def test_a_rank_in_another_step_is_named(self):
        status, _, err, _ = mpirun(3, "astray", "1", "10", options=PATIENT)
        self.assertNotEqual(status, 0)
        self.assertRegex(err, r"got from rank 1 in step 3: step 4 .* was due")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop()
    unittest.main()
