#!/usr/bin/env python3
"""Ranks that share one GPU and exchange by NCCL: sums and laws, killed and stopped
ranks, trainings beside those that go through the host. For NCCL >= 2.30.3.
Usage: nccl_test.py MPI_RANKS SLUICE FOLDER_OF_LIBNCCL"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import mpi_test

SLUICE = None
JOB = "--model mlp:widths=256 --dataset synthetic:train=4000,test=100 --device cuda " \
    "--deterministic on --eval-every 0 --replica-check 1 --timeout 20 --log-every 1".split()


class Ranks(unittest.TestCase):
    def test_law_and_identical_bits(self):
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                status, out, err, _ = mpi_test.mpirun(ranks, "law", "0", "20", "nccl")
                self.assertEqual((status, out), (0, "good\n"), err)

    def check_named(self, err, ranks, victim):
        for rank in set(range(ranks)) - {victim}:
            lines = [x for x in err.splitlines() if f"] rank {rank} " in x]
            self.assertTrue(lines, f"rank {rank} says nothing:\n{err}")
            self.assertRegex(lines[0], rf"^\[(allgather|vote)\] .*rank {victim} ")
            self.assertIn("step 3", lines[0])

    def test_a_killed_and_a_stopped_rank_are_named(self):
        for what, victim in (("killed", 0), ("stopped", 1)):
            with self.subTest(what=what):
                status, _, err, seconds = mpi_test.mpirun(3, what, str(victim), "2", "nccl", options=mpi_test.PATIENT)
                self.assertNotEqual(status, 0, err)
                self.assertLess(seconds, 40)
                self.check_named(err, 3, victim)


class Training(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def command(self, *args):
        out = pathlib.Path(self.folder.name) / "run"
        return [SLUICE, "train", *JOB, "--overwrite", "--out", str(out), *map(str, args)]

    def train(self, *args):
        done = subprocess.run(self.command("--max-steps", 8, "--json", *args), env=mpi_test.ENV, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_lists_have_the_bits_of_the_host(self):
        for workers in (2, 4):
            job = ("--workers", workers, "--collective", "allgather", "--dense-rank", 0)
            nccl = self.train("--gpu-link", "nccl", *job)
            mpi = self.train("--gpu-link", "mpi", *job)
            self.assertEqual((nccl["gpu_link"], mpi["gpu_link"]), ("nccl", "mpi"))
            self.assertEqual(nccl["weights"], mpi["weights"])

    def test_dense_sums(self):
        job = ("--sparsifier", "none", "--dense-collective")
        nccl = self.train("--gpu-link", "nccl", "--workers", 2, *job, "dense")
        mpi = self.train("--gpu-link", "mpi", "--workers", 2, *job, "dense")
        self.assertEqual(nccl["weights"], mpi["weights"])  # two ranks add in one order
        # --replica-check compares weights after every step.
        for collective in ("dense", "dense-bf16"):
            done = self.train("--gpu-link", "nccl", "--workers", 3, *job, collective)
            self.assertEqual(done["steps"], 8)

    def test_a_signal_saves(self):
        run = subprocess.Popen(self.command("--max-steps", 100000, "--workers", 2, "--gpu-link", "nccl"),
                               env=mpi_test.ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        metrics = pathlib.Path(self.folder.name) / "run" / "metrics.jsonl"
        until = time.monotonic() + 40
        while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < until:
            time.sleep(0.2)
        run.send_signal(signal.SIGTERM)
        out, errors = run.communicate(timeout=40)
        self.assertEqual(run.returncode, 0, errors)
        self.assertIn("stopped by a signal", out)

    def test_workers_on_one_gpu_need_leave_of_nccl(self):
        env = dict(mpi_test.ENV, NCCL_MULTI_RANK_GPU_ENABLE="0")
        done = subprocess.run(self.command("--max-steps", 2, "--workers", 2, "--gpu-link", "nccl"), env=env,
                              capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"ranks 0 and 1 are on one GPU.*--gpu-link mpi")


if __name__ == "__main__":
    folder = sys.argv.pop()
    SLUICE = sys.argv.pop()
    mpi_test.PROGRAM = sys.argv.pop()
    mpi_test.ENV.update(
        LD_PRELOAD=os.path.join(folder, "libnccl.so.2"),
        NCCL_MULTI_RANK_GPU_ENABLE="1",
        NCCL_MAX_CTAS="4",
        CUBLAS_WORKSPACE_CONFIG=":4096:8",
    )
    unittest.main()
