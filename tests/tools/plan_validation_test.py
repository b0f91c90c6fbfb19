#!/usr/bin/env python3
"""Tests of benchmarks/plan_validation.py, as far as they need neither torch nor a network."""

import argparse
import contextlib
import io
import json
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import plan_validation as pv  # noqa: E402


def row(planner, *measured, expected=0.02, rate="1Gbit"):
    return pv.row_of("mlp", rate, planner, [expected] * len(measured), list(measured))


class Options(unittest.TestCase):
    def error(self, *words):
        out = io.StringIO()
        with contextlib.redirect_stderr(out), self.assertRaises(SystemExit):
            pv.parse_arguments(["sluice", *words])
        return out.getvalue()

    def test_defaults_have_dense_bf16_and_two_runs(self):
        options = pv.parse_arguments(["sluice"])
        self.assertEqual((len(options.models), len(options.rates), options.repeat), (5, 3, 2))
        self.assertEqual(options.planners, ["auto", "omgs-exact", "layerwise", "single", "dense-bf16"])

    def test_quick_is_a_cell_and_what_is_given_wins(self):
        options = pv.parse_arguments(["sluice", "--quick", "--models", "lenet", "--steps", "60"])
        self.assertEqual((options.models, options.rates, options.repeat, options.steps), (["lenet"], ["1Gbit"], 1, 60))

    def test_says_what_is_wrong(self):
        self.assertIn("--steps must be 40 or more, got 30", self.error("--steps", "30"))
        self.assertIn("--repeat must be 1 or more, got 0", self.error("--repeat", "0"))
        self.assertIn("--workers must be 2 or more, got 1", self.error("--workers", "1"))
        self.assertIn("--rates must be as 100Mbit or 10Gbit, got 'fast'", self.error("--rates", "fast"))
        self.assertIn("invalid choice", self.error("--net", "real"))

    def test_dense_bf16_takes_its_best_plan(self):
        options = argparse.Namespace(sparsifier="topk")
        self.assertEqual(pv.method_of(options, "dense-bf16"),
                         ["--sparsifier", "none", "--collective", "dense-bf16", "--plan", "auto"])
        self.assertEqual(pv.method_of(options, "single"), ["--sparsifier", "topk", "--plan", "single"])


class Arithmetic(unittest.TestCase):
    def test_rows_are_medians_with_their_spread(self):
        found = row("auto", 0.010, 0.012, 0.020, expected=0.018)
        self.assertAlmostEqual(found["measured"], 0.012)
        self.assertAlmostEqual(found["error"], 0.5)
        self.assertAlmostEqual(found["spread"], 10 / 12)

    def test_cells_compare_with_the_best_fixed_one_run_by_run(self):
        rows = [row("auto", 0.020, 0.022), row("single", 0.025, 0.025), row("layerwise", 0.020, 0.020),
                row("dense-bf16", 0.010, 0.044)]
        cell, = pv.cells_of(rows)
        self.assertEqual(cell["best"], "layerwise")
        for found, wanted in zip(cell["over_best"] + cell["over_dense"], (1.05, 1.0, 1.1, 1.25, 0.5, 2.0)):
            self.assertAlmostEqual(found, wanted)

    def test_a_verdict_says_what_runs_do_not_tell(self):
        self.assertEqual(pv.verdict((1.0, 0.9, 1.02), 1.03), "met")
        self.assertEqual(pv.verdict((1.0, 0.9, 1.1), 1.03), "met, within the spread")
        self.assertEqual(pv.verdict((1.1, 1.0, 1.2), 1.03), "missed, within the spread")
        self.assertEqual(pv.verdict((1.1, 1.05, 1.2), 1.03), "missed")


class Table(unittest.TestCase):
    def show(self, rows):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            pv.show(rows)
        return out.getvalue().splitlines()

    def test_ends_with_the_bars(self):
        lines = self.show([row("auto", 0.020, 0.020), row("single", 0.010, 0.0102), row("dense-bf16", 0.040, 0.044)])
        self.assertEqual(lines[1].split(), ["mlp", "1Gbit", "auto", "20.00", "20.00", "0.0%", "0.0%"])
        self.assertEqual(lines[-3], "error: median 52.4% (bar 10 %: missed), worst 98.0% (bar 25 %: missed)")
        self.assertEqual(lines[-2],
                         "auto over the best fixed planner, bar 1.03: met in 0 of 1 cells, "
                         "missed within the spread in 0")
        self.assertEqual(lines[-1],
                         "auto over dense-bf16, bar 1.02: met in 1 of 1 cells, missed within the spread in 0")

    def test_leaves_out_what_was_not_run(self):
        lines = self.show([row("auto", 0.020), row("auto", 0.030, rate="10Gbit")])
        self.assertEqual(lines[-1], "auto over dense-bf16, bar 1.02: not measured")


# Stands in for the program: writes what a run would, 10 ms a step, or 20 if all is sent.
STAND_IN = """#!{python}
import json, pathlib, sys
words = sys.argv
out = pathlib.Path(words[words.index("--out") + 1])
if "probe" in words:
    out.write_text('{{"alpha": 5e-5, "beta": 8e-9}}')
    sys.exit()
out.mkdir()
seconds = 0.02 if "none" in words else 0.01
rows = [{{"kind": "train", "step": step, "step_s": seconds}} for step in range(10, 41, 10)]
(out / "metrics.jsonl").write_text("\\n".join(map(json.dumps, rows)))
(out / "profile.json").write_text("{{}}")
if "--plan" in words:
    print("plan x: 2 buckets, a step of 11 ms expected, 1 of them waiting")
"""


class Whole(unittest.TestCase):
    def test_runs_every_planner_in_turns(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "sluice"
            program.write_text(STAND_IN.format(python=sys.executable))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            options = pv.parse_arguments([str(program), "--quick", "--repeat", "2"])
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                rows = list(pv.validate(options, Path(folder)))
        turns = [line.split()[3] for line in said.getvalue().splitlines() if " of 2" in line]
        self.assertEqual(turns, ["auto,", "single,", "dense-bf16,", "dense-bf16,", "single,", "auto,"])
        self.assertEqual([(r["planner"], r["runs"]) for r in rows],
                         [("auto", [0.01, 0.01]), ("single", [0.01, 0.01]), ("dense-bf16", [0.02, 0.02])])
        self.assertAlmostEqual(rows[0]["error"], 0.1)
        json.dumps(list(pv.cells_of(rows)))


if __name__ == "__main__":
    unittest.main()
