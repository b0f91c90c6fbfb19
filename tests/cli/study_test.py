#!/usr/bin/env python3
"""Tests of `sluice study` and of `sluice train --study`.

Run as: python3 tests/cli/study_test.py PATH_TO_SLUICE [unittest options]
"""

import csv
import json
import math
import random
import shutil
import struct

from harness import RunTest, main

JOB = ("--model", "mlp:widths=32", "--dataset", "synthetic:train=256,test=32", "--workers", 2, "--engine", "threads",
       "--threads", 1, "--batch-size", 8, "--max-steps", 6, "--eval-every", 0, "--plan", "size=1M")


def npy(values, dtype="<f4", shape=None):
    shape = shape if shape is not None else (len(values),)
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values)


class StudyTest(RunTest):
    COMMAND = "study"

    def ok(self, *args):
        done = self.run_program(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def study(self, out):
        """study.json, after a look at its schema."""
        def constant(name):
            self.fail(f"{name} is not JSON")
        study = json.loads((self.folder / out / "study.json").read_text(), parse_constant=constant)
        self.assertEqual(list(study), ["kind", "title", "subtitle", "series", "tables", "files"])
        self.assertTrue(study["series"] and study["tables"])
        for series in study["series"]:
            self.assertEqual(set(series), {"name", "panel", "x_label", "y_label", "log_x", "log_y", "x", "y"})
            self.assertEqual(len(series["x"]), len(series["y"]))
            self.assertTrue(series["x"])
        for table in study["tables"]:
            self.assertEqual(set(table), {"title", "legend", "columns", "rows"})
            self.assertTrue(table["rows"])
            for row in table["rows"]:
                self.assertEqual(len(row), len(table["columns"]))
        for name in study["files"]:
            self.assertGreater((self.folder / out / name).stat().st_size, 0)
        return study

    def rows(self, path):
        with open(self.folder / path, newline="") as file:
            return list(csv.DictReader(file))

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


class Gradients(StudyTest):
    def test_of_a_job(self):
        text = self.ok("gradients", "--out", "s", "--every", 3, "--densities", "0.1", "--dump", "--", *JOB)
        for part in ("nearest", "KS distance", "k^/k of rules", "sidco-gp"):
            self.assertIn(part, text)
        study = self.study("s")
        self.assertEqual(study["kind"], "gradients")
        self.assertEqual(set(study["files"]), {"laws.csv", "rules.csv", "histograms.csv", "laws.svg", "rules.svg",
                                               "magnitudes.svg"})
        laws = self.rows("s/laws.csv")
        self.assertEqual([row["step"] for row in laws if row["layer"] == laws[0]["layer"]],
                         [step for step in "136" for _ in range(2)])
        self.assertEqual({row["what"] for row in laws}, {"gradient", "input"})
        for row in laws:
            distances = {key[:-3]: float(row[key]) for key in row if key.endswith("_ks")}
            self.assertEqual(row["best"], min(distances, key=distances.get))
        rules = self.rows("s/rules.csv")
        self.assertEqual({row["rule"] for row in rules}, {"adtopk-threshold", "dgc", "gaussiank", "redsync", "sidco-e",
                                                          "sidco-gp", "sidco-p"})
        self.assertEqual({row["what"] for row in rules}, {"input"})
        counts = sum(int(row["count"]) for row in self.rows("s/histograms.csv") if row["histogram"] == "values")
        self.assertEqual(counts, sum(int(row["n"]) for row in laws))
        # What was dumped says the same as what was seen.
        dumps = self.folder / "s/runs/topk/gradients"
        self.assertEqual(len(list(dumps.iterdir())), len(laws))
        self.ok("gradients", "--out", "again", "--densities", "0.1", "--npy", dumps)
        key = lambda row: (row["layer"], row["step"], row["what"])  # noqa: E731
        self.assertEqual(sorted(self.rows("again/laws.csv"), key=key), sorted(laws, key=key))

    def test_of_a_dense_job(self):
        self.ok("gradients", "--out", "s", "--every", 3, "--densities", "0.1", "--dump", "--", *JOB, "--sparsifier", "none")
        self.assertEqual({row["what"] for row in self.rows("s/laws.csv")}, {"gradient"})
        self.assertEqual({row["what"] for row in self.rows("s/rules.csv")}, {"gradient"})
        names = [path.name for path in (self.folder / "s/runs/dense/gradients").iterdir()]
        self.assertTrue(names and all(name.endswith(".gradient.npy") for name in names), names)

    def test_of_files(self):
        draw = random.Random(1)
        laplace = [draw.choice((-1, 1)) * draw.expovariate(1) for _ in range(20000)]
        normal = [draw.gauss(0, 1) for _ in range(20000)]
        for name, values in (("laplace", laplace), ("normal", normal)):
            self.write(f"in/{name}.npy", npy(values))
        done = json.loads(self.ok("gradients", "--out", "s", "--rules", "sidco-e,topk", "--densities", "0.01", "--npy", "in",
                                  "--json"))
        self.assertEqual(done["kind"], "gradients")
        best = {row["layer"]: row["best"] for row in self.rows("s/laws.csv")}
        self.assertEqual(best["normal"], "normal")
        self.assertIn(best["laplace"], ("laplace", "double-exponential", "gamma", "pareto"))
        ratio = {(row["layer"], row["rule"]): int(row["k_hat"]) / int(row["k"]) for row in self.rows("s/rules.csv")}
        self.assertEqual(ratio["laplace", "topk"], 1)
        self.assertLess(abs(ratio["laplace", "sidco-e"] - 1), 0.3)

    def test_odd_files_have_an_answer(self):
        nan = math.nan
        for name, values in {"zeros": [0.0] * 9, "nans": [nan] * 9, "one": [2.0], "same": [1.0] * 9,
                             "mixed": [nan, math.inf, 0, 3e38, 1e-45, -1]}.items():
            self.write(f"in/{name}.npy", npy(values))
        self.ok("gradients", "--out", "s", "--npy", "in")
        rows = {row["layer"]: row for row in self.rows("s/laws.csv")}
        self.assertEqual(rows["zeros"]["best"], "null")
        self.assertEqual(rows["nans"]["nonfinite"], "9")
        self.assertEqual(rows["one"]["best"], "double-exponential")
        self.study("s")

    def test_says_what_is_wrong(self):
        plain = self.write("x.npy", npy([1.0, 2.0]))
        self.write("double.npy", npy([1.0, 2.0], dtype="<f8"))
        self.write("empty.npy", npy([], shape=(0,)))
        self.write("text.npy", b"no array")
        (self.folder / "full").mkdir()
        self.write("full/notes.txt", b"mine")
        (self.folder / "void").mkdir()
        cases = {("--out", "s"): "got neither",
                 ("--out", "s", "--npy", plain, "--preset", "x"): "got both",
                 ("--npy", plain): "--out must name a folder",
                 ("--out", "s", "--npy", "double.npy"): "astype('float32')",
                 ("--out", "s", "--npy", "empty.npy"): "at least 1 value",
                 ("--out", "s", "--npy", "text.npy"): "must be a .npy file",
                 ("--out", "s", "--npy", "gone.npy"): "No such file",
                 ("--out", "s", "--npy", "void"): "without any",
                 ("--out", "full", "--npy", plain): "has other things in it",
                 ("--out", "s", "--npy", plain, "--densities", "0"): "above 0 and at most 1",
                 ("--out", "s", "--npy", plain, "--rules", "topkk"): "no sparsifier 'topkk'",
                 ("--out", "s", "--model", "mlp"): "put '--' before it"}
        for args, says in cases.items():
            with self.subTest(args=args):
                self.fails("gradients", *args, says=says)
                self.assertFalse((self.folder / "s").exists(), "what fails leaves nothing")

    def test_says_what_is_wrong_with_a_job(self):
        for args, says in {("--every", 0): "'every' must lie in [1,", ("--layers", "nix*"): "none fits 'nix*'"}.items():
            with self.subTest(args=args):
                self.fails("gradients", "--out", "s", *args, "--", *JOB, says=says)
        self.fails("gradients", "--out", "s", "--", *JOB, "--out", "x", says="--out may not be a flag of the job")

    def test_keeps_a_study_unless_told(self):
        file = self.write("x.npy", npy([1.0, 2.0]))
        self.ok("gradients", "--out", "s", "--npy", file)
        self.fails("gradients", "--out", "s", "--npy", file, says="--overwrite replaces it")
        self.ok("gradients", "--out", "s", "--npy", file, "--overwrite")


class Convergence(StudyTest):
    def test_of_two_methods(self):
        text = self.ok("convergence", "--out", "s", "--methods", "topk,randomk", "--density", "0.1", "--every", 2, "--", *JOB)
        self.assertIn("age: steps since", text)
        study = self.study("s")
        self.assertEqual(study["kind"], "convergence")
        self.assertEqual({series["panel"] for series in study["series"]},
                         {"xi", "delta", "contraction", "residual", "age"})
        rows = self.rows("s/evidence.csv")
        self.assertEqual({row["method"] for row in rows}, {"topk", "randomk"})
        self.assertEqual(sorted({int(row["step"]) for row in rows}), [1, 2, 4, 6])
        delta = {"topk": [0, 0], "randomk": [0, 0]}
        for row in rows:
            n, k = int(row["n"]), int(row["k"])
            self.assertEqual(k, int(0.1 * n))
            if row["method"] == "topk":
                self.assertLess(float(row["contraction"]), float(row["bound"]))
            if row["step"] == "1":
                self.assertEqual(float(row["residual"]), 0)
                self.assertAlmostEqual(float(row["age_mean"]), 1 - float(row["k_hat"]) / n, places=6)
            self.assertLessEqual(float(row["age_max"]), int(row["step"]))
            delta[row["method"]][0] += float(row["n1"])
            delta[row["method"]][1] += float(row["n2"])
        self.assertLess(delta["topk"][0] / delta["topk"][1], 0.8)
        # Workers draw the same places, so that it is what it is held against.
        self.assertAlmostEqual(delta["randomk"][0] / delta["randomk"][1], 1, delta=0.1)
        xi = [float(row["xi"]) for row in rows if row["method"] == "randomk"]
        self.assertLess(max(xi), 1e-5, "the mean of the same places is those places of the mean")

    def test_says_what_is_wrong(self):
        self.fails("convergence", "--out", "s", "--methods", "dense,topk", "--", *JOB, says="'dense' sends all of them")
        self.fails("convergence", "--out", "s", "--density", 2, "--", *JOB, says="--density must be above 0")


class Training(RunTest):
    def test_looking_on_changes_nothing(self):
        def weights(*more):
            done = self.run_program(*JOB, "--out", f"run{len(list(self.folder.iterdir()))}", "--json", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["weights"]
        for method in (("--sparsifier", "topk"), ("--sparsifier", "sidco-p", "--feedback", "dgc"), ("--sparsifier", "none")):
            with self.subTest(method=method):
                plain = weights(*method)
                self.assertEqual(weights(*method, "--study", "gradients:every=1"), plain)
                self.assertEqual(weights(*method, "--study", "convergence:every=1"), plain)

    def test_refuses_what_it_cannot_watch(self):
        self.fails(*JOB, "--out", "r", "--study", "gradient", says="known: gradients convergence")
        self.fails(*JOB, "--out", "r", "--workers", 4, "--machine-ranks", 2, "--plan", "hierarchical:of=single", "--study",
                   "gradients", says="selects for whole machines; use --plan single")

    def test_goes_on_with_a_run(self):
        def steps(*more):
            done = self.run_program(*more, "--out", "run")
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in (self.folder / "run/study.jsonl").read_text().splitlines()]
            return sorted({row["step"] for row in rows}), len(rows)
        self.assertEqual(steps(*JOB, "--study", "gradients:every=2", "--checkpoint-every", 4)[0], [1, 2, 4, 6])
        # The last checkpoint that is left is of step 4: what came behind it is looked at again.
        for folder in (self.folder / "run/checkpoints").iterdir():
            if folder.name.endswith("6"):
                shutil.rmtree(folder)
        self.assertEqual(steps("--resume", "run", "--max-steps", 8), ([1, 2, 4, 6, 8], 20))


class Costs(StudyTest):
    def test_table(self):
        rows = json.loads(self.ok("costs", "--n", "25M", "--density", "0.001", "--workers", "4,32", "--network",
                                  "0.000436,9e-9", "--json"))
        # P = 32, m = 25e6, k = 25000, alpha 0.436 ms, beta 36 ns an element: the paper's formulas.
        self.assertAlmostEqual(rows[1]["ring"], 2 * 31 * (0.436e-3 + 25e6 / 32 * 36e-9))
        self.assertAlmostEqual(rows[1]["topk"], 5 * 0.436e-3 + 2 * 31 * 25e3 * 36e-9)
        self.assertAlmostEqual(rows[1]["gtopk_tree"], 2 * 5 * (0.436e-3 + 2 * 25e3 * 36e-9))
        self.assertIn("gTop-k's formulas", self.ok("costs"))
        self.fails("costs", "--workers", 1, says="from 2 to 1000000")


if __name__ == "__main__":
    main()
