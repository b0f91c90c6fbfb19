#!/usr/bin/env python3
"""Tests of `sluice train --on-failure`: ranks are killed and the job goes on.

Run as: python3 tests/cli/restart_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os
import random
import re
import signal
import time

from faults_test import SOON, FaultTest
from harness import main
from processes import ranks_of
from train_test import SMALL

LAST = 240
# Steps of some 20 ms.
JOB = ("--net", "5ms,1Gbit", "--max-steps", LAST, "--checkpoint-every", "1s", "--log-every", 2, "--engine", "mpi",
       "--lr-schedule", "constant")


class Restart(FaultTest):
    def run_and_kill(self, kills, *args, seed=1):
        """A whole run of whose ranks some are killed at random moments; its end, and what was said."""
        chance = random.Random(seed)
        run = self.start(*SMALL, *JOB, *args)
        killed = 0
        while killed < kills:
            time.sleep(chance.uniform(0.3, 2))
            if run.poll() is not None:
                break
            try:
                ranks = ranks_of(run)
            except (FileNotFoundError, ProcessLookupError):
                continue  # one of them has just ended
            if not ranks:
                continue
            try:
                os.kill(chance.choice(ranks), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
        out, errors = self.end(run, 2 * SOON)
        return run.returncode, killed, errors

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())


class Kills(Restart):
    def test_goes_on_with_as_many(self):
        code, killed, errors = self.run_and_kill(3, "--out", "a", "--on-failure", "restart")
        self.assertEqual(code, 0, errors)
        self.assertEqual(killed, 3)
        done = self.summary("a")
        self.assertEqual((done["steps"], done["ranks"]), (LAST, 2))
        said = re.findall(r"going on from step (\d+) with 2 ranks \(restart (\d) of 10\)", errors)
        self.assertEqual([int(n) for _, n in said], list(range(1, len(said) + 1)), errors)
        self.assertGreaterEqual(len(said), 1)

    def test_goes_on_if_killed_before_all_have_started(self):
        for i in range(4):
            with self.subTest(i=i):
                out = f"a{i}"
                run = self.start(*SMALL, *JOB, "--max-steps", 3, "--out", out, "--on-failure", "restart")
                ranks = []
                while not ranks:
                    try:
                        ranks = ranks_of(run)
                    except (FileNotFoundError, ProcessLookupError):
                        continue
                os.kill(ranks[0], signal.SIGKILL)
                _, errors = self.end(run, 2 * SOON)
                self.assertEqual(run.returncode, 0, errors)
                self.assertEqual(self.summary(out)["steps"], 3)

    def test_goes_on_with_one_fewer(self):
        run = self.begin("a", *JOB, "--on-failure", "shrink")
        os.kill(ranks_of(run)[1], signal.SIGKILL)
        _, errors = self.end(run, 2 * SOON)
        self.assertEqual(run.returncode, 0, errors)
        done = self.summary("a")
        self.assertEqual((done["steps"], done["ranks"]), (LAST, 1))
        self.assertRegex(errors, r"going on from step \d+ with 1 ranks \(restart 1 of 10\)")

    def test_gives_up(self):
        run = self.begin("a", *JOB, "--on-failure", "restart", "--max-restarts", 0)
        os.kill(ranks_of(run)[0], signal.SIGKILL)
        _, errors = self.end(run)
        self.assertEqual(run.returncode, 1)
        self.assertIn("and have not after 0 restarts (--max-restarts)", errors)
        self.goes_on("a")

    def test_a_stop_is_no_failure(self):
        run = self.begin("a", *JOB, "--on-failure", "restart")
        run.send_signal(signal.SIGTERM)
        _, errors = self.end(run)
        self.assertEqual(run.returncode, 0, errors)
        self.assertNotIn("going on", errors)


class Words(FaultTest):
    def test_what_fails_at_once_is_not_tried_again(self):
        (self.folder / "a").write_text("no folder")
        done = self.run_program(*SMALL, *JOB, "--out", "a", "--on-failure", "restart")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("going on", done.stderr)

    def test_bad_input(self):
        self.fails(*SMALL, *JOB, "--on-failure", "pray", says="--on-failure must be stop, restart or shrink")
        self.fails(*SMALL, *JOB, "--on-failure", "restart", says="needs a run folder to go on from: --out RUN")
        self.fails(*SMALL, *JOB, "--engine", "threads", "--out", "a", "--on-failure", "shrink",
                   says="needs --engine mpi")
        self.fails(*SMALL, *JOB, "--out", "a", "--max-restarts", "-1", says="--max-restarts must be from 0")
        self.fails(*SMALL, *JOB, "--out", "a", "--hostfile", "none", says="--hostfile must be a file")
        self.fails(*SMALL, *JOB, "--out", "a", "--eval-every", "3s", says="'eval_every' must be a number of steps")

    def test_hostfile(self):
        (self.folder / "hosts").write_text("localhost slots=2\n")
        done = self.run_program(*SMALL, "--engine", "mpi", "--max-steps", 3, "--out", "a", "--hostfile", "hosts")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
