#!/usr/bin/env python3
"""Every number that the program or the Python package tells is explained in docs/numbers.md.

Run as: python3 tests/docs/numbers_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))

from harness import COLLECTIVE, CliTest, RunTest, SELECT, SIMULATED, WIRE, main, sluice  # noqa: E402

JOB = ("--model", "mlp:widths=8", "--dataset", "synthetic:train=128,test=32", "--workers", 2, "--engine", "threads",
       "--threads", 1, "--batch-size", 8, "--max-steps", 3, "--log-every", 1, "--plan", "size=1M")


def sections():
    """By heading: what stands in backticks below it."""
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / "numbers.md").read_text(), flags=re.DOTALL)
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        found[heading] = set(re.findall(r"`([^`\n]+)`", body))
    return found


SECTIONS = sections()


class Told:
    """For test cases: what is told must be explained."""

    def explained(self, names, heading):
        scores = SECTIONS["Scores"]
        unknown = {name for name in names if name not in SECTIONS[heading] | scores}
        # Scores stand there once, not with every prefix.
        unknown -= {prefix + score for prefix in ("eval_", "best_") for score in scores}
        self.assertFalse(unknown, f"docs/numbers.md, '{heading}', must explain these in backticks")

    def columns(self, table, first, heading):
        """The titles of a printed table, whose first column is `first`."""
        lines = [line for line in table.splitlines() if line.split()[:1] == [first]]
        self.assertTrue(lines, table)
        self.explained(re.split(r"\s{2,}", lines[0].strip()), heading)


class Runs(RunTest, Told):
    def test_files_of_a_run(self):
        done = self.run_program(*JOB, "--out", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual({line["kind"] for line in lines}, {"train", "eval"})
        self.explained(set().union(*lines), "`metrics.jsonl`")
        self.explained(json.loads((self.folder / "run/summary.json").read_text()), "`summary.json`")
        classes = json.loads((self.folder / "run/classes.json").read_text())
        self.assertTrue(classes)
        self.explained(set().union(*classes), "`classes.json`")


class Comparisons(RunTest, Told):
    COMMAND = "compare"

    def test_table(self):
        done = self.run_program("--out", "cmp", "--methods", "dense,topk", "--", *JOB)
        self.assertEqual(done.returncode, 0, done.stderr)
        heading = "`sluice compare`"
        table = json.loads((self.folder / "cmp/table.json").read_text())
        self.assertTrue(table["rows"] and table["runs"])
        self.explained(set(table).union(*table["rows"], *table["runs"]), heading)
        self.columns((self.folder / "cmp/table.txt").read_text(), "method", heading)


class Studies(RunTest, Told):
    COMMAND = "study"
    HEADING = "`sluice study`"

    def header(self, path):
        return (self.folder / path).read_text().splitlines()[0].split(",")

    def tables(self, text, firsts):
        for first in firsts:
            self.columns(text, first, self.HEADING)

    def test_gradients(self):
        done = self.run_program("gradients", "--out", "s", "--every", 3, "--", *JOB)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.tables(done.stdout, ("layer", "rule"))
        laws = {name for name in self.header("s/laws.csv") if not re.search("_(location|scale|shape)$", name)}
        self.explained(laws | {"normal_location", "normal_scale", "normal_shape"}, self.HEADING)
        for path in ("s/rules.csv", "s/histograms.csv"):
            self.explained(self.header(path), self.HEADING)

    def test_convergence(self):
        done = self.run_program("convergence", "--out", "s", "--methods", "topk", "--every", 3, "--", *JOB)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.tables(done.stdout, ("method",))
        self.explained(self.header("s/evidence.csv"), self.HEADING)

    def test_costs(self):
        done = self.run_program("costs")
        self.tables(done.stdout, ("workers",))
        self.explained(json.loads(self.run_program("costs", "--json").stdout)[0], self.HEADING)


class Benchmarks(CliTest, Told):
    def both(self, heading, first, *args):
        problem = sluice(*args).stderr
        if "needs a build with" in problem:
            self.skipTest(problem)
        rows = self.json(*args)
        self.assertTrue(rows)
        self.explained(set().union(*rows), heading)
        for wide in ([], ["--wide"]) if "--wide" in self.ok(*args[:2], "--help") else ([],):
            self.columns(self.ok(*args, *wide), first, heading)

    def test_select(self):
        self.both("`sluice bench select`", "sparsifier", *SELECT, "--n", "10k")

    def test_wire(self):
        self.both("`sluice bench wire`", "codec", *WIRE, "--n", "10k")

    def test_collective(self):
        self.both("`sluice bench collective`", "collective", *COLLECTIVE, *SIMULATED, "--workers", 2, "--collective",
                  "dense,balanced")

    def test_data_text_audio(self):
        text = self.write(b"In the beginning was the word. " * 100, "text.txt")
        heading = "`sluice bench data`, `text`, `audio`"
        for args in (("data", "--images", 2, "--batch-size", 1, "--threads", 1), ("text", "--file", text, "--size", 300),
                     ("audio", "--minutes", 0.1, "--clip", 1)):
            with self.subTest(args=args):
                self.both(heading, "what", "bench", *args, "--rounds", 1)


class PythonPackage(unittest.TestCase, Told):
    def test_stats(self):
        try:
            import sluice as package
            import torch
            import torch.distributed as dist
        except ImportError as error:
            self.skipTest(f"needs the Python package: {error}")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        layer = torch.nn.Linear(8, 8)
        sync = package.GradientSync(layer.named_parameters(), density=0.1)
        self.addCleanup(sync.close)
        layer(torch.ones(1, 8)).sum().backward()
        sync.step()
        stats = sync.stats()
        self.explained(set(stats) | set(stats["last"]) | set(stats["total"]), "`sync.stats()` of the Python package")


if __name__ == "__main__":
    main()
