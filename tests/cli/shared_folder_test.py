#!/usr/bin/env python3
"""Tests of run folders into which somebody else can write: nothing outside of them is overwritten, and nothing that
lies there makes a run hang.

Run as: python3 tests/cli/shared_folder_test.py PATH_TO_SLUICE [unittest options]
"""

import os
import resource

from harness import main
from train_test import THREADS, TrainTest

WRITTEN = ("config.json", "plan.json", "classes.json", "profile.json", "network.json", "trace.json", "summary.json",
           "about.json", "report.html", "checkpoints/latest")


def little_memory():
    """For preexec_fn: 8 GiB of address space, which holds the libraries and no thousand stacks."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


class SharedFolder(TrainTest):
    def test_links_under_temporary_names(self):
        victim = self.folder / "victim"
        victim.write_text("of somebody else")
        run = self.folder / "run"
        (run / "checkpoints").mkdir(parents=True)
        for name in WRITTEN:
            (run / f"{name}.partial").symlink_to(victim)
        self.train(*THREADS, "--max-steps", 4, "--checkpoint-every", 2, "--trace", "2:3", "--out", "run")
        self.assertEqual(victim.read_text(), "of somebody else")
        made = [name for name in WRITTEN if (run / name).exists()]
        self.assertLessEqual({"config.json", "plan.json", "summary.json", "about.json", "report.html",
                              "checkpoints/latest"}, set(made))
        for name in made:
            self.assertFalse((run / name).is_symlink(), name)
            self.assertFalse((run / f"{name}.partial").is_symlink(), name)

    def test_links_and_pipes_under_names_of_the_run(self):
        self.train(*THREADS, "--max-steps", 2, "--out", "run")
        victim = self.folder / "victim"
        victim.write_text("of somebody else")
        cases = {"run.lock": ("the lock of the run, must be a file that can be read, but: it is a", "remove it"),
                 "metrics.jsonl": ("must be a file that can be written, but: it is a", "remove")}
        for name, says in cases.items():
            path = self.folder / "run" / name
            path.unlink(missing_ok=True)
            for put in (os.mkfifo, lambda p: os.symlink("nowhere", p)):
                with self.subTest(name=name, put=put):
                    put(path)
                    self.fails(*THREADS, "--resume", "run", "--max-steps", 3, says=(f"run/{name}'", *says))
                    path.unlink()
        self.assertEqual(victim.read_text(), "of somebody else")
        self.train("--resume", "run", "--max-steps", 3)


class Messages(TrainTest):
    """Of the C++ library: "filesystem error: status: ..." and "Resource temporarily unavailable"."""

    def test_a_name_that_is_too_long(self):
        for args in (("--out", "x" * 300), ("--resume", "x" * 300), ("--data-dir", "x" * 300, "--dataset", "mnist"),
                     ("--data-dir", "x" * 300, "--dataset", "imagefolder")):
            with self.subTest(args=args):
                error = self.fails(*THREADS, "--max-steps", 1, *args, says="x" * 300).stderr
                self.assertRegex(error, r"^\[[a-z' -]+\] ")
                self.assertNotIn("filesystem error", error)

    def test_threads_that_cannot_be_started(self):
        error = self.fails("--model", "mlp", "--dataset", "synthetic:train=4000,test=200", "--engine", "threads", "--workers",
                           1000, "--max-steps", 1, preexec_fn=little_memory, says="ulimit -u").stderr
        self.assertRegex(error, r"^\[threads\] ")


if __name__ == "__main__":
    main()
