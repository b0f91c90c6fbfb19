#!/usr/bin/env python3
"""Tests of `sluice train --profile` and `--costs`: what a step takes, and plans that go by it.

Run as: python3 tests/cli/costs_test.py PATH_TO_SLUICE [unittest options]
"""

import json

from harness import RunTest, main

SMALL = ("--model", "mlp:widths=64", "--dataset", "synthetic:train=4000,test=200", "--engine", "threads",
         "--workers", 2, "--eval-every", 0, "--max-steps", 14)
PROFILE = ("--profile", 6, "--out", "measured")


class CostsTest(RunTest):
    def train(self, *args, rc=0):
        done = self.run_program(*SMALL, *args)
        self.assertEqual(done.returncode, rc, done.stderr)
        return done.stdout + done.stderr

    def profile(self):
        self.train(*PROFILE)
        return json.loads((self.folder / "measured" / "profile.json").read_text())

    def plan(self, run):
        return json.loads((self.folder / run / "plan.json").read_text())


class Profiles(CostsTest):
    def test_a_run_writes_what_its_steps_took(self):
        profile = self.profile()
        plan_names = [name for bucket in self.plan("measured")["buckets"] for name in bucket["tensors"]]
        self.assertEqual(sorted(t["name"] for t in profile["tensors"]), sorted(plan_names))
        self.assertGreater(profile["forward"], 0)
        self.assertGreater(sum(t["backward"] for t in profile["tensors"]), 0)
        self.assertIn("threads", profile["machine"])
        self.assertRegex(profile["date"], r"^\d{4}-\d\d-\d\d$")
        methods = {(c["what"], c.get("method", "*")) for c in profile["costs"]}
        self.assertLessEqual({("select", "topk"), ("select", "adtopk"), ("encode", "*"), ("apply", "*")}, methods)

    def test_too_few_steps_are_said(self):
        text = self.train("--profile", 20, "--max-steps", 7, "--out", "short")
        self.assertIn("there is no profile.json", text)
        self.assertFalse((self.folder / "short" / "profile.json").exists())

    def test_the_same_weights_with_and_without(self):
        def weights(*args):
            return json.loads(self.run_program(*SMALL, "--json", *args).stdout)["weights"]
        self.assertEqual(weights("--out", "plain"), weights(*PROFILE))


class Plans(CostsTest):
    def setUp(self):
        super().setUp()
        self.profile()

    def test_any_planner_goes_by_them(self):
        costs = ("--costs", "measured/profile.json")
        for planner in ("auto", "omgs-exact", "mgwfbp", "hipress", "size=1k"):
            run = "by-" + planner.split("=")[0]
            text = self.train(*costs, "--plan", planner, "--network", "1ms,10Mbit", "--out", run)
            self.assertIn("ms expected", text)
            self.assertEqual(self.plan(run)["name"], planner.split("=")[0])

    def test_a_plan_that_sends_everything_says_so(self):
        text = self.train("--costs", "measured/profile.json", "--plan", "auto", "--network", "1us,400Gbit",
                          "--out", "dense")
        self.assertTrue(all(b["sparsifier"] == "none" for b in self.plan("dense")["buckets"]))
        self.assertIn("compressing would not pay here", text)

    def test_bad_input(self):
        path = self.folder / "measured" / "profile.json"
        good = json.loads(path.read_text())

        def changed(name, **changes):
            (self.folder / name).write_text(json.dumps({**good, **changes}))
            return name

        first = good["tensors"][0]
        for args, words in (
            (("--costs", "none.json"), ("none.json", "No such file")),
            (("--costs", "measured/profile.json", "--plan", "omgz"), ("omgz", "omgs")),
            (("--costs", "measured/profile.json", "--model", "mlp:widths=32"), ("of this model", "fc1.weight")),
            (("--costs", changed("fewer.json", tensors=good["tensors"][1:])), ("tensors, but have",)),
            (("--costs", changed("negative.json", forward=-1)), ("forward", "-1")),
            (("--costs", changed("text.json", tensors=[{**first, "backward": "soon"}])), ("backward",)),
            (("--profile", -1), ("profile", "-1")),
        ):
            text = self.train(*args, "--out", "no", rc=1)
            for word in words:
                self.assertIn(word, text, args)
            self.assertFalse((self.folder / "no").exists(), args)


if __name__ == "__main__":
    main()
