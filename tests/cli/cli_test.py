#!/usr/bin/env python3
"""Tests of the sluice program: what it prints, and what it says to bad input.

Run as: python3 tests/cli/cli_test.py PATH_TO_SLUICE [unittest options]
"""

import csv
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SLUICE = None  # the program, set by main()

SPARSIFIERS = {
    "topk", "adtopk", "adtopk-interleaved", "adtopk-threshold", "randomk", "threshold", "dgc", "gaussiank",
    "redsync", "redsync-trimmed", "redsync-quantized", "sidco-e", "sidco-gp", "sidco-p", "tile", "none",
}
FEEDBACK = {"none", "residual", "dgc"}
CODECS = {"auto", "dense", "elias-fano", "bitpack", "rows", "bitmap", "raw32", "raw64"}
KINDS = ("sparsifiers", "feedback", "codecs", "collectives", "schedules", "exceptions")
DATA = ("randn", "laplace", "t3", "equal", "zeros", "ramp")

SELECT = ("bench", "select", "--steps", "1", "--sparsifier", "topk", "--density", "0.01")
WIRE = ("bench", "wire", "--steps", "1", "--density", "0.01")
COLLECTIVE = ("bench", "collective", "--steps", "1", "--warmup", "0", "--n", "20k")
# In this process, so that it is quick.
SIMULATED = ("--engine", "simulated", "--net", "50us,1Gbit")


def sluice(*args, cpu=None, stdout=subprocess.PIPE, preexec_fn=None, path=None):
    """Runs the program; SLUICE_CPU is what the test says and nothing else."""
    env = {key: value for key, value in os.environ.items() if key != "SLUICE_CPU"}
    if cpu is not None:
        env["SLUICE_CPU"] = cpu
    if path is not None:
        env["PATH"] = path
    return subprocess.run([SLUICE, *map(str, args)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                          text=True, errors="replace", timeout=120, env=env, preexec_fn=preexec_fn)


def little_memory():
    """For preexec_fn: 2 GiB of address space."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def npy(shape, values, fortran="False", descr="'<f4'", version=1, header=None, header_length=None, magic=b"\x93NUMPY"):
    """A .npy file, sound by default. `values`: floats, or the bytes to put there."""
    text = (header or f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}") + "\n"
    length = len(text) if header_length is None else header_length
    body = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}f", *values)
    return magic + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", length) + text.encode() + body


def without(option, args):
    """The arguments without an option and its value, which may be given once."""
    args = list(args)
    if option in args:
        at = args.index(option)
        del args[at:at + 2]
    return args


def children(pid):
    """Processes that a process has started, by its main thread or another."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


def needs_mpi(test):
    """Skips a test where the program cannot start ranks as processes."""
    def run(self):
        done = sluice("bench", "collective", "--n", "10", "--engine", "mpi", "--workers", "0")
        if "needs a build with MPI" in done.stderr or shutil.which("mpirun") is None:
            self.skipTest("needs Open MPI")
        test(self)
    return run


def normals(n):
    rng = random.Random(1)
    return [rng.gauss(0, 1) for _ in range(n)]


class CliTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, content, name="gradient.npy"):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def ok(self, *args, **how):
        done = sluice(*args, **how)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stderr}")
        self.assertEqual(done.stderr, "", f"{args}: nothing on stderr where it is no terminal")
        return done.stdout

    def json(self, *args, **how):
        def constant(name):
            self.fail(f"{args}: {name} is not JSON")
        return json.loads(self.ok(*args, "--json", **how), parse_constant=constant)

    def rows(self, *args, **how):
        rows = self.json(*args, **how)
        self.assertIsInstance(rows, list)
        for row in rows:
            self.assertNotIn(None, row.values(), f"{args}: a number that is none: {row}")
        return rows

    def fails(self, *args, says=(), **how):
        """Non-zero by exit, not by a signal; one line on stderr with the phrases; nothing on stdout."""
        done = sluice(*args, **how)
        self.assertGreater(done.returncode, 0, f"{args}: {done.stdout}{done.stderr}")
        self.assertLess(done.returncode, 126, f"{args}: ended by a signal: {done.stderr}")
        self.assertEqual(done.stdout, "", f"{args}: an error prints nothing on stdout")
        self.assertTrue(done.stderr.endswith("\n"), f"{args}: {done.stderr!r}")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, f"{args}: one line, got {len(lines)}: {done.stderr}")
        for word in ("terminate", "std::", "exception:", "Assertion", "Traceback"):
            self.assertNotIn(word, done.stderr, f"{args}")
        for phrase in (says,) if isinstance(says, str) else says:
            self.assertIn(phrase, done.stderr, f"{args}")
        return done.stderr

    def each_fails(self, base, option, cases):
        """`cases`: value -> phrases. Both spellings, --option value and --option=value."""
        for value, says in cases.items():
            for spelled in ((f"{option}={value}",), (option, value)):
                with self.subTest(args=spelled):
                    self.fails(*base, *spelled, says=says)


class Help(CliTest):
    OPTIONS = {
        (): ("--help", "--version", "list", "bench", "probe"),
        ("list",): ("--help", "--json", "kind"),
        ("bench",): ("--help", "select", "wire", "collective"),
        ("bench", "collective"): ("--help", "--algorithm", "--n", "--density", "--overlap", "--support", "--values",
                                  "--steps", "--warmup", "--seed", "--network", "--workers", "--engine", "--net",
                                  "--timeout", "--json", "--csv"),
        ("probe",): ("--help", "--out", "--workers", "--engine", "--net", "--timeout", "--json"),
        ("bench", "select"): ("--help", "--n", "--density", "--data", "--sparsifier", "--threads", "--feedback",
                              "--codec", "--row", "--stride", "--steps", "--json", "--csv", *DATA, ".npy"),
        ("bench", "wire"): ("--help", "--n", "--density", "--data", "--sparsifier", "--row", "--steps", "--json",
                            "--csv"),
    }

    def test_names_every_option(self):
        for command, options in self.OPTIONS.items():
            for flag in ("--help", "-h"):
                with self.subTest(command=command, flag=flag):
                    text = self.ok(*command, flag)
                    for option in options:
                        self.assertIn(option, text)

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"\Asluice \d+\.\d+\.\d+\n\Z")

    def test_parameter_example_of_the_help_is_the_syntax_that_works(self):
        text = self.ok("bench", "select", "--help")
        self.assertNotIn("key=value;", text, "parameters are separated by commas")


class List(CliTest):

    def names(self, rows):
        self.assertIsInstance(rows, list)
        for row in rows:
            self.assertEqual(set(row), {"name", "summary", "parameters"})
            self.assertTrue(row["summary"], row["name"])
            for parameter in row["parameters"]:
                self.assertEqual(set(parameter), {"name", "default", "doc"}, row["name"])
                self.assertTrue(parameter["name"] and parameter["doc"], row["name"])
        found = [row["name"] for row in rows]
        self.assertEqual(len(found), len(set(found)), "names are unique")
        return set(found)

    def test_json(self):
        everything = self.json("list")
        self.assertEqual(tuple(everything)[:len(KINDS)], KINDS)
        self.assertLessEqual(set(everything) - set(KINDS), {"models", "datasets", "optimizers", "lr-schedules"})
        self.assertEqual(self.names(everything["sparsifiers"]), SPARSIFIERS)
        self.assertEqual(self.names(everything["feedback"]), FEEDBACK)
        self.assertEqual(self.names(everything["codecs"]), CODECS)

    def test_text(self):
        lines = self.ok("list").splitlines()
        for kind in KINDS:
            self.assertIn(kind, lines)
        for name in SPARSIFIERS | FEEDBACK | CODECS:
            self.assertTrue(any(re.match(rf"  {name} +\S", line) for line in lines), name)
        self.assertTrue(any("upper=1.3" in line for line in lines), "parameters with their defaults")

    def test_one_kind(self):
        everything = self.json("list")
        for kind in KINDS:
            with self.subTest(kind=kind):
                self.assertEqual(self.json("list", kind), {kind: everything[kind]})
                lines = self.ok("list", kind).splitlines()
                self.assertEqual([line for line in lines if not line.startswith(" ")], [kind])

    def test_unknown_kind(self):
        self.fails("list", "nonsense", says=("nonsense", *KINDS))
        self.fails("list", "nonsense", "--json", says=("nonsense", *KINDS))

    def test_needs_no_machine(self):
        self.assertEqual(self.ok("list", cpu="nonsense"), self.ok("list"))


class BenchSelect(CliTest):
    KEYS = {"sparsifier", "n", "density", "data", "threads", "phase", "seconds", "floor_seconds", "ratio", "k", "k_hat",
            "bytes", "cpu"}
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
        for name in ("auto", "elias-fano", "bitpack", "bitmap", "raw32", "raw64", "auto:values=bf16"):
            with self.subTest(codec=name):
                self.check(self.rows(*SELECT, "--n", "20000", "--codec", name))

    def test_table(self):
        lines = self.ok(*SELECT, "--n", "20000").splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(len({len(line) for line in lines}), 1, "columns are aligned")
        for title in ("sparsifier", "density", "threads", "phase", "ms", "ratio", "k_hat/k", "bytes"):
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


class BenchCollective(CliTest):
    KEYS = {"algorithm", "workers", "n", "density", "overlap", "seconds", "bytes_sent_max", "bytes_received_max",
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
            if row["algorithm"].split(":")[0] in self.EXACT | {"dense-bf16"}:
                self.assertGreaterEqual(row["bound_ratio"], 0.9999, row["algorithm"])
            else:
                self.assertIsNone(row["bound_bytes"], "the bound is for exact sums")

    def names(self):
        return [row["name"] for row in self.json("list", "collectives")["collectives"]]

    def test_rows_are_the_registry(self):
        for workers in (1, 2, 3, 4):
            with self.subTest(workers=workers):
                rows = self.json(*COLLECTIVE, *SIMULATED, "--workers", workers)
                self.assertEqual([row["algorithm"] for row in rows], self.names())
                self.check(rows, workers)

    def test_engines(self):
        for engine in ("threads", "simulated"):
            net = () if engine == "threads" else ("--net", "50us,1Gbit")
            for workers in (1, 2, 3):
                with self.subTest(engine=engine, workers=workers):
                    rows = self.json(*COLLECTIVE, "--engine", engine, "--workers", workers, *net, "--algorithm",
                                     "dense,balanced,oktopk")
                    self.check(rows, workers)
                    self.assertEqual({row["engine"] for row in rows}, {engine})

    @needs_mpi
    def test_processes(self):
        for workers in (1, 2, 3):
            with self.subTest(workers=workers):
                rows = self.json(*COLLECTIVE, "--workers", workers)
                self.assertEqual([row["algorithm"] for row in rows], self.names())
                self.check(rows, workers)
                self.assertEqual({row["engine"] for row in rows}, {"mpi"})

    def test_bytes_do_not_depend_on_the_engine(self):
        args = (*COLLECTIVE, "--workers", "3", "--algorithm", "allgather,sparcml-rd,sparcml-split,balanced")
        bytes_of = lambda rows: [(row["bytes_sent_max"], row["bytes_received_mean"], row["union"]) for row in rows]
        self.assertEqual(bytes_of(self.json(*args, *SIMULATED)), bytes_of(self.json(*args, "--engine", "threads")))

    def test_simulated_time_is_the_network_alone(self):
        args = (*COLLECTIVE, *SIMULATED, "--algorithm", "dense,balanced:direct=no", "--workers", "4")
        rows = self.json(*args)
        self.assertEqual([row["seconds"] for row in rows], [row["seconds"] for row in self.json(*args)])
        dense = rows[0]
        self.assertAlmostEqual(dense["ideal_seconds"], 1.5 * 4 * 20_000 * 8e-9)
        self.assertGreater(dense["seconds"], dense["ideal_seconds"] + 6 * 50e-6)
        self.assertLess(dense["seconds"], 1.02 * (dense["ideal_seconds"] + 7 * 50e-6), "one more to start together")
        self.assertEqual(dense["bound_bytes"], 1.5 * 4 * 20_000)

    def test_emulated_rows_say_so(self):
        for engine, word in (("threads", "emulated"), ("simulated", "simulated")):
            args = (*COLLECTIVE, "--engine", engine, "--net", "10us,10Gbit", "--algorithm", "balanced")
            self.assertEqual(self.json(*args)[0]["network"], f"{word}: 10 us, 10 Gbit/s")
            self.assertIn(f"network {word}: 10 us, 10 Gbit/s", self.ok(*args))
        self.assertEqual(self.json(*COLLECTIVE, "--engine", "threads")[0]["network"], "as it is")

    def test_slow_rank(self):
        fast, slow = (self.json(*COLLECTIVE, "--engine", "simulated", "--net", net, "--algorithm", "balanced")[0]
                      for net in ("50us,1Gbit", "50us,1Gbit,3=4"))
        self.assertGreater(slow["seconds"], 2 * fast["seconds"])

    def test_overlap(self):
        unions = [self.json(*COLLECTIVE, *SIMULATED, "--algorithm", "allgather", "--overlap", x, "--density", "0.1")[0]
                  ["union"] for x in ("0", "0.5", "1")]
        self.assertEqual(unions[2], 2000, "all ranks have the same")
        self.assertAlmostEqual(unions[0], 20_000 * (1 - 0.9**4), delta=150)
        self.assertTrue(unions[0] > unions[1] > unions[2], unions)

    def test_supports_show_imbalance(self):
        args = (*COLLECTIVE[:-1], "200k", *SIMULATED, "--algorithm", "sparcml-split,balanced:direct=no")
        for support in ("uniform", "skewed", "clustered", "hot-columns"):
            with self.subTest(support=support):
                rows = self.json(*args, "--support", support)
                self.check(rows, 4)
                split, balanced = (row["imbalance"] for row in rows)
                self.assertLess(balanced, 1.1)
                if support == "skewed":
                    self.assertGreater(split, 1.5)

    def test_values(self):
        sent = {values: self.json(*COLLECTIVE, *SIMULATED, "--algorithm", "allgather", "--values", values)[0]
                for values in ("fp32", "bf16", "fp16")}
        self.assertEqual(sent["bf16"]["bytes_sent_max"], sent["fp16"]["bytes_sent_max"])
        self.assertLess(sent["bf16"]["bytes_sent_max"], 0.75 * sent["fp32"]["bytes_sent_max"])
        self.assertIsNone(sent["bf16"]["bound_bytes"])

    def test_oktopk_counts_whole_cycles(self):
        for spec, steps in (("oktopk", 32), ("oktopk:tau_prime=3", 3), ("balanced", 1)):
            row = self.json(*COLLECTIVE, *SIMULATED, "--algorithm", spec)[0]
            self.assertEqual((row["steps"], row["traffic_steps"]), (1, steps), spec)

    def test_lists(self):
        rows = self.json(*COLLECTIVE[:-2], *SIMULATED, "--n", "1000,2k", "--density", "0.01,1", "--algorithm",
                         "balanced:block=4,direct=no,dense", "--algorithm", "auto")
        cases = [(row["n"], row["density"], row["k"], row["algorithm"]) for row in rows]
        self.assertEqual(cases, [(n, d, max(1, int(d * n)), a) for n in (1000, 2000) for d in (0.01, 1)
                                 for a in ("balanced:block=4,direct=no", "dense", "auto")])

    def test_one_element(self):
        self.check(self.json(*COLLECTIVE[:-2], *SIMULATED, "--n", "1"), 4)

    def test_seed(self):
        unions = [self.json(*COLLECTIVE, *SIMULATED, "--algorithm", "allgather", "--seed", seed)[0]["union"]
                  for seed in ("1", "2", "1")]
        self.assertNotEqual(unions[0], unions[1])
        self.assertEqual(unions[0], unions[2])

    def test_csv_and_table(self):
        args = (*COLLECTIVE, *SIMULATED)
        table = list(csv.reader(io.StringIO(self.ok(*args, "--csv"))))
        self.assertEqual(table[0], list(self.json(*args)[0]))
        self.assertEqual(len(table), 1 + len(self.names()))
        lines = self.ok(*args).splitlines()
        self.assertEqual(len({len(line) for line in lines[1:]}), 1, "columns are aligned")
        for title in ("algorithm", "ms", "messages", "/bound", "imbalance", "/ideal", "cpu = wire Gbit"):
            self.assertIn(title, lines[1])


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
        self.assertAlmostEqual(network["allreduce"]["beta"], 1.5 * 8e-9, delta=1e-10)
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
        args = (*COLLECTIVE, "--engine", "threads", "--workers", "2", "--algorithm", "dense")
        self.assertIsNone(self.json(*args)[0]["ideal_seconds"])
        row = self.json(*args, "--network", self.folder / "net.json")[0]
        self.assertAlmostEqual(row["ideal_seconds"], row["bound_bytes"] * 8e-9, delta=1e-8)

    def test_file_is_checked_first(self):
        self.fails("probe", "--out", self.folder / "none" / "net.json", says=("--out", "none/net.json", "No such file"))
        self.fails("probe", "--out", self.folder, says=("--out", "must be a file"))
        self.fails("probe", "--out", "", says=("--out", "must be a file"))

    def test_one_rank(self):
        self.fails("probe", "--workers", "1", "--out", self.folder / "net.json", says=("at least 2", "got 1"))


class Ranks(CliTest):
    """Ranks as processes: every failure ends, and says whose it was."""
    LONG = ("bench", "collective", "--n", "1M", "--steps", "1000000", "--workers", "3", "--algorithm", "balanced")

    def start(self, *args):
        """The program, and its ranks once they run."""
        program = subprocess.Popen([SLUICE, *self.LONG, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(program.kill)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            ranks = [rank for mpirun in children(program.pid) for rank in children(mpirun)]
            if len(ranks) == 3:
                time.sleep(2)  # until MPI is up; loading torch takes a while
                return program, ranks
            time.sleep(0.05)
        self.fail("no ranks were started")

    def gone(self, pids):
        for pid in pids:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                continue
            self.assertEqual(state, "Z", f"rank {pid} still runs")

    @needs_mpi
    def test_dead_rank_is_named(self):
        program, ranks = self.start("--timeout", "1.5")
        os.kill(ranks[2], signal.SIGKILL)
        out, errors = program.communicate(timeout=30)
        self.assertEqual((program.returncode, out), (1, ""))
        self.assertRegex(errors, r"rank [01] \(host \S+, process \d+\): .* rank 2 does not answer")
        self.assertIn("[launch] all of 3 ranks must end well", errors)
        self.gone(ranks)

    @needs_mpi
    def test_signal_ends_all(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                program, ranks = self.start()
                program.send_signal(number)
                program.communicate(timeout=10)
                self.assertEqual(program.returncode, 1)
                self.gone(ranks)

    @needs_mpi
    def test_late_rank_fails_all(self):
        done = sluice("bench", "collective", "--n", "1M", "--workers", "2", "--timeout", "0.0001")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("does not answer", done.stderr)

    def test_late_thread_fails_all(self):
        self.fails("bench", "collective", "--n", "1M", "--engine", "threads", "--timeout", "0.0001",
                   says="does not answer")

    def test_without_mpirun(self):
        done = sluice(*COLLECTIVE, "--engine", "mpi", path="/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--engine threads works", done.stderr)
        self.ok(*COLLECTIVE, "--engine", "threads", path="/nowhere")

    def mpirun(self, *args):
        env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(["mpirun", "--quiet", "-n", "2", "--oversubscribe", SLUICE, *args], env=env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    @needs_mpi
    def test_under_mpirun(self):
        done = self.mpirun(*COLLECTIVE, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual({row["workers"] for row in json.loads(done.stdout)}, {2})

    @needs_mpi
    def test_mistakes_under_mpirun_are_told_once(self):
        cases = {("--workers", "3"): "--workers must be the number of ranks that mpirun started, 2,",
                 ("--density", "2"): "density must be above 0",
                 ("--engine", "threads"): "--engine must be mpi"}
        for args, says in cases.items():
            with self.subTest(args=args):
                done = self.mpirun(*COLLECTIVE, *args)
                self.assertGreater(done.returncode, 0)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(says, done.stderr)


class BenchWire(CliTest):
    KEYS = {"codec", "form", "values", "n", "density", "entries", "bytes", "index_bits", "entropy_bits",
            "bits_per_entry", "encode_ns", "decode_ns"}

    def test_rows(self):
        rows = self.rows("bench", "wire", "--n", "100k", "--density", "0.01,0.1", "--steps", "2")
        for row in rows:
            self.assertLessEqual(self.KEYS, set(row))
            self.assertEqual(row["entries"], int(row["density"] * row["n"]))
            self.assertGreater(row["bits_per_entry"], 0)
        self.assertEqual({row["density"] for row in rows}, {0.01, 0.1})
        for density in (0.01, 0.1):
            some = {row["codec"]: row for row in rows if row["density"] == density}
            self.assertLessEqual({"auto", "elias-fano", "bitpack", "bitmap", "raw32", "raw64"}, set(some))
            smallest = min(row["bytes"] for row in some.values() if row["values"] == "fp32")
            self.assertEqual(some["auto"]["bytes"], smallest)

    def test_rows_form_for_row_sparsifiers(self):
        rows = self.rows(*WIRE, "--n", "100k", "--sparsifier", "adtopk")
        self.assertIn("rows", {row["codec"] for row in rows})

    def test_csv_and_table(self):
        args = (*WIRE, "--n", "20000")
        count = len(self.rows(*args))
        table = list(csv.reader(io.StringIO(self.ok(*args, "--csv"))))
        self.assertEqual(len(table), 1 + count)
        self.assertEqual({len(line) for line in table}, {len(table[0])})
        lines = self.ok(*args).splitlines()
        self.assertEqual(len(lines), 1 + count)
        self.assertEqual(len({len(line) for line in lines}), 1, "columns are aligned")


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
                    self.assertEqual(row["cpu"], f"cpu/{name}")

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


class Npy(CliTest):

    def select(self, content, **how):
        return self.rows(*SELECT, "--data", self.write(content), **how)[0]

    def test_shapes(self):
        cases = {(6000,): (6000, 1), (60, 100): (100, 1), (10, 20, 5): (20, 5), (8, 20, 3, 3): (20, 9),
                 (2, 3, 4, 5, 6): (3, 120)}
        for shape, (row, stride) in cases.items():
            n = 1
            for d in shape:
                n *= d
            for fortran in ("False", "True"):
                for version in (1, 2, 3):
                    with self.subTest(shape=shape, fortran=fortran, version=version):
                        got = self.select(npy(shape, normals(n), fortran, version=version))
                        self.assertEqual((got["n"], got["row"], got["stride"]), (n, row, stride))
                        self.assertEqual(got["k"], n // 100)
                        self.assertEqual(got["k_hat"], n // 100)

    def test_wire(self):
        rows = self.rows(*WIRE, "--data", self.write(npy((100, 60), normals(6000))))
        self.assertEqual({row["entries"] for row in rows}, {60})

    def test_size_comes_from_the_file(self):
        path = self.write(npy((5000,), normals(5000)))
        self.assertEqual(self.rows(*SELECT, "--n", "20000", "--data", path)[0]["n"], 5000)

    def test_fortran_order_is_the_transpose(self):
        # Row r of 50 holds r + 1 ones: 'threshold' selects by value alone, and
        # the bytes of its positions tell one order from the other.
        rows, columns = 50, 64
        matrix = [[1.0 if c <= r else 0.0 for c in range(columns)] for r in range(rows)]
        by_row = [matrix[r][c] for r in range(rows) for c in range(columns)]
        by_column = [matrix[r][c] for c in range(columns) for r in range(rows)]
        args = ("bench", "select", "--steps", "1", "--sparsifier", "threshold:value=0.2,cap=0", "--density", "0.5",
                "--feedback", "none", "--codec", "bitpack", "--data")
        shape = (rows, columns)
        c_order = self.rows(*args, self.write(npy(shape, by_row)))[0]["bytes"]
        f_order = self.rows(*args, self.write(npy(shape, by_column, "True")))[0]["bytes"]
        misread = self.rows(*args, self.write(npy(shape, by_column)))[0]["bytes"]
        self.assertNotEqual(c_order, misread, "the test can tell")
        self.assertEqual(c_order, f_order)

    def test_non_finite_values_are_never_selected(self):
        values = normals(5000)
        values[7] = float("nan")
        values[8] = float("inf")
        self.assertEqual(self.select(npy((5000,), values))["k_hat"], 50)

    def test_bad_files(self):
        good = normals(1000)
        sound = npy((1000,), good)
        overflow = f"({2**32}, {2**32}, {2**32})"
        cases = {
            "empty": (b"", ("must be a .npy file",)),
            "text": (b"1.0 2.0 3.0 4.0\n" * 10, ("must be a .npy file", "numpy.save")),
            "magic only": (sound[:6], ("must be a .npy file",)),
            "inside the length": (sound[:9], ("header",)),
            "inside the header": (sound[:40], ("header",)),
            "no data": (sound[:-4000], ("1000 float32 values", "got 0 bytes")),
            "truncated": (sound[:-100], ("1000 float32 values", "got 3900 bytes", "truncated")),
            "truncated inside a value": (sound[:-1], ("1000 float32 values", "got 3999 bytes", "truncated")),
            "a value too many": (sound + b"abcd", ("1000 float32 values", "got 4004 bytes")),
            "bytes too many": (sound + b"abc", ("1000 float32 values", "got 4003 bytes")),
            "float64": (npy((1000,), struct.pack("<1000d", *good), descr="'<f8'"), ("float32", "<f8", "astype")),
            "float16": (npy((1000,), bytes(2000), descr="'<f2'"), ("float32", "<f2", "astype")),
            "integers": (npy((1000,), bytes(4000), descr="'<i4'"), ("float32", "<i4")),
            "big-endian": (npy((1000,), struct.pack(">1000f", *good), descr="'>f4'"),
                           ("little-endian", ">f4", "astype")),
            "a record": (npy((1000,), good, descr="[('a', '<f4')]"), ("float32",)),
            "absurd header length": (npy((1000,), good, version=2, header_length=2**32 - 1), ("header", "below 1 MiB")),
            "header longer than the file": (npy((10,), good[:10], header_length=2**16 - 1),
                                            ("ends inside its header",)),
            "shape overflow": (npy(overflow, good), ("at most 2^40",)),
            "number overflow": (npy("(99999999999999999999999,)", good), ("too large",)),
            "byte overflow": (npy(f"({2**62},)", good), ("too large",)),
            "huge": (npy(f"({10**12},)", good), (str(10**12), "got 4000 bytes")),
            "negative": (npy("(-5,)", good), ("tuple of numbers", "(-5,)")),
            "no numbers": (npy("(a, b)", good), ("tuple of numbers",)),
            "too many dimensions": (npy("(1, 1, 1, 1, 1, 1, 1, 1, 1, 10)", good[:10]),
                                    ("at most 8 dimensions", "got 10")),
            "version 9": (npy((1000,), good, version=9), ("format 1 to 3", "got 9")),
            "version 200": (npy((1000,), good, version=200), ("format 1 to 3", "got 200")),
            "no shape": (npy((), good, header="{'descr': '<f4', 'fortran_order': False, }"), ("'shape'",)),
            "no order": (npy((), good, header="{'descr': '<f4', 'shape': (1000,), }"), ("'fortran_order'",)),
            "open shape": (npy("(1000", good), ("complete",)),
            "unknown order": (npy((1000,), good, fortran="maybe"), ("fortran_order", "maybe")),
            "nothing in it": (npy((0,), b""), ("at least 1",)),
        }
        for name, (content, says) in cases.items():
            for command in (SELECT, WIRE):
                with self.subTest(file=name, command=command[1]):
                    self.fails(*command, "--data", self.write(content), says=says)

    def test_every_error_names_the_file(self):
        for shape in (f"({2**32}, {2**32}, {2**32})", "(5,)", "(-1,)", "(1, 1, 1, 1, 1, 1, 1, 1, 1, 10)"):
            with self.subTest(shape=shape):
                path = self.write(npy(shape, normals(10)), "named.npy")
                self.fails(*SELECT, "--data", path, says="named.npy")

    def test_extra_bytes_are_not_called_truncated(self):
        path = self.write(npy((1000,), normals(1000)) + b"abcd")
        self.assertNotIn("truncated", self.fails(*SELECT, "--data", path))

    def test_missing(self):
        self.fails(*SELECT, "--data", self.folder / "missing.npy", says=("cannot open", "missing.npy"))

    def test_directory(self):
        path = self.folder / "folder.npy"
        path.mkdir()
        self.fails(*SELECT, "--data", path, says=("folder.npy", "directory"))

    def test_unreadable(self):
        path = self.write(npy((1000,), normals(1000)))
        path.chmod(0)
        if os.access(path, os.R_OK):
            self.skipTest("this user reads every file")
        self.fails(*SELECT, "--data", path, says="cannot open")


class BadInput(CliTest):
    """Every one: a non-zero exit and one clear line."""
    SMALL = ("--n", "2048")

    def test_density(self):
        cases = {value: ("density", "above 0 and at most 1", value) for value in ("0", "-1", "2", "nan", "inf")}
        cases |= {value: ("density", value) for value in ("abc", "0.1x", "0.1,abc")}
        for base in (SELECT[:-2], WIRE[:-2]):
            self.each_fails((*base, *self.SMALL), "--density", cases)

    def test_n(self):
        values = ("0", "-5", "1.5", "abc", "1e30", "nan", "inf", "5G", "10kk", "k", "2048,abc")
        cases = {value: ("a size must be a whole number", value.split(",")[-1]) for value in values}
        self.each_fails(SELECT, "--n", cases)
        del cases["2048,abc"]
        self.each_fails(WIRE, "--n", cases)

    def test_threads(self):
        cases = {value: ("threads", "from 1 to 1024", value) for value in ("0", "-1", "100000")}
        cases |= {value: ("threads", value) for value in ("abc", "1.5")}
        self.each_fails((*SELECT, *self.SMALL), "--threads", cases)

    def test_counts(self):
        for option in ("--row", "--stride", "--steps"):
            base = [*SELECT[:2], *SELECT[4:], *self.SMALL]
            self.each_fails(base, option, {"0": (option, "from 1 to"), "-1": (option, "-1"), "abc": (option, "abc")})
        for option in ("--row", "--steps"):
            base = [*WIRE[:2], *WIRE[4:], *self.SMALL]
            self.each_fails(base, option, {"0": (option, "from 1 to"), "-1": (option, "-1"), "abc": (option, "abc")})

    def test_slab_overflow(self):
        # 2^32 * 2^32 wraps to 0.
        done = sluice(*SELECT, *self.SMALL, "--row", 2**32, "--stride", 2**32)
        self.assertIn(done.returncode, (0, 1), f"must not crash: {done.stderr}")

    def test_names(self):
        cases = {
            "nope": ("no sparsifier 'nope'", "known:", *SPARSIFIERS),
            "topk,nope": ("no sparsifier 'nope'", "known:"),
            "topk:nope=1": ("topk", "no parameter 'nope'"),
            "dgc:nope=1": ("dgc", "no parameter 'nope'", "known:", "upper"),
            "dgc:upper=-1": ("'upper'", "must lie in", "-1"),
            "dgc:upper=nan": ("'upper'", "must lie in", "nan"),
            "dgc:upper=abc": ("'upper'", "must be a number", "abc"),
            "dgc:resample=perhaps": ("'resample'", "true or false", "perhaps"),
            "adtopk:dim=7": ("'dim'", "one of", "longer", "'7'"),
            "dgc:rounds=1.5": ("'rounds'", "whole number", "1.5"),
            "dgc:upper": ("key=value", "'upper'"),
            "dgc:": ("key=value",),
            "topk,,dgc": ("name:key=value",),
            '{"name"': ("JSON",),
        }
        self.each_fails(("bench", "select", "--steps", "1", *self.SMALL), "--sparsifier", cases)
        del cases["topk,nope"], cases["topk,,dgc"]
        self.each_fails((*WIRE, *self.SMALL), "--sparsifier", cases)

    def test_feedback(self):
        self.each_fails((*SELECT, *self.SMALL), "--feedback", {
            "nope": ("no feedback 'nope'", "known:", *FEEDBACK),
            "residual:nope=1": ("no parameter 'nope'", "beta"),
            "residual:beta=2": ("'beta'", "must lie in [0, 1]", "2"),
        })

    def test_codec(self):
        self.each_fails((*SELECT, *self.SMALL), "--codec", {
            "nope": ("no codec 'nope'", "known:", *CODECS),
            "auto:nope=1": ("no parameter 'nope'", "values"),
            "auto:values=fp8": ("'values'", "one of", "bf16", "'fp8'"),
            "dense": ("dense", "able to carry"),
            "rows": ("rows", "able to carry"),
        })

    def test_collective(self):
        cases = {
            "--density": {"0": "density must be above 0", "2": "at most 1", "nan": "density", "abc": "abc"},
            "--n": {"0": "a size must be", "1.5": "1.5", "abc": "'abc'", "20k,abc": "'abc'",
                    "4294967296": "below 2^32"},
            "--overlap": {"-0.1": ("overlap must be from 0 to 1", "-0.1"), "1.1": "1.1", "nan": "nan", "x": "--overlap"},
            "--support": {"nope": ("no support 'nope'", "uniform skewed clustered hot-columns")},
            "--values": {"fp8": ("fp32, bf16 or fp16", "'fp8'"), "two-bit": "'two-bit'"},
            "--steps": {"0": "--steps must be from 1", "-1": "-1", "abc": "abc"},
            "--warmup": {"-1": "--warmup must be from 0", "abc": "abc"},
            "--seed": {"-1": "--seed", "abc": "--seed"},
            "--network": {"/nope.json": "cannot open '/nope.json'", SLUICE: "format 1"},
            "--algorithm": {"nope": ("no collective 'nope'", "known:", "balanced"), "balanced,nope": "'nope'",
                            "balanced:nope=1": "no parameter 'nope'", "balanced:block=0": "'block'",
                            "balanced:direct=perhaps": "'direct'", "balanced:block=3": "power of two"},
        }
        for option, values in cases.items():
            self.each_fails(without(option, (*COLLECTIVE, *SIMULATED)), option, values)
        self.fails(*COLLECTIVE, "--json", "--csv", says=("--json", "--csv"))

    def test_launch(self):
        cases = {
            "--workers": {"0": "--workers must be from 1 to 1024, got 0", "-1": "-1", "5000": "5000", "abc": "abc",
                          "1.5": "1.5"},
            "--engine": {"nope": ("no engine 'nope'", "mpi threads simulated")},
            "--timeout": {"0": "--timeout must be above 0", "-1": "-1", "nan": "nan", "inf": "inf", "abc": "abc"},
            "--net": {"1Gbit": "ALPHA,RATE", "abc": "abc", "50us,0Gbit": "above 0", "50us,1Gbit,0=0.5": "factor",
                      "50us,1Gbit,4=2": "must be below 4", "-1us,1Gbit": "-1us"},
        }
        for command in (COLLECTIVE, ("probe", "--out", self.folder / "net.json")):
            for option, values in cases.items():
                engine = () if option == "--engine" else ("--engine", "threads")
                self.each_fails((*command, *engine), option, values)
            self.fails(*command, "--engine", "simulated", says=("needs a network", "--net 50us,1Gbit"))
        self.assertEqual(list(self.folder.iterdir()), [], "nothing was written")

    def test_data(self):
        for base in (SELECT, WIRE):
            self.each_fails((*base, *self.SMALL), "--data", {"nope": ("no data 'nope'", *DATA, ".npy")})

    def test_json_with_csv(self):
        for base in (SELECT, WIRE):
            self.fails(*base, *self.SMALL, "--json", "--csv", says=("--json", "--csv"))

    def test_unknown_option(self):
        for command in ((), ("list",), ("bench",), SELECT, WIRE, COLLECTIVE, ("probe",)):
            with self.subTest(command=command):
                self.fails(*command, "--bogus", says="--bogus")

    def test_no_subcommand(self):
        self.fails(says=("list", "bench", "probe"))
        self.fails("bench", says=("select", "wire", "collective"))

    def test_unknown_subcommand(self):
        self.fails("bogus", says="bogus")
        self.fails("bench", "bogus", says="bogus")

    def test_option_without_value(self):
        for option in ("--n", "--density", "--sparsifier", "--threads"):
            with self.subTest(option=option):
                self.fails(*SELECT[:2], option, says=option)

    def test_too_little_memory(self):
        for args, says in {("--n", "4G"): "memory", (*self.SMALL, "--threads", "1024"): "threads"}.items():
            with self.subTest(args=args):
                self.fails(*SELECT, *args, says=says, preexec_fn=little_memory)

    def test_everything_is_checked_before_anything_runs(self):
        # An hour of timing must not be lost to a typing error in what comes
        # last. Here the first case would not get its memory.
        cases = {
            ("--n", "4G,abc"): "'abc'",
            ("--n", "4G", "--threads", "1,0"): "threads",
            ("--n", "4G", "--data", "randn,nope"): "'nope'",
            ("--n", "4G", "--data", "randn,missing.npy"): "missing.npy",
            ("--n", "4G", "--feedback", "nope"): "'nope'",
            ("--n", "4G", "--codec", "nope"): "'nope'",
        }
        for args, says in cases.items():
            with self.subTest(args=args):
                self.fails(*SELECT, *args, says=says, preexec_fn=little_memory)


def main():
    global SLUICE
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} PATH_TO_SLUICE [unittest options]")
    SLUICE = os.path.abspath(sys.argv.pop(1))
    if not os.access(SLUICE, os.X_OK):
        sys.exit(f"[cli_test] no program at {SLUICE}; build it with: "
                 "cmake --preset release && cmake --build --preset release")
    unittest.main()


if __name__ == "__main__":
    main()
