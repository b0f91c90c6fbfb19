#!/usr/bin/env python3
"""Tests of `sluice bench select`, and of the choice of kernels.

Run as: python3 tests/cli/bench_select_test.py PATH_TO_SLUICE [unittest options]
"""

import csv
import io
import os
import re
from pathlib import Path

from harness import CliTest, DATA, FEEDBACK, SELECT, SPARSIFIERS, WIRE, main, sluice


class BenchSelect(CliTest):
    KEYS = {"sparsifier", "n", "density", "data", "threads", "phase", "seconds", "floor_seconds", "ratio", "k", "k_hat",
            "bytes", "device"}
    DEFAULTS = {"topk", "adtopk", "tile", "dgc", "gaussiank", "redsync", "sidco-e", "sidco-gp", "sidco-p"}

    def check(self, rows):
        for row in rows:
            self.assertLessEqual(self.KEYS, set(row))
            self.assertEqual(list(row), list(rows[0]), "all rows have the same keys")
            self.assertGreater(row["seconds"], 0)
            self.assertGreater(row["floor_seconds"], 0)
            self.assertGreater(row["ratio"], 0)
            self.assertGreaterEqual(row["k_hat"], 0)
            self.assertGreater(row["bytes"], 0)
        self.assertEqual([row["phase"] for row in rows], ["cold", "steady"] * (len(rows) // 2))

    def test_rows(self):
        rows = self.rows("bench", "select", "--n", "100k", "--steps", "2")
        self.check(rows)
        self.assertEqual({row["sparsifier"] for row in rows}, self.DEFAULTS)
        self.assertEqual({row["density"] for row in rows}, {0.001, 0.01})
        self.assertEqual(len(rows), 2 * 2 * len(self.DEFAULTS))
        for row in rows:
            self.assertEqual(row["n"], 100_000 // 1024 * 1024, "whole rows")
            self.assertEqual(row["data"], "randn")
            self.assertEqual(row["threads"], 1)
            if row["sparsifier"] == "topk":
                self.assertEqual(row["k"], int(row["density"] * row["n"]))
                self.assertEqual(row["k_hat"], row["k"])

    def test_draws_what_it_has_timed(self):
        plot = self.folder / "select.svg"
        for how, label in ((("--density", "0.01,0.1"), "density (log)"), (("--n", "1000,2000"), "elements (log)")):
            with self.subTest(label=label):
                self.ok("bench", "select", "--n", "1000", "--steps", "1", "--density", "0.01", "--sparsifier",
                        "topk,dgc", "--data", "randn,laplace", "--plot", plot, *how)
                picture = plot.read_text()
                for part in (label, ">topk<", ">dgc<", ">floor<", "laplace"):
                    self.assertIn(part, picture)
        self.fails(*SELECT, "--n", "1000", "--plot", self.folder / "no/such/x.svg", says="no/such/x.svg")
        self.assertEqual(len(self.rows(*SELECT, "--n", "1000", "--device", "cpu,cpu")), 4)

    def test_models(self):
        rows = self.rows(*SELECT, "--model", "resnet50")
        self.check(rows)
        for row in rows:
            self.assertEqual((row["model"], row["n"]), ("resnet50", 25_557_032))
        self.fails(*SELECT, "--model", "vgg99", says=["known: bert-large resnet152 resnet50"])
        self.fails(*SELECT, "--model", "resnet50", "--n", "1M", says=["--n"])
        data = self.folder / "x.npy"
        self.fails(*SELECT, "--model", "resnet50", "--data", data, says=["x.npy"])

    def test_every_sparsifier(self):
        rows = self.rows("bench", "select", "--n", "20000", "--steps", "1", "--density", "0.01", "--sparsifier",
                         ",".join(sorted(SPARSIFIERS)))
        self.check(rows)
        self.assertEqual({row["sparsifier"] for row in rows}, SPARSIFIERS)

    def test_every_data(self):
        rows = self.rows(*SELECT, "--n", "20000", "--data", ",".join(DATA))
        self.check(rows)
        self.assertEqual([row["data"] for row in rows[::2]], list(DATA))
        for name in DATA:
            with self.subTest(data=name):
                self.check(self.rows("bench", "select", "--steps", "1", "--n", "20000", "--data", name))

    def test_lists(self):
        rows = self.rows(*SELECT[:-2], "--n", "2048,1e4", "--density", "0.01,0.1", "--threads", "1,2", "--sparsifier",
                         "dgc")
        self.check(rows)
        cases = {(row["sparsifier"], row["n"], row["density"], row["threads"]) for row in rows}
        self.assertEqual(cases, {(s, n, d, t) for s in ("topk", "dgc") for n in (2048, 9216) for d in (0.01, 0.1)
                                 for t in (1, 2)})

    def test_sizes(self):
        sizes = {"2048": 2048, "2.048k": 2048, "1e5": 99328, "100k": 99328, "0.1M": 99328, "1": 1, "1023": 1023}
        for text, n in sizes.items():
            with self.subTest(n=text):
                self.assertEqual(self.rows(*SELECT, "--n", text)[0]["n"], n)

    def test_geometry(self):
        row = self.rows(*SELECT, "--n", "100k", "--row", "512", "--stride", "9")[0]
        self.assertEqual((row["row"], row["stride"], row["n"]), (512, 9, 100_000 // (512 * 9) * 512 * 9))

    def test_feedback_and_codec(self):
        for name in FEEDBACK:
            with self.subTest(feedback=name):
                self.check(self.rows(*SELECT, "--n", "20000", "--feedback", name))
        for name in ("auto", "elias-fano", "bitpack", "bitmap", "raw32", "auto:values=bf16"):
            with self.subTest(codec=name):
                self.check(self.rows(*SELECT, "--n", "20000", "--codec", name))

    def test_table(self):
        lines = self.ok(*SELECT, "--n", "20000").splitlines()
        self.assertEqual(len({len(line) for line in lines[:3]}), 1, "columns are aligned")
        self.assertTrue(lines[3].startswith("phase: "), "then comes the legend")
        for title in ("sparsifier", "density", "threads", "phase", "ms", "ratio", "k^/k", "bytes"):
            self.assertIn(title, lines[0])
        self.assertIn("cold", lines[1])
        self.assertIn("steady", lines[2])

    def csv(self, *args):
        table = list(csv.reader(io.StringIO(self.ok(*args, "--csv"))))
        self.assertEqual({len(line) for line in table}, {len(table[0])}, "every row has the columns of the header")
        return [dict(zip(table[0], line)) for line in table[1:]]

    def test_csv(self):
        args = ("bench", "select", "--n", "20000", "--steps", "1")
        expected = self.rows(*args)
        rows = self.csv(*args)
        self.assertEqual(len(rows), len(expected))
        for row, other in zip(rows, expected):
            self.assertEqual(list(row), list(other))
            for key in ("sparsifier", "data", "phase"):
                self.assertEqual(row[key], other[key])
            self.assertEqual(float(row["density"]), other["density"])

    def test_csv_quotes_commas(self):
        spec = "dgc:upper=1.5,lower=0.7"
        rows = self.csv(*SELECT[:4], "--n", "20000", "--sparsifier", spec)
        self.assertEqual({row["sparsifier"] for row in rows}, {spec})

    def test_sparsifier_lists(self):
        cases = {
            "dgc:upper=1.5,lower=0.7": ["dgc:upper=1.5,lower=0.7"],
            "topk,tile": ["topk", "tile"],
            "dgc:upper=1.5,lower=0.7,tile": ["dgc:upper=1.5,lower=0.7", "tile"],
            "topk,dgc:upper=1.5,lower=0.7": ["topk", "dgc:upper=1.5,lower=0.7"],
            "threshold:value=2,cap=0,sidco-e:stages=2,adapt=false,topk":
                ["threshold:value=2,cap=0", "sidco-e:stages=2,adapt=false", "topk"],
            '{"name": "dgc", "upper": 1.5}': ['{"name": "dgc", "upper": 1.5}'],
        }
        for text, specs in cases.items():
            with self.subTest(sparsifier=text):
                rows = self.rows("bench", "select", "--n", "20000", "--steps", "1", "--density", "0.01",
                                 "--sparsifier", text)
                self.check(rows)
                self.assertEqual([row["sparsifier"] for row in rows[::2]], specs)

    def test_repeated_option(self):
        rows = self.rows("bench", "select", "--n", "20000", "--steps", "1", "--density", "0.01", "--sparsifier",
                         "dgc:upper=1.5,lower=0.7", "--sparsifier", "topk")
        self.assertEqual([row["sparsifier"] for row in rows[::2]], ["dgc:upper=1.5,lower=0.7", "topk"])

    def test_full_disk_is_an_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("needs /dev/full")
        for args in ((*SELECT, "--n", "2048"), ("list",), ("list", "--json")):
            with self.subTest(args=args), open("/dev/full", "w") as full:
                done = sluice(*args, stdout=full)
                self.assertGreater(done.returncode, 0, "what could not be written must not look written")
                self.assertIn("No space left", done.stderr)


class Cpu(CliTest):

    def test_chosen_by_environment(self):
        try:
            flags = set(re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)[1].split())
        except (OSError, TypeError):
            flags = set()
        for name, needs in {"portable": set(), "avx2": {"avx2", "bmi2", "fma"}}.items():
            with self.subTest(cpu=name):
                if not needs <= flags:
                    self.skipTest(f"this CPU lacks {' '.join(sorted(needs - flags))}")
                for row in self.rows(*SELECT, "--n", "20000", cpu=name):
                    self.assertEqual(row["device"], f"cpu/{name}")

    def test_all_select_alike(self):
        known = self.fails(*SELECT, "--n", "2048", cpu="nonsense").split("it can run:")[1].split()
        counts = set()
        for name in known:
            rows = self.rows("bench", "select", "--n", "20000", "--steps", "2", "--sparsifier", "topk,adtopk", cpu=name)
            counts.add(tuple((row["sparsifier"], row["k_hat"], row["bytes"]) for row in rows))
        self.assertEqual(len(counts), 1)

    def test_unknown(self):
        for command in (SELECT, WIRE):
            with self.subTest(command=command):
                self.fails(*command, "--n", "2048", cpu="nonsense",
                           says=("SLUICE_CPU", "'nonsense'", "it can run:", "portable"))


if __name__ == "__main__":
    main()
