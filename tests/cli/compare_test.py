#!/usr/bin/env python3
"""Tests of `sluice compare`: the table, what is run again and what is not, and bad input.

Run as: python3 tests/cli/compare_test.py PATH_TO_SLUICE [unittest options]
"""

import csv
import json
import os
import re
import signal
import xml.etree.ElementTree

from harness import RunTest, main
from processes import children

# What it sends depends on nothing that is measured.
JOB = ("--", "--model", "logistic", "--dataset", "synthetic:train=640,test=100", "--workers", 2, "--engine", "threads",
       "--batch-size", 16, "--collective", "sparcml-split", "--dense-collective", "dense:by=ring", "--max-steps", 6,
       "--eval-every", 2, "--log-every", 1)
# Slow enough to be stopped: 100 ms a message.
SLOW = (*JOB, "--net", "100ms,1Gbit", "--max-steps", 200, "--checkpoint-every", 2)


class CompareTest(RunTest):
    COMMAND = "compare"

    def compare(self, *args, status=0):
        done = self.run_program("--out", "c", *args)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def table(self):
        return json.loads((self.folder / "c/table.json").read_text())

    def rows(self):
        return {(row["method"], row["density"]): row for row in self.table()["rows"]}

    def states(self):
        return {os.path.basename(run["folder"]): run["state"] for run in self.table()["runs"]}

    def config(self, cell):
        return json.loads((self.folder / "c" / cell / "config.json").read_text())

    def times(self):
        return {path: path.stat().st_mtime_ns for path in (self.folder / "c").glob("*/summary.json")}


class Table(CompareTest):
    def test_methods_densities_and_seeds(self):
        done = self.compare("--methods", "dense,topk,dgc", "--densities", "0.1,0.01", "--seeds", "1,2", *JOB)
        rows = self.rows()
        self.assertEqual(set(rows), {("dense", 1), ("topk", 0.1), ("topk", 0.01), ("dgc", 0.1), ("dgc", 0.01)})
        self.assertEqual(len(self.table()["runs"]), 10, "dense runs once per seed")
        for row in rows.values():
            finals = [run["accuracy"] for run in self.table()["runs"]
                      if (run["method"], run["density"]) == (row["method"], row["density"])]
            self.assertAlmostEqual(row["accuracy"], sum(finals) / 2)
            self.assertAlmostEqual(row["spread"], (max(finals) - min(finals)) / 2)
            self.assertGreaterEqual(row["best"], row["accuracy"])
            self.assertAlmostEqual(row["behind"], rows["dense", 1]["accuracy"] - row["accuracy"])
            self.assertAlmostEqual(row["step_speedup"], rows["dense", 1]["step_ms"] / row["step_ms"])
        self.assertAlmostEqual(self.table()["target"], rows["dense", 1]["accuracy"] - 0.005)
        self.assertEqual(rows["dense", 1]["target_speedup"], 1)
        # 7840 weights as floats, half to each of two workers, twice, and the biases.
        self.assertGreater(rows["dense", 1]["kb_per_step"], 31)
        self.assertLess(rows["topk", 0.01]["kb_per_step"], rows["topk", 0.1]["kb_per_step"])
        self.assertLess(rows["topk", 0.1]["kb_per_step"], 10)
        self.assertEqual(rows["topk", 0.1]["k_hat_over_k"], 1)
        self.assertEqual(rows["topk", 0.1]["feedback"], "residual")
        self.assertEqual(rows["dgc", 0.1]["feedback"], "dgc:momentum=0.9")
        self.assertIn("[10/10]", done.stderr)
        self.assertRegex(done.stderr, r"topk 0\.1 seed 2: accuracy [\d.]+ % in")
        self.assertFalse(list((self.folder / "c").glob("*/checkpoints")), "finished runs need none")
        self.check_files(done.stdout)

    def check_files(self, printed):
        folder = self.folder / "c"
        self.assertEqual((folder / "table.txt").read_text(), printed)
        lines = printed.splitlines()
        self.assertTrue(lines[0].startswith("method"))
        self.assertIn("logistic on synthetic", printed)
        with open(folder / "table.csv") as file:
            self.assertEqual([row["method"] for row in csv.DictReader(file)],
                             [row["method"] for row in self.table()["rows"]])
        markdown = (folder / "table.md").read_text().splitlines()
        self.assertEqual(len({line.count("|") for line in markdown[:7]}), 1)
        for name in ("loss-steps", "loss-time", "accuracy-time"):
            picture = (folder / f"{name}.svg").read_text()
            xml.etree.ElementTree.fromstring(picture)
            for text in ("dense", "topk", "density 10 %", "density 1 %"):
                self.assertIn(f">{text}</text>", picture)
            self.assertEqual(picture.count("<polyline"), 6, "two panels of three curves")
            self.assertNotRegex(picture, r"\b(nan|inf)\b")

    def test_every_sparsifier(self):
        self.compare("--methods", "all", "--densities", "0.05", "--jobs", 2, *JOB, "--max-steps", 2, "--lr", 0.1,
                     "--optimizer", "sgd:momentum=0.8,weight_decay=0.001")
        done = self.run_program("--out", "d", "--methods", "all,nope", *JOB)
        known = set(re.search(r"dense-bf16 (.*), with", done.stderr)[1].split())
        self.assertEqual({method for method, _ in self.rows()}, known - {"none", "threshold"} | {"dense"})
        self.assertEqual(set(self.states().values()), {"finished"})
        dgc = self.config("dgc-0.05-s1")
        self.assertEqual(dgc["feedback"], "dgc:momentum=0.8")
        self.assertEqual(dgc["optimizer"], "sgd:momentum=0,weight_decay=0.005")
        topk = self.config("topk-0.05-s1")
        self.assertEqual((topk["optimizer"], topk["lr"]), ("sgd:weight_decay=0.001,momentum=0", 0.5))
        self.assertEqual(self.config("dense-s1")["lr"], 0.1)

    def test_combinations_and_own_methods(self):
        self.compare("--methods", "adtopk+dgc,topk+none+gtopk,oktopk,dense-bf16", "--methods",
                     "mine=--sparsifier sidco-e:stages=2 --density 0.2", "--densities", "0.1", *JOB,
                     "--feedback", "dgc:clip=1", "--optimizer", "sgd:momentum=0")
        rows = self.rows()
        self.assertEqual(list(rows)[0], ("dense-bf16", 1))
        self.assertIn(("mine", 0.2), rows)
        self.assertEqual(len(rows), 5)
        self.assertEqual(rows["adtopk+dgc", 0.1]["feedback"], "dgc:clip=1,momentum=0.9")
        self.assertEqual(rows["topk+none+gtopk", 0.1]["feedback"], "none")
        self.assertEqual(rows["topk+none+gtopk", 0.1]["collective"], "gtopk")
        self.assertEqual(rows["oktopk", 0.1]["collective"], "oktopk")
        self.assertEqual(rows["oktopk", 0.1]["optimizer"], "sgd:momentum=0", "plain residuals want none")
        self.assertEqual(rows["dense-bf16", 1]["optimizer"], "sgd:momentum=0.9", "the momentum went back")
        self.assertEqual(self.config("mine-s1")["sparsifier"], "sidco-e:stages=2")
        self.assertIsNone(self.table()["target"], "there is no dense run")
        self.assertIn("target: none", (self.folder / "c/table.txt").read_text())


    def test_tune_gives_each_method_its_best_recipe(self):
        args = ("--methods", "dense,topk", "--methods", "mine=--sparsifier topk --optimizer sgd --lr 0.02", "--densities",
                "0.1", "--seeds", "1,2", "--tune", "--tune-momenta", "0,0.5", "--tune-rates", "0.01,1", *JOB,
                "--max-steps", 20)
        done = self.compare(*args)
        tried = {path.parent.name for path in (self.folder / "c").glob("*/summary.json")}
        for method in ("dense", "topk-0.1"):
            for recipe in ("lr0.005", "lr0.5", "lr0.0025momentum0.5", "lr0.25momentum0.5"):
                self.assertIn(f"{method}-{recipe}-s1", tried)
        self.assertEqual(len(tried), 8 + 2 + 2, "the best go on with the second seed")
        runs = self.table()["runs"]
        self.assertEqual(len(runs), 6)
        rows = self.rows()
        for method, density in (("dense", 1), ("topk", 0.1)):
            own = [json.loads((self.folder / "c" / name / "summary.json").read_text())["eval_accuracy"]
                   for name in tried if name.startswith(method) and name.endswith("-s1")]
            chosen = [run["accuracy"] for run in runs if run["method"] == method and run["seed"] == 1]
            self.assertEqual(chosen, [max(own)])
            self.assertNotIn("0.005", rows[method, density]["recipe"])
        self.assertEqual(rows["mine", 0.1]["recipe"], "lr 0.02, momentum 0.9", "one's own is left alone")
        self.assertIn("of momentum 0,0.5 x rate 0.01,1", done.stdout)
        again = self.compare(*args)
        self.assertIn("6 runs, 6 of them finished before", again.stderr)
        for option, value in (("--tune-momenta", "1"), ("--tune-momenta", "x"), ("--tune-rates", "0"), ("--tune-rates", "1,1")):
            self.fails("--out", "d", "--methods", "dense", "--tune", option, value, *JOB, says=(option,))


class Again(CompareTest):
    ARGS = ("--methods", "dense,topk")

    def test_finished_runs_are_left_alone(self):
        self.compare(*self.ARGS, *JOB)
        before = self.times()
        done = self.compare("--methods", "dense,topk,adtopk", "--target", "50", *JOB)
        self.assertIn("3 runs, 2 of them finished before", done.stderr)
        after = self.times()
        self.assertEqual(len(after), 3)
        self.assertLessEqual(before.items(), after.items())
        self.assertEqual(self.table()["target"], 0.5)

    def test_another_configuration_is_refused(self):
        self.compare(*self.ARGS, *JOB)
        before = self.times()
        self.fails("--out", "c", *self.ARGS, *JOB, "--lr", "0.3", says=("c/dense-s1 lr is 0.05, not 0.3", "--overwrite"))
        self.assertEqual(self.times(), before)
        self.compare(*self.ARGS, "--overwrite", *JOB, "--lr", "0.3")
        self.assertEqual(self.config("dense-s1")["lr"], 0.3)
        self.assertEqual(self.config("topk-0.01-s1")["lr"], 3, "as far without momentum")
        after = self.times()
        self.assertEqual(self.compare(*self.ARGS, "--overwrite", *JOB, "--lr", "0.3").returncode, 0)
        self.assertEqual(self.times(), after, "what is the same is not replaced")

    def test_failures_are_told_and_tried_again(self):
        wild = "wild=--sparsifier none --accumulate 5000"
        done = self.compare("--methods", "topk", "--methods", wild, *JOB, status=1)
        self.assertIn("1 of 2 runs failed", done.stderr)
        self.assertEqual(self.states(), {"wild-s1": "failed", "topk-0.01-s1": "finished"})
        self.assertIn("wild seed 1: failed: [train] --accumulate must be at most", done.stdout)
        before = self.times()
        done = self.compare("--methods", "topk", "--methods", wild, *JOB, status=1)
        self.assertIn("2 runs, 1 of them finished before", done.stderr)
        self.assertEqual(self.times(), before)

    def test_stopped_runs_go_on(self):
        run = self.start("--out", "c", *self.ARGS, *SLOW)
        cell = self.folder / "c/dense-s1"
        self.wait_for(lambda: (cell / "checkpoints/latest").exists())
        run.send_signal(signal.SIGINT)
        out, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, errors)
        self.assertIn("stopped by a signal with 2 of 2 runs left; the same command goes on", errors)
        self.assertIn("dense seed 1: stopped", out)
        self.assertEqual(self.states(), {"dense-s1": "stopped", "topk-0.01-s1": "not begun"})
        step = int((cell / "checkpoints/latest").read_text()[5:])
        self.make_short(step + 2)
        self.compare(*self.ARGS, *SLOW, "--max-steps", step + 2)
        self.assertIn(f"resumed after step {step}", (cell / "log.txt").read_text())
        steps = [json.loads(line)["step"] for line in (cell / "metrics.jsonl").read_text().splitlines()
                 if '"train"' in line]
        self.assertEqual(steps, list(range(1, step + 3)))

    def make_short(self, steps):
        """So that the test need not wait for the end of a slow run."""
        path = self.folder / "c/dense-s1/config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "max_steps": steps}))

    def test_a_killed_compare_leaves_no_second_run(self):
        run = self.start("--out", "c", "--methods", "dense", *SLOW)
        log = self.folder / "c/dense-s1/metrics.jsonl"
        self.wait_for(lambda: log.exists() and log.stat().st_size)
        child = children(run.pid)[0]
        self.addCleanup(os.kill, child, signal.SIGKILL)
        run.kill()
        run.wait()
        done = self.run_program("--out", "c", "--methods", "dense", *SLOW)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another process still runs it", done.stderr)

    def test_time_budget(self):
        done = self.compare(*self.ARGS, "--time-budget", "0.01s", *JOB)
        self.assertEqual(list(self.states().values()), ["finished", "not begun"], "the first, of unknown length")
        self.assertIn("1 of 2 runs are left: they would not end within --time-budget 0.01s", done.stderr)
        self.compare(*self.ARGS, "--time-budget", "1h", *JOB)
        self.assertEqual(set(self.states().values()), {"finished"})

    def test_runs_that_their_plan_made_dense_are_marked(self):
        done = self.compare("--methods", "dense,topk", "--densities", "0.1", *JOB, "--plan", "mgwfbp",
                            "--max-steps", 30)
        self.assertIn("topk, trained dense  10", re.sub(" +", lambda gap: gap[0][:2], done.stdout))
        self.assertIn("topk 0.1 seed 1: trained dense", done.stdout)
        self.assertEqual({m: row["trained_dense"] for (m, _), row in self.rows().items()}, {"dense": 0, "topk": 1})
        self.assertEqual([run["trained_dense"] for run in self.table()["runs"]], [0, 1])
        self.assertIn("topk, trained dense", (self.folder / "c/table.md").read_text())
        self.assertIn("finished, trained dense", (self.folder / "c/report.html").read_text())

    def test_several_at_a_time(self):
        done = self.compare(*self.ARGS, "--jobs", "2", "--keep-checkpoints", *JOB)
        self.assertEqual(set(self.states().values()), {"finished"})
        self.assertIn("2 runs at a time share the machine", done.stdout)
        self.assertTrue((self.folder / "c/dense-s1/checkpoints/latest").exists())

    def test_report_only(self):
        first = self.compare(*self.ARGS, *JOB).stdout
        names = ("table.txt", "table.md", "table.csv", "table.json", "loss-time.svg")
        for name in names:
            (self.folder / "c" / name).unlink()
        os.rename(self.folder / "c", self.folder / "moved")
        done = self.run_program("--out", "moved", "--report-only")
        self.assertEqual((done.returncode, done.stdout), (0, first), done.stderr)
        for name in names:
            self.assertTrue((self.folder / "moved" / name).exists(), name)


class BadInput(CompareTest):
    def test_a_comparison_that_was_changed_by_hand(self):
        (self.folder / "c").mkdir()
        for changed in ({"jobs": "x", "cells": [{}]}, {"jobs": 1, "cells": [{"method": 3}]}, {"jobs": 1, "cells": 5}):
            (self.folder / "c/compare.json").write_text(json.dumps(changed))
            done = self.compare("--report-only", status=1)
            self.assertIn("compare.json' must be as sluice compare wrote it: ", done.stderr)
            self.assertNotIn("json.exception", done.stderr)

    def test_everything_is_checked_before_anything_runs(self):
        cases = {
            (): "--methods",
            ("--methods", "nope"): ("no method 'nope'", "dense-bf16", "sidco-p", "gtopk", "NAME=FLAGS"),
            ("--methods", ""): "no method ''",
            ("--methods", "topk,,dgc"): "no method ''",
            ("--methods", "topk+nope"): "'topk+nope'",
            ("--methods", "topk,topk"): "'topk' twice",
            ("--methods", "none"): "no method 'none'",
            ("--methods", "a/b=--sparsifier topk"): "'a/b'",
            ("--methods", "mine=--sparsifier nope"): ("'nope'", "topk"),
            ("--methods", "mine=--out x"): "--out may not be a flag of a method",
            ("--methods", "topk", "--densities", "0"): ("--densities", "above 0"),
            ("--methods", "topk", "--densities", "2"): ("--densities", "at most 1"),
            ("--methods", "topk", "--densities", "x"): ("--densities", "'x'"),
            ("--methods", "topk", "--densities", ""): "--densities",
            ("--methods", "topk", "--densities", "0.1,0.1"): "0.1 twice",
            ("--methods", "topk", "--seeds", "1,b"): ("--seeds", "'b'"),
            ("--methods", "topk", "--seeds=-1"): ("--seeds", "-1"),
            ("--methods", "dgc:upper=2,topk"): "'dgc:upper'",
            ("--methods", "topk", "--methods", "topk-0.01=--density 0.02"): ("folder of its own", "c/topk-0.01-s1"),
            ("--methods", "topk", "--target", "best"): ("--target", "'best'"),
            ("--methods", "topk", "--time-budget", "soon"): ("--time-budget", "'soon'"),
            ("--methods", "topk", "--jobs", "0"): ("--jobs", "0"),
            ("--methods", "topk", "--report-only"): ("--report-only", "compare.json"),
            ("--methods", "topk", "--out", "/proc/nope"): ("--out", "/proc/nope"),
            ("--methods", "topk", "--out", ""): "--out",
        }
        for args, says in cases.items():
            with self.subTest(args=args):
                self.fails("--out", "c", *args, *JOB, says=says)
        self.assertEqual(os.listdir(self.folder), [])

    def test_job(self):
        for args, says in {("--model", "nope"): ("'nope'", "resnet20"), ("--bogus",): "--bogus",
                           ("--seed", 3): "use --seeds", ("--sparsifier=topk",): "use --methods",
                           ("--density", 0.1): "use --densities", ("--lr", "fast"): "'fast'"}.items():
            with self.subTest(args=args):
                self.fails("--out", "c", "--methods", "topk", *JOB, *args, says=says)
        self.fails("--out", "c", "--methods", "topk", "--config", "nope.json", says="nope.json")
        self.fails("--model", "mlp", says="put '--' before it, as in sluice compare --out runs/a -- --model")
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()
