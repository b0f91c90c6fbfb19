#!/usr/bin/env python3
"""Tests of `sluice completion`: the shells themselves complete.

Run as: python3 tests/cli/completion_test.py PATH_TO_SLUICE [unittest options]
"""

import shutil
import subprocess

from harness import CliTest, SPARSIFIERS, main

# In bash: what it would offer for the words typed so far, the last of which is being completed.
ASK = """
source "$1"; shift
COMP_WORDS=(sluice "$@"); COMP_CWORD=$#
_sluice
printf '%s\\n' "${COMPREPLY[@]}"
"""


class Completion(CliTest):
    def script(self, shell):
        path = self.folder / f"sluice.{shell}"
        path.write_text(self.ok("completion", shell))
        return path

    def needs(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"needs {shell}")

    def offers(self, *words):
        done = subprocess.run(["bash", "-c", ASK, "bash", self.script("bash"), *words], text=True, capture_output=True,
                              cwd=self.folder, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return set(done.stdout.split())

    def test_bash_offers_commands(self):
        self.assertLessEqual({"list", "bench", "train", "completion"}, self.offers(""))
        self.assertEqual(self.offers("tr"), {"train"})
        self.assertLessEqual({"select", "wire", "collective"}, self.offers("bench", ""))
        self.assertEqual(self.offers("completion", ""), {"bash", "zsh", "fish"})

    def test_bash_offers_options_by_their_present_names(self):
        self.assertEqual(self.offers("bench", "collective", "--col"), {"--collective"})
        self.assertEqual(self.offers("bench", "collective", "--alg"), set())
        self.assertIn("--densities", self.offers("compare", "--"))

    def test_bash_offers_names(self):
        self.assertEqual(self.offers("bench", "select", "--sparsifier", ""), SPARSIFIERS)
        self.assertEqual(self.offers("bench", "select", "--sparsifier", "topk,adtopk-t"), {"topk,adtopk-threshold"})
        self.assertEqual(self.offers("plan", "make", "--values", "f"), {"fp32", "fp16"})
        self.assertIn("oktopk", self.offers("bench", "collective", "--collective", "o"))
        self.assertIn("planners", self.offers("list", "p"))

    def test_bash_offers_files_where_there_are_no_names(self):
        self.write(b"{}", "profile.json")
        self.assertIn("profile.json", self.offers("advise", "--profile", "prof"))

    def test_bash_offers_what_train_takes(self):
        if not self.offers("train", "--pre"):
            self.skipTest("needs a build with LibTorch")
        self.assertIn("vgg16-cifar10", self.offers("train", "--preset", "vgg"))
        self.assertIn("resnet20", self.offers("train", "--model", "res"))
        self.assertIn("cifar10", self.offers("train", "--dataset", "ci"))
        self.assertIn("--lr-schedule", self.offers("compare", "--out", "x", "--", "--lr"))

    def test_zsh_and_fish_take_the_scripts(self):
        for shell in ("zsh", "fish"):
            with self.subTest(shell=shell):
                self.needs(shell)
                done = subprocess.run([shell, "-n", self.script(shell)], text=True, capture_output=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_fish_offers_names(self):
        self.needs("fish")
        script = self.script("fish")
        for typed, wanted in (("sluice ben", "bench"), ("sluice bench ", "collective"),
                              ("sluice bench select --sparsifier adtopk-", "adtopk-threshold"),
                              ("sluice bench collective --coll", "--collective")):
            with self.subTest(typed=typed):
                done = subprocess.run(["fish", "-c", f"source {script}; complete -C '{typed}'"], text=True,
                                      capture_output=True, timeout=60, env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"})
                offered = {line.split("\t")[0] for line in done.stdout.splitlines()}
                self.assertIn(wanted, offered, done.stderr)


if __name__ == "__main__":
    main()
