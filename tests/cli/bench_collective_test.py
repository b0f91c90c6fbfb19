#!/usr/bin/env python3
"""Tests of `sluice bench collective`.

Run as: python3 tests/cli/bench_collective_test.py PATH_TO_SLUICE [unittest options]
"""

import csv
import io

from harness import COLLECTIVE, CliTest, SIMULATED, main, needs_mpi


class BenchCollective(CliTest):
    KEYS = {"collective", "workers", "n", "density", "overlap", "seconds", "bytes_sent_max", "bytes_received_max",
            "messages", "union", "bound_bytes", "bound_ratio", "imbalance", "by", "engine", "network", "support",
            "values", "k", "seconds_p25", "seconds_p75", "over_dense", "apply_seconds", "cpu_seconds",
            "bytes_received_mean", "delivered", "wire_seconds", "cpu_over_wire", "merge_equals_wire_gbit"}
    EXACT = {"dense", "allgather", "sparcml-rd", "sparcml-split", "balanced", "auto"}

    def check(self, rows, workers):
        for row in rows:
            self.assertLessEqual(self.KEYS, set(row))
            self.assertEqual(list(row), list(rows[0]), "all rows have the same keys")
            self.assertEqual(row["workers"], workers)
            self.assertLessEqual(row["k"], row["union"])
            if workers == 1:
                continue
            self.assertGreater(row["seconds"], 0)
            self.assertGreater(row["bytes_sent_max"], 0)
            self.assertGreaterEqual(row["bytes_received_max"], row["bytes_received_mean"])
            self.assertGreater(row["messages"], 0)
            self.assertGreaterEqual(row["imbalance"], 1)
            if row["collective"].split(":")[0] in self.EXACT | {"dense-bf16"}:
                self.assertGreaterEqual(row["bound_ratio"], 0.9999, row["collective"])
            else:
                self.assertIsNone(row["bound_bytes"], "the bound is for exact sums")

    def names(self):
        return [row["name"] for row in self.json("list", "collectives")["collectives"]]

    def test_rows_are_the_registry(self):
        for workers in (1, 2, 3, 4):
            with self.subTest(workers=workers):
                rows = self.json(*COLLECTIVE, *SIMULATED, "--workers", workers)
                self.assertEqual([row["collective"] for row in rows], self.names())
                self.check(rows, workers)

    def test_engines(self):
        for engine in ("threads", "simulated"):
            net = () if engine == "threads" else ("--net", "50us,1Gbit")
            for workers in (1, 2, 3):
                with self.subTest(engine=engine, workers=workers):
                    rows = self.json(*COLLECTIVE, "--engine", engine, "--workers", workers, *net, "--collective",
                                     "dense,balanced,oktopk")
                    self.check(rows, workers)
                    self.assertEqual({row["engine"] for row in rows}, {engine})

    @needs_mpi
    def test_processes(self):
        for workers in (1, 2, 3):
            with self.subTest(workers=workers):
                rows = self.json(*COLLECTIVE, "--workers", workers)
                self.assertEqual([row["collective"] for row in rows], self.names())
                self.check(rows, workers)
                self.assertEqual({row["engine"] for row in rows}, {"mpi"})

    def test_bytes_do_not_depend_on_the_engine(self):
        args = (*COLLECTIVE, "--workers", "3", "--collective", "allgather,sparcml-rd,sparcml-split,balanced")
        bytes_of = lambda rows: [(row["bytes_sent_max"], row["bytes_received_mean"], row["union"]) for row in rows]
        self.assertEqual(bytes_of(self.json(*args, *SIMULATED)), bytes_of(self.json(*args, "--engine", "threads")))

    def test_simulated_time_is_the_network_alone(self):
        args = (*COLLECTIVE, *SIMULATED, "--collective", "dense,balanced:direct=no", "--workers", "4")
        rows = self.json(*args)
        self.assertEqual([row["seconds"] for row in rows], [row["seconds"] for row in self.json(*args)])
        dense = rows[0]
        self.assertAlmostEqual(dense["ideal_seconds"], 1.5 * 4 * 20_000 * 8e-9)
        self.assertGreater(dense["seconds"], dense["ideal_seconds"] + 6 * 50e-6)
        self.assertLess(dense["seconds"], 1.02 * (dense["ideal_seconds"] + 7 * 50e-6), "one more to start together")
        self.assertEqual(dense["bound_bytes"], 1.5 * 4 * 20_000)

    def test_emulated_rows_say_so(self):
        for engine, word in (("threads", "emulated"), ("simulated", "simulated")):
            args = (*COLLECTIVE, "--engine", engine, "--net", "10us,10Gbit", "--collective", "balanced")
            self.assertEqual(self.json(*args)[0]["network"], f"{word}: 10 us, 10 Gbit/s")
            self.assertIn(f"network {word}: 10 us, 10 Gbit/s", self.ok(*args))
        self.assertEqual(self.json(*COLLECTIVE, "--engine", "threads")[0]["network"], "as it is")

    def test_slow_rank(self):
        fast, slow = (self.json(*COLLECTIVE, "--engine", "simulated", "--net", net, "--collective", "balanced")[0]
                      for net in ("50us,1Gbit", "50us,1Gbit,3=4"))
        self.assertGreater(slow["seconds"], 2 * fast["seconds"])

    def test_overlap(self):
        unions = [self.json(*COLLECTIVE, *SIMULATED, "--collective", "allgather", "--overlap", x, "--density", "0.1")[0]
                  ["union"] for x in ("0", "0.5", "1")]
        self.assertEqual(unions[2], 2000, "all ranks have the same")
        self.assertAlmostEqual(unions[0], 20_000 * (1 - 0.9**4), delta=150)
        self.assertTrue(unions[0] > unions[1] > unions[2], unions)

    def test_supports_show_imbalance(self):
        args = (*COLLECTIVE[:-1], "200k", *SIMULATED, "--collective", "sparcml-split,balanced:direct=no")
        for support in ("uniform", "skewed", "clustered", "hot-columns"):
            with self.subTest(support=support):
                rows = self.json(*args, "--support", support)
                self.check(rows, 4)
                split, balanced = (row["imbalance"] for row in rows)
                self.assertLess(balanced, 1.1)
                if support == "skewed":
                    self.assertGreater(split, 1.5)

    def test_values(self):
        sent = {values: self.json(*COLLECTIVE, *SIMULATED, "--collective", "allgather", "--values", values)[0]
                for values in ("fp32", "bf16", "fp16")}
        self.assertEqual(sent["bf16"]["bytes_sent_max"], sent["fp16"]["bytes_sent_max"])
        self.assertLess(sent["bf16"]["bytes_sent_max"], 0.75 * sent["fp32"]["bytes_sent_max"])
        self.assertIsNone(sent["bf16"]["bound_bytes"])

    def test_oktopk_counts_whole_cycles(self):
        for spec, steps in (("oktopk", 32), ("oktopk:tau_prime=3", 3), ("balanced", 1)):
            row = self.json(*COLLECTIVE, *SIMULATED, "--collective", spec)[0]
            self.assertEqual((row["steps"], row["traffic_steps"]), (1, steps), spec)

    def test_lists(self):
        rows = self.json(*COLLECTIVE[:-2], *SIMULATED, "--n", "1000,2k", "--density", "0.01,1", "--collective",
                         "balanced:block=4,direct=no,dense", "--collective", "auto")
        cases = [(row["n"], row["density"], row["k"], row["collective"]) for row in rows]
        self.assertEqual(cases, [(n, d, max(1, int(d * n)), a) for n in (1000, 2000) for d in (0.01, 1)
                                 for a in ("balanced:block=4,direct=no", "dense", "auto")])

    def test_one_element(self):
        self.check(self.json(*COLLECTIVE[:-2], *SIMULATED, "--n", "1"), 4)

    def test_seed(self):
        unions = [self.json(*COLLECTIVE, *SIMULATED, "--collective", "allgather", "--seed", seed)[0]["union"]
                  for seed in ("1", "2", "1")]
        self.assertNotEqual(unions[0], unions[1])
        self.assertEqual(unions[0], unions[2])

    def test_csv_and_table(self):
        args = (*COLLECTIVE, *SIMULATED)
        table = list(csv.reader(io.StringIO(self.ok(*args, "--csv"))))
        self.assertEqual(table[0], list(self.json(*args)[0]))
        self.assertEqual(len(table), 1 + len(self.names()))
        lines = self.ok(*args, "--wide").splitlines()
        rows = lines[1:2 + len(self.names())]
        self.assertEqual(len({len(line) for line in rows}), 1, "columns are aligned")
        for title in ("collective", "ms", "messages", "/bound", "imbalance", "/ideal", "cpu = wire Gbit"):
            self.assertIn(title, lines[1])


if __name__ == "__main__":
    main()
