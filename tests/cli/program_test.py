#!/usr/bin/env python3
"""Tests of the program as a whole: help, `sluice list`.

Run as: python3 tests/cli/program_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import re

from harness import CODECS, CliTest, DATA, FEEDBACK, KINDS, SPARSIFIERS, main


JOB = ("--profile", "--net", "--sparsifier", "--feedback", "--values", "--collective", "--dense-collective",
       "--dense-rank", "--dense-below", "--device", "--select", "--hierarchical")


class Help(CliTest):
    OPTIONS = {
        (): ("--help", "--version", "list", "bench", "probe", "plan", "advise", "train", "compare", "study", "data",
             "completion", "sluice help train"),
        ("list",): ("--help", "--json", "kind"),
        ("compare",): ("--help", "--out", "--methods", "--densities", "--seeds", "--target", "--time-budget", "--jobs",
                       "--preset", "--config", "--overwrite", "--keep-checkpoints", "--report-only", "job"),
        ("bench",): ("--help", "select", "wire", "collective", "text"),
        ("bench", "collective"): ("--help", "--collective", "--n", "--densities", "--overlap", "--support", "--values",
                                  "--steps", "--warmup", "--seed", "--network", "--workers", "--engine", "--net",
                                  "--timeout", "--json", "--csv", "--wide"),
        ("bench", "text"): ("--help", "--file", "--size", "--rounds", "--json", "--csv"),
        ("study",): ("--help", "gradients", "convergence", "costs"),
        ("study", "gradients"): ("--help", "--out", "--every", "--layers", "--least", "--npy", "--densities", "--rules",
                                 "--dump", "--overwrite", "--json", "job", "sluice study gradients --out"),
        ("study", "convergence"): ("--help", "--out", "--every", "--layers", "--least", "--methods", "--density", "job",
                                   "sluice study convergence --out"),
        ("study", "costs"): ("--help", "--n", "--density", "--workers", "--network", "--json", "--csv"),
        ("data",): ("--help", "vocab"),
        ("data", "vocab"): ("--help", "--kind", "--size", "--out", "--cased", "files"),
        ("probe",): ("--help", "--out", "--workers", "--engine", "--net", "--timeout", "--json"),
        ("plan",): ("--help", "make", "explain", "simulate", "diff", "profile", "claims"),
        ("plan", "claims"): ("--help", "--json", "--csv"),
        ("plan", "profile"): ("--help", "--model", "--forward", "--backward", "--update", "--sparsifier", "--device",
                              "--select-floor", "--select-rate", "--apply-rate", "--out", "sluice plan profile --model"),
        ("plan", "make"): ("--help", *JOB, "--density", "--workers", "--planner", "--out", "--json", "sluice plan make --"),
        ("plan", "explain"): ("--help", *JOB, "--density", "--workers", "--trace", "--json", "sluice plan explain plan.json"),
        ("plan", "simulate"): ("--help", *JOB, "--density", "--workers", "--planners", "--methods", "--plot", "--json",
                               "--csv", "sluice plan simulate --"),
        ("plan", "diff"): ("--help", "before", "after", "--json", "sluice plan diff runs"),
        ("advise",): ("--help", *JOB, "--densities", "--workers", "--json", "sluice advise --"),
        ("bench", "select"): ("--help", "--n", "--densities", "--data", "--sparsifier", "--threads", "--feedback",
                              "--codec", "--row", "--stride", "--steps", "--json", "--csv", *DATA, ".npy"),
        ("bench", "wire"): ("--help", "--n", "--densities", "--data", "--sparsifier", "--row", "--steps", "--json",
                            "--csv"),
    }

    def test_names_every_option(self):
        for command, options in self.OPTIONS.items():
            for flag in ("--help", "-h"):
                with self.subTest(command=command, flag=flag):
                    text = self.ok(*command, flag)
                    for option in options:
                        self.assertIn(option, text)

    def test_is_a_command_and_what_comes_of_no_command(self):
        self.assertEqual(self.ok(), self.ok("--help"))
        for command in self.OPTIONS:
            with self.subTest(command=command):
                self.assertEqual(self.ok("help", *command), self.ok(*command, "--help"))

    def test_version(self):
        first, *parts = self.ok("--version").splitlines()
        self.assertRegex(first, r"\Asluice \d+\.\d+\.\d+\Z")
        names = [line.split()[0] for line in parts]
        self.assertEqual(names, ["compiler", "cpu", "cuda", "mpi", "nccl", "icu", "torch", "jpeg", "png", "sndfile"])
        self.assertRegex(parts[1], r"\bportable\b")
        listed = json.loads(self.ok("list", "build", "--json"))["build"]
        self.assertEqual([line.split(maxsplit=1)[1] for line in parts], [part["summary"] for part in listed])

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
        self.assertLessEqual(set(everything) - set(KINDS), {"tasks", "models", "datasets", "optimizers", "lr-schedules", "presets"})
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


if __name__ == "__main__":
    main()
