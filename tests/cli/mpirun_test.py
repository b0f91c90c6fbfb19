#!/usr/bin/env python3
"""Tests of what `sluice train`, `probe` and `bench collective` do where MPI and mpirun know no deadline, and of what a
job on one host lets others reach.

Run as: python3 tests/cli/mpirun_test.py PATH_TO_SLUICE [unittest options]
"""

import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from harness import SLUICE, main
from processes import alive, children, listening, marked, ranks_of
from train_test import SMALL, TrainTest

SOON = 60
OWN = ("mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none")
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SLOW = ("--net", "5ms,1Gbit", "--max-steps", 100000, "--checkpoint-every", 20)


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class MpirunTest(TrainTest):
    def begin(self, *command):
        program = subprocess.Popen([*map(str, command)], cwd=self.folder, stdin=subprocess.DEVNULL, text=True, env=ENV,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(lambda: (program.poll() is None and program.kill(), program.communicate()))
        return program

    def trains(self, out, timeout, before=()):
        """A job that has saved something."""
        run = self.begin(*before, SLUICE, "train", *SMALL, *SLOW, "--engine", "mpi", "--timeout", timeout, "--out", out)
        self.wait_for(lambda: self.latest(out) or run.poll() is not None)
        self.assertIsNone(run.poll(), "it ended")
        return run


class Start(MpirunTest):
    """MPI_Init waits for all ranks without a deadline. Side by side: each takes --timeout and ten seconds."""
    COMMANDS = (("train", *SMALL, "--engine", "mpi", "--out", "run"), ("probe", "--workers", 2, "--out", "net.json"),
                ("bench", "collective", "--workers", 2, "--n", "10k", "--steps", 2))

    def test_a_rank_that_is_stopped(self):
        jobs = [self.begin(SLUICE, *command, "--timeout", 1) for command in self.COMMANDS]
        own = self.begin(*OWN, SLUICE, *self.COMMANDS[2], "--timeout", 1)
        victims = []
        for job in jobs:
            self.wait_for(lambda: len(ranks_of(job)) == 2 or job.poll() is not None)
            victims.append(ranks_of(job)[1])
            os.kill(victims[-1], signal.SIGSTOP)
        self.wait_for(lambda: len(children(own.pid)) == 2)
        victims.append(children(own.pid)[0])
        os.kill(victims[-1], signal.SIGSTOP)
        for job, victim in zip([*jobs, own], victims):
            with self.subTest(job=job.args):
                _, errors = job.communicate(timeout=SOON)
                self.assertEqual(job.returncode, 1, errors)
                self.assertIn("all ranks must start within 11 s (--timeout, and 10), but MPI_Init has not returned", errors)
                if job is not own:
                    self.assertIn(f"[launch] rank 1 (process {victim}) was stopped by a signal (SIGSTOP)", errors)
                self.assertFalse(alive(victim))
        self.assertEqual(marked(str(self.folder)), [], "no process is left")


class End(MpirunTest):
    """mpirun waits for whoever has connected to its port and says nothing, and MPI_Finalize for mpirun."""

    def connect(self, mpirun):
        for address, port in listening(mpirun):
            host = "::1" if ":" in address else "127.0.0.1"
            self.addCleanup(socket.create_connection((host, port)).close)

    def test_idle_connections(self):
        run = self.trains("a", 3)
        own = self.trains("own", 3, before=OWN)
        ranks = ranks_of(run)
        self.connect(children(run.pid)[0])
        self.connect(own.pid)
        run.send_signal(signal.SIGTERM)
        own.send_signal(signal.SIGUSR1)
        out, errors = run.communicate(timeout=SOON)
        self.assertEqual(run.returncode, 0, errors)
        self.assertIn("stopped by a signal", out)
        self.assertIn("[launch] all ranks are done, but have not ended in 8 s", errors)
        self.assertFalse(any(map(alive, ranks)))
        # An mpirun of the user's own waits for the connection; the ranks do not.
        self.wait_for(lambda: not any(map(alive, children(own.pid))))
        own.kill()
        out, errors = own.communicate()
        self.assertIn("the job is complete, but MPI_Finalize has not returned in 13 s", errors)


class Ports(MpirunTest):
    def test_one_host_listens_on_the_loopback_alone(self):
        run = self.trains("a", 60)
        mpirun = children(run.pid)[0]
        self.assertNotEqual(listening(mpirun), [], "the test sees what listens")
        for pid in (run.pid, mpirun, *ranks_of(run)):
            for address, port in listening(pid):
                self.assertTrue(ipaddress.ip_address(address).is_loopback, f"process {pid} listens on {address}:{port}")
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=SOON)
        self.assertEqual((run.returncode, errors), (0, ""))

    def test_the_environment_of_the_user_stays(self):
        ENV["OMPI_MCA_btl"] = "self,tcp"
        self.addCleanup(ENV.pop, "OMPI_MCA_btl")
        run = self.trains("a", 60)
        ports = [p for rank in ranks_of(run) for p in listening(rank)]
        self.assertNotEqual(ports, [], "ranks exchange by TCP")
        self.assertEqual(listening(run.pid), [])
        preload = [x for rank in ranks_of(run) for x in Path(f"/proc/{rank}/environ").read_text().split("\0")
                   if x.startswith("LD_PRELOAD=")]
        self.assertEqual(set(preload), {"LD_PRELOAD="}, "mpirun's alone")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=SOON)
        self.assertEqual(run.returncode, 0)


if __name__ == "__main__":
    main()
