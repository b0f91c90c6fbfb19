#!/usr/bin/env python3
"""Tests of what people see: tables and their legends, help, progress, colours, and what a run says of itself.

Run as: python3 tests/cli/terminal_test.py PATH_TO_SLUICE [unittest options]
"""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import termios

from harness import COLLECTIVE, CliTest, RunTest, SELECT, SIMULATED, SLUICE, WIRE, main, needs_mpi, shutil, sluice

JOB = ("--model", "mlp:widths=8", "--dataset", "synthetic:train=128,test=32", "--workers", 2, "--engine", "threads",
       "--threads", 1, "--batch-size", 8, "--max-steps", 6, "--log-every", 2, "--plan", "size=1M")
PAGE = 100


def on_terminal(command, columns=80, folder=None, **environment):
    """What a command writes to a terminal of so many columns."""
    first, second = pty.openpty()
    fcntl.ioctl(second, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=second, stderr=second,
                               cwd=folder, env=env | {"TERM": "xterm"} | environment)
    os.close(second)
    text = b""
    while True:
        ready, _, _ = select.select([first], [], [], 60)
        try:
            piece = os.read(first, 65536) if ready else b""
        except OSError:  # the other end is closed
            piece = b""
        if not piece:
            break
        text += piece
    os.close(first)
    return process.wait(), text.decode()


def commands(path=()):
    """Every command, with its help."""
    text = sluice(*path, "--help").stdout
    yield path, text
    if "\nSubcommands:\n" not in text:
        return
    for line in text.split("\nSubcommands:\n")[1].splitlines():
        found = re.match(r"  (\S+)", line)
        if found and not line.startswith("   "):
            yield from commands((*path, found[1]))
        if not line:
            return


class Tables(CliTest):
    def prepare(self):
        """Files for the commands below."""
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.ok("plan", "profile", "--model", "resnet50", "--backward", "0.1")
        self.ok("plan", "make", "--net", "50us,1Gbit", "--workers", 4, "--planner", "single")
        self.ok("plan", "make", "--net", "50us,1Gbit", "--workers", 4, "--planner", "layerwise", "--out", "b.json")
        self.write(b"In the beginning was the word. " * 100, "text.txt")

    # What is printed, and titles that nobody could guess.
    TABLES = (
        ((*SELECT, "--n", "10k"), ("phase", "ratio", "k^/k")),
        ((*WIRE, "--n", "10k"), ("bits/index", "entropy", "encode ns")),
        ((*COLLECTIVE, *SIMULATED, "--workers", 2), ("by", "/dense", "/bound", "imbalance")),
        ((*COLLECTIVE, *SIMULATED, "--workers", 2, "--wide"), ("p25", "u", "/ideal", "cpu = wire")),
        (("bench", "text", "--file", "text.txt", "--size", 300, "--rounds", 1), ("MB/s", "x floor")),
        (("plan", "simulate", "--net", "50us,1Gbit", "--workers", 4, "--planners", "single"), ("free ms", "MB")),
        (("advise", "--net", "50us,1Gbit", "--workers", 4), ("waits ms", "free ms")),
        (("plan", "explain", "plan.json", "--net", "50us,1Gbit", "--workers", 4), ("next best", "ready at")),
        (("plan", "diff", "plan.json", "b.json"), ("-", "+")),
        (("plan", "claims"), ("claimed", "simulated", "auto ms")),
        (("probe", *SIMULATED, "--workers", 2), ("alpha", "beta", "Gbit/s")),
    )

    def test_have_a_legend(self):
        self.prepare()
        for args, titles in self.TABLES:
            with self.subTest(args=args):
                lines = self.ok(*args).splitlines()
                for title in titles:
                    self.assertTrue(any(re.search(rf"(^|[ ;,.]){re.escape(title)}[:,]", line) for line in lines),
                                    f"{title} is not explained in\n" + "\n".join(lines))

    def test_of_benchmarks_fit_a_page_and_have_the_rest_with_wide(self):
        for args in ((*SELECT, "--n", "1M"), (*WIRE, "--n", "1M"),
                     ("bench", "collective", "--steps", 1, "--warmup", 0, "--n", "1M", *SIMULATED)):
            with self.subTest(args=args):
                narrow = self.ok(*args).splitlines()
                self.assertLessEqual(max(map(len, narrow)), PAGE, "\n".join(narrow))
                wide = self.ok(*args, "--wide").splitlines()
                self.assertGreater(max(map(len, wide)), PAGE)

    def test_old_names_of_options_still_work(self):
        new = self.rows(*COLLECTIVE, *SIMULATED, "--collective", "dense", "--densities", "0.02")
        old = self.rows(*COLLECTIVE, *SIMULATED, "--algorithm", "dense", "--density", "0.02")
        self.assertEqual([(row["collective"], row["k"]) for row in new], [("dense", 400)])
        self.assertEqual([(row["collective"], row["k"]) for row in old], [("dense", 400)])
        for path, text in (("bench", "collective"), "--algorithm"), (("bench", "data"), "--batch "):
            self.assertNotIn(text, self.ok(*path, "--help"), "old names are not advertised")


class Help(CliTest):
    def test_ends_with_examples_and_fits_a_page(self):
        seen = 0
        for path, text in commands():
            with self.subTest(command=path):
                seen += 1
                examples = text.split("\nExamples:\n")[1].strip().splitlines()
                self.assertIn(len(examples), (1, 2, 3))
                for example in examples:
                    self.assertRegex(example.strip(), r"^sluice \w")
                for line in text.split("\nExamples:\n")[0].splitlines():
                    self.assertLessEqual(len(line), PAGE + 40, line)
        self.assertGreaterEqual(seen, 24)

    def test_groups_options_and_says_their_types(self):
        text = self.ok("train", "--help")
        headings = re.findall(r"^(\w[\w ]+):$", text, re.MULTILINE)
        for heading in ("Model and data", "Training", "What is sent", "Plan", "Device", "Run folder", "Workers"):
            self.assertIn(heading, headings)
        rest = text.split("\nOptions:\n")[1].split("\n\n")[0]
        self.assertEqual(re.findall(r"^  (?:-h,)?(--[\w-]+)", rest, re.MULTILINE),
                         ["--help", "--json", "--check", "--print-config"])
        for line in ("--epochs INT=", "--lr FLOAT=", "--precision {fp32,bf16}=", "--model TEXT="):
            self.assertIn(line, text)


class Colours(CliTest):
    COMMAND = (SLUICE, "plan", "claims")

    def test_only_on_a_terminal(self):
        status, text = on_terminal(self.COMMAND)
        self.assertEqual(status, 0, text)
        self.assertIn("\x1b[1mpaper", text)
        self.assertNotIn("\x1b", self.ok(*self.COMMAND[1:]))

    def test_never_with_no_color(self):
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            with self.subTest(environment):
                self.assertNotIn("\x1b", on_terminal(self.COMMAND, **environment)[1])


class Runs(RunTest):
    def run_well(self, *args):
        done = self.run_program(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_progress_fits_any_terminal(self):
        for columns in (20, 40, 100):
            with self.subTest(columns=columns):
                status, text = on_terminal([*self.command(*JOB, "--max-steps", 40, "--log-every", 1, "--out", columns)],
                                           columns, self.folder)
                self.assertEqual(status, 0, text)
                drawn = [line for line in re.split(r"\r\x1b\[K|\n", text) if re.match(r"\d+/40", line)]
                self.assertGreater(len(drawn), 10, text)
                for line in drawn:
                    self.assertLess(len(line.rstrip("\r")), columns)
                self.assertIn(" left", drawn[5])
                if columns >= 40:
                    self.assertRegex(drawn[5], r"waiting \d+ %")
                if columns >= 100:
                    self.assertRegex(drawn[5], r"loss .*accuracy .*\[[#.]+\]")

    def test_check_says_what_it_found(self):
        text = self.run_well(*JOB, "--check")
        for part in ("mlp:widths=8: ", "parameters in 4 tensors", "128 images to train on and 32 to evaluate with",
                     "10 classes", "2 workers of batch 8", "nothing was run"):
            self.assertIn(part, text)

    def test_finished_run_that_is_resumed_says_so(self):
        self.run_well(*JOB, "--out", "run")
        text = self.run_well("--resume", "run")
        self.assertIn("the run is finished: all of its 6 steps are done", text)
        self.assertNotIn("the run is finished", self.run_well("--resume", "run", "--max-steps", 8))

    def test_classes_and_their_counts(self):
        text = self.run_well(*JOB, "--out", "run")
        classes = json.loads((self.folder / "run/classes.json").read_text())
        self.assertEqual([set(one) for one in classes], [{"name", "train", "test"}] * 10)
        self.assertEqual([sum(one[key] for one in classes) for key in ("train", "test")], [128, 32])
        self.assertIn(f"10 classes of {min(c['train'] for c in classes)} to {max(c['train'] for c in classes)}: "
                      f"{classes[0]['name']} ({classes[0]['train']}), ", text)

    def test_probe_ends_with_lines_to_use(self):
        lines = self.run_as("probe", "--engine", "threads", "--workers", 2).splitlines()
        words = [shlex.split(line) for line in lines[-2:]]
        self.assertEqual([one[:2] for one in words], [["sluice", "train"], ["sluice", "advise"]], lines)
        self.run_as(*words[0][1:], *JOB, "--out", "runs/a", "--profile", 10, "--max-steps", 30)
        self.assertIn("worth it", self.run_as(*words[1][1:]))

    def run_as(self, *args):
        done = subprocess.run([SLUICE, *map(str, args)], cwd=self.folder, text=True, capture_output=True, timeout=80)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @needs_mpi
    def test_folder_that_is_not_shared_is_noticed_at_the_start(self):
        """Two folders of one name stand for two hosts that share none."""
        job = [SLUICE, "train", *map(str, JOB), "--engine", "mpi", "--out", "run"]
        words = [shutil.which("mpirun"), "--allow-run-as-root", "--oversubscribe"]
        for i, host in enumerate(("a", "b")):
            (self.folder / host).mkdir()
            words += [":"] * i + ["-n", "1", "--wdir", str(self.folder / host), *job]
        done = subprocess.run(words, text=True, capture_output=True, timeout=80)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--out must be a folder that all hosts share, but rank 1 on ", done.stderr)
        self.assertNotIn("step", (self.folder / "a/run/metrics.jsonl").read_text()
                         if (self.folder / "a/run/metrics.jsonl").exists() else "")


if __name__ == "__main__":
    main()
