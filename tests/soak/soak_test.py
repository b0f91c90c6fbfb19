#!/usr/bin/env python3
"""A short soak, and what tools/soak says.

Run as: python3 tests/soak/soak_test.py BUILD_FOLDER [unittest options]
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOAK = Path(__file__).resolve().parents[2] / "tools/soak"
BUILD = None


class Soak(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-soak-test-")
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "out"

    def soak(self, *args, build=None):
        return subprocess.run([SOAK, "--out", self.out, "--build", build or BUILD, *map(str, args)], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=800)

    def check_well(self, done, scenarios):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        rows = summary["scenarios"].values()
        self.assertEqual(sum(row["runs"] + row["skipped"] for row in rows), scenarios)
        self.assertEqual(summary["failures"], [])
        return summary

    def test_short(self):
        done = self.soak("--seed", 1, "--scenarios", 3, "--only", "restart", "stops", "law")
        self.check_well(done, 3)
        self.assertIn("3 scenarios", done.stdout)

    def test_shrink(self):
        """Ten runs with as many ranks, ten with one fewer, and one whose rank is killed."""
        self.check_well(self.soak("--seed", 4, "--scenarios", 1, "--only", "shrink"), 1)

    def test_goes_on_until_it_has_killed(self):
        done = self.soak("--seed", 3, "--minutes", 0, "--kills", 1, "--only", "restart")
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreaterEqual(summary["kills"], 1)

    def test_a_failure_can_be_repeated(self):
        """A program that never works, in place of ours."""
        program = self.out.parent / "build/bin/sluice"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        program.chmod(0o755)
        args = ("--seed", 5, "--start", 7, "--scenarios", 1, "--only", "orphans")
        done = self.soak(*args, build=program.parents[1])
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED", done.stdout)
        self.assertIn("goes on with status 3: broken", done.stdout)
        self.assertIn("again: tools/soak --seed 5 --start 7 --scenarios 1 --only orphans", done.stdout)
        failure = json.loads((self.out / "summary.json").read_text())["failures"][0]
        self.assertEqual((failure["number"], failure["name"]), (7, "orphans"))
        self.assertTrue(any(self.out.rglob("start-1.err")))

    def test_words(self):
        self.assertIn("--minutes", self.soak("--help").stdout)
        for args, says in ((("--only", "rain"), "no scenario 'rain'; known: restart"),
                           (("--minutes", -1), "--minutes must be at least 0, got -1"),
                           (("--scenarios", 0), "--scenarios must be at least 1, got 0"),
                           (("--start", 0), "--start must be at least 1, got 0")):
            done = self.soak(*args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)
        done = self.soak(build=self.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no program at", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} BUILD_FOLDER [unittest options]")
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
