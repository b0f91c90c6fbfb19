#!/usr/bin/env python3
"""Tests of `sluice train` where something goes wrong around it: two jobs in one folder, launchers that are killed,
stops, readers that do not read, disks that are full, slow or gone, ranks that are paused.

Run as: python3 tests/cli/faults_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from harness import main
from processes import alive, children, ranks_of
from train_test import SMALL, THREADS, TrainTest, small_files

# Steps of some 20 ms, on a network that is emulated.
SLOW = ("--net", "5ms,1Gbit", "--max-steps", 100000, "--checkpoint-every", 20, "--log-every", 2)
# For what must end by itself: a hang, not a time, is what these tests look for.
SOON = 60


class FaultTest(TrainTest):
    def begin(self, out, *args, **how):
        """A run that has saved something."""
        run = self.start(*SMALL, *SLOW, "--out", out, *args, **how)
        self.wait_for(lambda: self.latest(out) or run.poll() is not None)
        self.assertIsNone(run.poll(), "it ended")
        return run

    def end(self, run, timeout=SOON):
        out, errors = run.communicate(timeout=timeout)
        return out, errors

    def step(self, out):
        return int(self.latest(out)[5:])

    def goes_on(self, out):
        step = self.step(out)
        done = self.train("--resume", out, "--max-steps", step + 2, "--net", "1us,10Gbit")
        self.assertEqual(done["steps"], step + 2)


class Owner(FaultTest):
    def test_two_jobs_in_one_folder(self):
        for engine in ("threads", "mpi"):
            with self.subTest(engine=engine):
                run = self.begin(engine, "--engine", engine)
                for other in ("threads", "mpi"):
                    for args in (("--resume",), ("--overwrite",), ("--resume", "auto")):
                        self.fails(*SMALL, "--engine", other, "--out", engine, *args, lines=1 if other == "threads" else 2,
                                   says=("no other job uses", f"'{engine}' is locked by process", "another --out"))
                self.assertIsNone(run.poll(), "the first one goes on")
                run.send_signal(signal.SIGTERM)
                _, errors = self.end(run)
                self.assertEqual(run.returncode, 0, errors)
                self.assertFalse((self.folder / engine / "run.lock").exists())
                self.goes_on(engine)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "needs root and unshare")
    def test_another_host_name(self):
        run = self.begin("a", "--engine", "threads")
        done = subprocess.run(["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh",
                               *self.command(*THREADS, "--out", "a", "--resume", "auto")], cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot be seen from here", done.stderr)
        self.assertIn("has just shown that it is alive", done.stderr)
        self.assertIsNone(run.poll(), "the first one goes on")

    def test_a_killed_launcher_takes_its_ranks_along(self):
        run = self.begin("a", "--engine", "mpi")
        below = children(run.pid) + ranks_of(run)
        self.assertEqual(len(below), 3)
        step = self.step("a")
        run.send_signal(signal.SIGKILL)
        _, errors = self.end(run)
        self.wait_for(lambda: not any(map(alive, below)))
        self.assertIn("was left alone", errors)
        self.assertGreater(self.step("a"), step, "they saved what they had")
        self.goes_on("a")

    def test_a_killed_process_leaves_no_lock_for_long(self):
        run = self.begin("a", "--engine", "threads")
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.assertTrue((self.folder / "a/run.lock").exists())
        self.goes_on("a")


class Stops(FaultTest):
    def check_saved(self, run, out, step):
        text, errors = self.end(run)
        self.assertEqual(run.returncode, 0, errors)
        self.assertIn("stopped by a signal", text)
        self.assertIn(f"go on with: sluice train --resume {out}", text)
        self.assertGreater(self.step(out), step)

    def test_once_or_twice(self):
        for engine in ("threads", "mpi"):
            for number, gap in ((signal.SIGTERM, None), (signal.SIGINT, 0), (signal.SIGINT, 0.02), (signal.SIGTERM, 0.5)):
                out = f"{engine}-{number}-{gap}"
                with self.subTest(out=out):
                    run = self.begin(out, "--engine", engine, "--checkpoint-every", 5)
                    step = self.step(out)
                    run.send_signal(number)
                    if gap is not None:
                        time.sleep(gap)
                        run.send_signal(number)
                    self.check_saved(run, out, step)

    def test_by_one_rank(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = self.begin(f"r{rank}", "--engine", "mpi")
                step = self.step(f"r{rank}")
                os.kill(ranks_of(run)[rank], signal.SIGTERM)
                self.check_saved(run, f"r{rank}", step)

    def test_an_mpirun_of_the_users_own(self):
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        run = subprocess.Popen(["mpirun", "-n", "2", "--oversubscribe", *self.command(*SMALL, *SLOW, "--out", "own")],
                               cwd=self.folder, stdin=subprocess.DEVNULL, text=True, env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(lambda: (run.poll() is None and run.kill(), run.communicate()))
        self.wait_for(lambda: self.latest("own") or run.poll() is not None)
        step = self.step("own")
        run.send_signal(signal.SIGUSR1)
        self.check_saved(run, "own", step)

    def test_a_third_signal_ends_at_once(self):
        run = self.begin("a", "--engine", "threads", "--net", "300ms,1Gbit")
        for _ in range(3):
            run.send_signal(signal.SIGTERM)
            time.sleep(0.02)
        self.end(run)
        self.assertEqual(run.returncode, -signal.SIGTERM)

    def test_before_there_is_anything(self):
        for delay in (0, 0.1, 0.4, 1):
            with self.subTest(delay=delay):
                run = self.start(*SMALL, *SLOW, "--engine", "mpi", "--out", f"a{delay}")
                time.sleep(delay)
                run.send_signal(signal.SIGTERM)
                out, errors = self.end(run)
                if run.returncode == 0:
                    self.assertIn("stopped by a signal", out)
                elif run.returncode == 1:
                    self.assertIn("stopped by a signal before they", errors)
                else:
                    self.assertEqual(run.returncode, -signal.SIGTERM)

    def test_while_a_rank_is_lost(self):
        """The other one is inside MPI_Init by then, where nothing tells it."""
        run = self.start(*SMALL, *SLOW, "--engine", "mpi", "--out", "a")
        self.wait_for(lambda: len(ranks_of(run)) == 2)
        os.kill(ranks_of(run)[1], signal.SIGKILL)
        run.send_signal(signal.SIGTERM)
        _, errors = self.end(run)
        self.assertEqual(run.returncode, 1, errors)
        self.assertIn("stopped by a signal before they", errors)


class Readers(FaultTest):
    """Who reads what a run says, or does not."""

    def test_one_that_leaves(self):
        for engine in ("threads", "mpi"):
            with self.subTest(engine=engine):
                command = self.command(*SMALL, "--engine", engine, "--max-steps", 200, "--log-every", 1, "--out", engine)
                done = subprocess.run(["bash", "-c", '"$@" | head -2; exit ${PIPESTATUS[0]}', "bash", *command],
                                      cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=SOON)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(done.stdout.splitlines()), 2)
                self.assertEqual(json.loads((self.folder / engine / "summary.json").read_text())["steps"], 200)

    def test_one_that_stops_reading(self):
        for engine in ("threads", "mpi"):
            with self.subTest(engine=engine):
                run = self.start(*SMALL, "--engine", engine, "--max-steps", 1500, "--log-every", 1, "--out", engine,
                                 "--timeout", 5)
                run.wait(SOON)  # nobody reads: some 150 kB of lines
                self.assertEqual(run.returncode, 0)
                self.assertEqual(self.latest(engine), "step-00001500")

    def test_a_full_disk_under_standard_output(self):
        for engine in ("threads", "mpi"):
            with self.subTest(engine=engine), open("/dev/full", "w") as full:
                done = subprocess.run(self.command(*SMALL, "--engine", engine, "--max-steps", 20, "--out", engine),
                                      cwd=self.folder, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=SOON)
                self.assertEqual(done.returncode, 1)
                self.assertIn("could not be written: No space left on device", done.stderr)
                self.assertEqual(self.latest(engine), "step-00000020")

    def test_a_full_disk_under_metrics(self):
        self.fails(*THREADS, "--max-steps", 3000, "--log-every", 1, "--out", "a", "--model", "logistic",
                   preexec_fn=small_files, says=("could not be written: File too large", "the run was saved after step",
                                                 "go on with: sluice train --resume a"))
        self.goes_on("a")


class Blame(FaultTest):
    def test_a_killed_rank(self):
        run = self.begin("a", "--engine", "mpi", "--workers", 3, "--timeout", 3)
        os.kill(ranks_of(run)[1], signal.SIGKILL)
        _, errors = self.end(run)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(errors, r"rank [02] .*rank 1 does not answer")
        self.assertIn("was killed (SIGKILL), perhaps for memory", errors)
        self.check_advice(errors, "a")
        self.goes_on("a")

    def test_a_crashed_rank(self):
        run = self.begin("a", "--engine", "mpi", "--workers", 3, "--timeout", 3)
        os.kill(ranks_of(run)[1], signal.SIGSEGV)
        _, errors = self.end(run)
        self.assertEqual(run.returncode, 1)
        self.assertIn("[launch] a rank has crashed: Segmentation fault", errors)
        self.assertNotIn("memory", errors)

    def check_advice(self, errors, out):
        """The step is one that was trained, and the operator is told what to type."""
        self.assertIn(f"go on with: sluice train --resume {out}", errors)
        self.assertNotIn("recover()", errors)
        logged = [json.loads(x)["step"] for x in (self.folder / out / "metrics.jsonl").read_text().splitlines()]
        for step in map(int, re.findall(r"in step (\d+)", errors)):
            self.assertLessEqual(abs(step - logged[-1]), 3, errors)

    def test_a_paused_rank(self):
        for victim in (0, 1, 2):
            with self.subTest(victim=victim):
                out = f"p{victim}"
                run = self.begin(out, "--engine", "mpi", "--workers", 4, "--timeout", 3, "--plan", "layerwise")
                rank = ranks_of(run)[victim]
                os.kill(rank, signal.SIGSTOP)
                time.sleep(4)
                os.kill(rank, signal.SIGCONT)
                _, errors = self.end(run)
                self.assertEqual(run.returncode, 1)
                lines = [x for x in errors.splitlines() if x.startswith("rank ")]
                self.assertEqual(len(lines), 4, errors)
                for line in lines:
                    self.assertRegex(line, rf"rank {victim} (does not answer|was paused or slow)")
                self.assertIn(f"rank {victim} was paused or slow", errors)
                self.assertNotIn("killed", errors)
                self.check_advice(errors, out)

    def test_a_rank_that_stays_paused(self):
        run = self.begin("a", "--engine", "mpi", "--workers", 3, "--timeout", 2)
        rank = ranks_of(run)[2]
        os.kill(rank, signal.SIGSTOP)
        _, errors = self.end(run)
        self.assertEqual(run.returncode, 1)
        self.assertIn("rank 2 does not answer", errors)
        self.assertNotIn("memory", errors)
        self.assertFalse(alive(rank))


class Outages(FaultTest):
    def test_a_launcher_that_hangs_is_ended(self):
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "mpirun").write_text(f"#!/bin/bash\n{shutil.which('mpirun')} \"$@\"\ntrap '' TERM INT\n"
                                      "while :; do sleep 1; done\n")
        (tools / "mpirun").chmod(0o755)
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        run = self.start(*SMALL, "--engine", "mpi", "--timeout", 2, "--max-steps", 100000, "--out", "a", "--nonfinite",
                         "stop", "--lr", "1e9", "--sparsifier", "none", "--optimizer", "sgd:momentum=0", env=env)
        _, errors = self.end(run)
        self.assertEqual(run.returncode, 1, errors)
        self.assertIn("the loss must be finite", errors)

    def test_a_folder_that_is_renamed_or_removed(self):
        for engine in ("threads", "mpi"):
            for how in ("renamed", "removed", "replaced"):
                out = f"{engine}-{how}"
                with self.subTest(out=out):
                    run = self.begin(out, "--engine", engine)
                    if how == "removed":
                        shutil.rmtree(self.folder / out)
                    else:
                        (self.folder / out).rename(self.folder / f"{out}-moved")
                    if how == "replaced":
                        (self.folder / out).mkdir()
                    _, errors = self.end(run)
                    self.assertEqual(run.returncode, 1, errors)
                    self.assertIn(f"'{out}' must stay where it is while a run writes to it", errors)
                    self.assertIn(f"go on with: sluice train --resume {out}.rescued", errors)
                    self.assertEqual((self.folder / out).exists(), how == "replaced")
                    self.goes_on(f"{out}.rescued")


@unittest.skipUnless(os.environ.get("SLOW_DISK"), "needs the library slow_disk, whose path is in SLOW_DISK")
class SlowDisk(FaultTest):
    def run_on_slow_disk(self, seconds, *args):
        env = {**os.environ, "LD_PRELOAD": os.environ["SLOW_DISK"], "SLOW_DISK_SECONDS": str(seconds)}
        return subprocess.run(self.command(*SMALL, "--engine", "mpi", "--timeout", 2, "--max-steps", 6, "--out", "a", *args),
                              cwd=self.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON)

    def test_is_not_a_dead_rank(self):
        done = self.run_on_slow_disk(5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.latest("a"), "step-00000006")

    def test_has_a_limit(self):
        done = self.run_on_slow_disk(9, "--write-timeout", 3)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"rank 1 must be done with .*rank-1.ckpt' \(--write-timeout\) in 3 s, and is not")


if __name__ == "__main__":
    main()
