#!/usr/bin/env python3
"""Tests of `sluice probe`.

Run as: python3 tests/cli/probe_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os

from harness import COLLECTIVE, CliTest, SIMULATED, main, needs_mpi


class Probe(CliTest):

    def probe(self, *args):
        path = self.folder / "net.json"
        network = self.json("probe", "--out", path, *args)
        self.assertEqual(json.loads(path.read_text()), network)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["net.json"], "nothing else is left")
        self.assertEqual(network["format"], 1)
        self.assertEqual(len(network["hosts"]), network["workers"])
        for key in ("allreduce", "allgather"):
            self.assertLessEqual({"alpha", "beta", "times"}, set(network[key]))
        self.assertEqual([ring["bytes"] for ring in network["ring"]], [100_000, 400_000, 8_000_000])
        return network

    def test_finds_the_network_that_is_simulated(self):
        network = self.probe(*SIMULATED, "--workers", "4")
        self.assertEqual({(p["from"], p["to"]) for p in network["pairs"]},
                         {(a, b) for a in range(4) for b in range(4) if a != b})
        for p in (network, *network["pairs"]):
            self.assertAlmostEqual(p["alpha"], 50e-6, delta=1e-6)
            self.assertAlmostEqual(p["beta"], 8e-9, delta=1e-12)
        # A ring's segments pay for a message each: 50 us for every 1 ms on the wire, or a little less.
        ring = network["allreduce"]["beta"] / (1.5 * 8e-9)
        self.assertGreater(ring, 1)
        self.assertLess(ring, 1.05)
        self.assertAlmostEqual(network["allgather"]["beta"], 3 * 8e-9, delta=1e-10)
        self.assertEqual(network["network"], "simulated: 50 us, 1 Gbit/s")

    def test_finds_the_slow_rank(self):
        for p in self.probe("--engine", "simulated", "--net", "50us,1Gbit,1=3", "--workers", "3")["pairs"]:
            slow = 3 if 1 in (p["from"], p["to"]) else 1
            self.assertAlmostEqual(p["beta"], slow * 8e-9, delta=1e-11)

    def test_many_ranks_probe_their_neighbours(self):
        pairs = self.probe(*SIMULATED, "--workers", "9")["pairs"]
        self.assertEqual([(p["from"], p["to"]) for p in pairs], [(r, (r + 1) % 9) for r in range(9)])

    @needs_mpi
    def test_processes(self):
        network = self.probe("--workers", "2")
        self.assertEqual((network["engine"], network["network"]), ("mpi", "as it is"))
        self.assertGreater(network["alpha"], 0)

    def test_table(self):
        path = self.folder / "net.json"
        path.write_text("old")
        text = self.ok("probe", *SIMULATED, "--workers", "2", "--out", path)
        for word in ("rank 0 to rank 1", "allreduce", "allgather", "ring", "alpha us", "Gbit/s", f"wrote {path}"):
            self.assertIn(word, text)
        self.assertEqual(json.loads(path.read_text())["workers"], 2, "the old file is replaced")

    def test_bench_reads_the_file(self):
        self.probe(*SIMULATED, "--workers", "2")
        args = (*COLLECTIVE, "--engine", "threads", "--workers", "2", "--collective", "dense")
        self.assertIsNone(self.json(*args)[0]["ideal_seconds"])
        row = self.json(*args, "--network", self.folder / "net.json")[0]
        self.assertAlmostEqual(row["ideal_seconds"], row["bound_bytes"] * 8e-9, delta=1e-8)

    def test_file_is_checked_first(self):
        self.fails("probe", "--out", self.folder / "none" / "net.json", says=("--out", "none/net.json", "No such file"))
        self.fails("probe", "--out", self.folder, says=("--out", "must be a file"))
        self.fails("probe", "--out", "", says=("--out", "must be a file"))
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.fails("probe", "--out", fifo, says=("--out", "must be a file"))

    def test_one_rank(self):
        self.fails("probe", "--workers", "1", "--out", self.folder / "net.json", says=("at least 2", "got 1"))


if __name__ == "__main__":
    main()
