#!/usr/bin/env python3
"""Tests of plans that a run makes of what its own steps take: what is decided, recorded and repeated.

Run as: python3 tests/cli/live_plan_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os
import shutil
import subprocess

from harness import SLUICE, RunTest, main, needs_mpi

SMALL = ("--model", "mlp:widths=64", "--dataset", "synthetic:train=4000,test=200", "--engine", "threads",
         "--workers", 2, "--eval-every", 0, "--net", "1ms,100Mbit")
# Dense, whatever the times: so the plan changes in every run.
CHANGES = ("--plan", "mgwfbp", "--max-steps", 60)
DECIDED = 21  # five steps that pass, fifteen that are measured, one that asks


class LivePlanTest(RunTest):
    def train(self, *args, rc=0):
        done = self.run_program(*args)
        self.assertEqual(done.returncode, rc, done.stderr)
        return done.stdout + done.stderr

    def read(self, run, name):
        return json.loads((self.folder / run / name).read_text())

    def weights(self, run):
        return self.read(run, "summary.json")["weights"]

    def decisions(self, run):
        return [(d["step"], d["name"]) for d in self.read(run, "plan.json").get("later", [])]


class Decides(LivePlanTest):
    def test_by_what_its_first_steps_take(self):
        text = self.train(*SMALL, "--max-steps", 40, "--out", "a")
        self.assertIn("does not repeat bit for bit", text)
        self.assertIn("--plan a/plan.json repeats it", text)
        self.assertIn(f"from step {DECIDED + 1} on", text)
        self.assertEqual([step for step, _ in self.decisions("a")], [DECIDED])
        profile = self.read("a", "profile.json")
        self.assertEqual(len(profile["tensors"]), 4)
        self.assertTrue(profile["date"] and profile["machine"])
        network = self.read("a", "network.json")
        # Emulated, and what processes add to it.
        self.assertGreaterEqual(network["alpha"], 1e-3)
        self.assertGreater(network["beta"], 4e-8)
        # Both are files that plans can be made from.
        self.train("--plan", "auto", *SMALL, "--max-steps", 5, "--costs", "a/profile.json", "--out", "b")

    def test_measures_the_network_that_nobody_gave(self):
        free = [a for a in SMALL if a not in ("--net", "1ms,100Mbit")]
        self.train(*free, "--max-steps", 40, "--out", "a")
        network = self.read("a", "network.json")
        self.assertEqual(network["network"], "measured")
        self.assertGreater(network["alpha"], 0)
        self.assertEqual(self.read("a", "plan.json")["later"][0]["network"]["alpha"], network["alpha"])

    def test_nothing_in_short_runs_with_fixed_plans_or_alone(self):
        for run, args in (("short", ("--max-steps", 15)),
                          ("fixed", ("--plan", "size=1M", "--max-steps", 40)),
                          ("alone", ("--workers", 1, "--max-steps", 40))):
            text = self.train(*SMALL, *args, "--out", run)
            self.assertEqual(self.decisions(run), [])
            self.assertEqual("does not repeat" in text, run == "short", run)

    def test_dense_where_compressing_does_not_pay(self):
        fast = [a for a in SMALL if a not in ("--net", "1ms,100Mbit")]
        text = self.train(*fast, "--network", "1us,400Gbit", "--max-steps", 40, "--out", "a")
        self.assertIn("compressing would not pay here", text)
        later = self.read("a", "plan.json")["later"][0]
        self.assertEqual({(b["sparsifier"], b["collective"], b["values"]) for b in later["buckets"]},
                         {("none", "dense", "fp32")})
        # Said once, with how to forbid it, and in all that is written of the run.
        self.assertEqual(text.count("--plan fixed keeps topk at 0.01"), 1, text)
        self.assertIn("\ntrained dense\nsummary", text)
        summary = self.read("a", "summary.json")
        self.assertEqual(summary["trained_dense"], 1)
        self.assertGreater(summary["density"], 0.4)
        last = json.loads((self.folder / "a/metrics.jsonl").read_text().splitlines()[-1])
        self.assertEqual(last["density"], 1)
        self.assertGreater(last["bytes_per_step"], 4 * summary["parameters"])
        page = (self.folder / "a/report.html").read_text()
        self.assertIn("trained dense: its plan sends whole what topk was to select from", page)
        # A run that goes on from it is told again.
        text = self.train("--resume", "a", "--max-steps", 45)
        self.assertIn("from step 41 on 100 % of what topk was to select from is sent whole", text)
        # Forbidden.
        text = self.train(*fast, "--network", "1us,400Gbit", "--plan", "fixed", "--max-steps", 40, "--out", "b")
        self.assertNotIn("dense", text.split("summary")[-1].split("\n")[0])
        self.assertEqual(self.read("b", "summary.json")["trained_dense"], 0)
        self.assertLess(self.read("b", "summary.json")["density"], 0.1)
        self.assertEqual(self.decisions("b"), [])

    def test_no_rounded_sums_unless_asked_for(self):
        slow = ("--network", "1us,1Mbit", "--sparsifier", "none", "--max-steps", 25)
        free = [a for a in SMALL if a not in ("--net", "1ms,100Mbit")]
        for values, collective in (("fp32", "dense"), ("bf16", "dense-bf16")):
            text = self.train(*free, *slow, "--values", values, "--out", values)
            later = self.read(values, "plan.json")["later"][0]
            self.assertEqual({b["collective"] for b in later["buckets"]}, {collective}, text)
            self.assertNotIn("trained dense", text)

    def test_dense_is_dense_however_it_is_spelled(self):
        for run, sparsifier in (("plain", "none"), ("json", '{"name": "none"}')):
            text = self.train(*SMALL, "--sparsifier", sparsifier, "--plan", "fixed", "--max-steps", 5, "--out", run)
            self.assertIn("threads each; dense;", text)
            self.assertEqual(self.read(run, "config.json")["sparsifier"], "none")
            self.assertEqual(self.read(run, "summary.json")["density"], 1)
        self.assertEqual(self.weights("json"), self.weights("plain"))
        self.assertEqual(self.read("json", "config.json")["optimizer"], self.read("plain", "config.json")["optimizer"])
        # In a plan's file, too.
        plan = self.read("plain", "plan.json")
        for bucket in plan["buckets"]:
            bucket["sparsifier"] = '{"name": "none"}'
        (self.folder / "by-json.json").write_text(json.dumps(plan))
        self.train(*SMALL, "--sparsifier", "none", "--plan", "by-json.json", "--max-steps", 5, "--out", "planned")
        self.assertEqual(self.weights("planned"), self.weights("plain"))

    def test_a_planner_by_name_gets_its_plan(self):
        self.train(*SMALL, *CHANGES, "--out", "a")
        self.assertEqual(self.decisions("a"), [(DECIDED, "mgwfbp")])

    def test_again_when_steps_change(self):
        # Densities fall with the epochs, and with them what a step takes.
        text = self.train(*SMALL, "--model", "mlp:widths=256", "--dataset", "synthetic:train=12000,test=200",
                          "--density-schedule", "warmup:epochs=4", "--replan", "drift", "--max-steps", 300,
                          "--out", "a")
        steps = [step for step, _ in self.decisions("a")]
        self.assertGreater(len(steps), 1, text)
        self.assertEqual(steps, sorted(set(steps)))
        self.train(*SMALL, "--model", "mlp:widths=256", "--dataset", "synthetic:train=12000,test=200",
                   "--density-schedule", "warmup:epochs=4", "--plan", "a/plan.json", "--max-steps", 300,
                   "--out", "b")
        self.assertEqual(self.weights("a"), self.weights("b"))


class Repeats(LivePlanTest):
    def test_a_run_by_its_plan_bit_for_bit(self):
        self.train(*SMALL, *CHANGES, "--out", "a")
        text = self.train(*SMALL, *CHANGES, "--plan", "a/plan.json", "--out", "b")
        self.assertNotIn("does not repeat", text)
        self.assertEqual(self.decisions("b"), self.decisions("a"))
        self.assertEqual(self.weights("b"), self.weights("a"))

    def test_after_a_stop_what_was_decided(self):
        self.train(*SMALL, *CHANGES, "--checkpoint-every", 10, "--keep", 9, "--out", "a")
        for last in (10, 40):
            run = f"from-{last}"
            shutil.copytree(self.folder / "a", self.folder / run)
            for step in range(last + 10, 61, 10):
                shutil.rmtree(self.folder / run / "checkpoints" / f"step-{step:08}")
            text = self.train("--resume", run)
            self.assertIn(f"resumed after step {last}", text)
            self.assertEqual(self.decisions(run), [(DECIDED, "mgwfbp")])
            self.assertEqual(self.weights(run), self.weights("a"))

    def test_nothing_that_other_workers_decided(self):
        self.train(*SMALL, *CHANGES, "--out", "a")
        self.train("--resume", "a", "--workers", 3, "--max-steps", 100)
        steps = [step for step, _ in self.decisions("a")]
        self.assertEqual(steps, [60 + DECIDED])


class BadInput(LivePlanTest):
    def test_is_refused_before_the_first_step(self):
        self.train(*SMALL, *CHANGES, "--out", "a")
        plan = self.read("a", "plan.json")

        def changed(name, /, **changes):
            later = {**plan["later"][0], **changes}
            (self.folder / name).write_text(json.dumps({**plan, "later": [later]}))
            return name

        for args, words in (
            (("--plan", "autp"), ("no planner 'autp'", "auto")),
            (("--replan", "often"), ("replan", "off", "drift")),
            (("--plan", "missing.json"), ("missing.json", "No such file")),
            (("--plan", changed("zero.json", step=0)), ("'step' of decision 1", "at least 1")),
            (("--plan", changed("net.json", network={"alpha": -1, "beta": 0})), ("network of decision 1", "-1")),
            (("--plan", changed("fewer.json", buckets=plan["later"][0]["buckets"][:0])), ("lacks",)),
            (("--plan", changed("key.json", steps=3)), ("steps", "step")),
            (("--plan", "a/plan.json", "--model", "mlp:widths=32-32"), ("must be of the model", "lacks")[1:]),
            (("--plan", changed("type.json", name=3)), ("expected the JSON of a plan", "type must be string")),
            (("--plan", changed("density.json", buckets=[{**plan["buckets"][0], "density": 1.0000001}])),
             ("bucket 0 has 1.0000001", "the density of the job")),
            (("--density", 1.0000001), ("at most 1, got 1.0000001",)),
            (("--batch-size", 3000), ("need 6000 samples for one step, got 4000; use a smaller batch, or fewer ranks",)),
        ):
            text = self.train(*SMALL, "--max-steps", 3, *args, "--out", "no", rc=1)
            for word in words:
                self.assertIn(word, text, args)
            self.assertNotIn("json.exception", text)
            self.assertFalse((self.folder / "no").exists(), args)

    @needs_mpi
    def test_plans_that_differ_between_hosts(self):
        """Each rank finds its own file under the same name."""
        self.train(*SMALL, *CHANGES, "--out", "a")
        plan = self.read("a", "plan.json")
        for host in ("one", "other"):
            (self.folder / host).mkdir()
            (self.folder / host / "plan.json").write_text(json.dumps(plan))
            plan["later"][0]["step"] += 1
        job = ["train", "--model", "mlp:widths=64", "--dataset", "synthetic:train=4000,test=200", "--max-steps", "3",
               "--plan", "plan.json", "--out", self.folder / "no"]
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1", "--wdir",
                               self.folder / "one", SLUICE, *job, ":", "-n", "1", "--wdir", self.folder / "other",
                               SLUICE, *job], env=env, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=80)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("all ranks must begin with the same plan, but rank", done.stderr)
        self.assertFalse((self.folder / "no").exists())


if __name__ == "__main__":
    main()
