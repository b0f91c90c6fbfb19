#!/usr/bin/env python3
"""Tests of `sluice plan` and `sluice advise`.

Run as: python3 tests/cli/plan_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import xml.dom.minidom
from pathlib import Path

from harness import CliTest, main

SLOW = "50us,1Gbit"
FREE = "1us,100000Gbit"


def tensor(name, *shape, backward=0.002):
    elements = 1
    for size in shape:
        elements *= size
    return {"name": name, "elements": elements, "shape": list(shape), "backward": backward}


def profile():
    """Three layers with biases, on a machine that is written down by hand."""
    return {
        "format": 1, "model": "mlp", "machine": "by hand", "date": "2026-11-18", "forward": 0.005, "update": 0.001,
        "tensors": [tensor("a.weight", 1000, 500), tensor("a.bias", 1000, backward=0),
                    tensor("b.weight", 1000, 1000), tensor("b.bias", 1000, backward=0),
                    tensor("c.weight", 2000, 1000), tensor("c.bias", 2000, backward=0)],
        "costs": [{"what": "select", "method": "topk", "points": [[1, 1e-5], [1e9, 1]]},
                  {"what": "select", "method": "dgc", "points": [[1, 1e-5], [1e9, 3]]},
                  {"what": "apply", "points": [[1, 1e-6], [1e9, 1e-3]]},
                  {"what": "sum", "points": [[1, 1e-12], [1e9, 1e-3]]}],
    }


class PlanTest(CliTest):

    def setUp(self):
        super().setUp()
        self.profile = self.save("profile.json", profile())
        self.job = ("--profile", self.profile, "--net", SLOW, "--workers", "8")

    def save(self, name, content):
        return self.write(json.dumps(content).encode(), name)

    def make(self, *more, name="plan.json", job=None):
        path = self.folder / name
        summary = self.json("plan", "make", *(job or self.job), "--out", path, *more)
        self.assertEqual(summary["out"], str(path))
        return path, summary


class Make(PlanTest):

    def test_every_planner_makes_a_plan_that_explain_reads(self):
        seconds = {}
        for planner in self.json("list", "planners")["planners"]:
            name = planner["name"]
            with self.subTest(planner=name):
                path, summary = self.make("--planner", name)
                plan = json.loads(path.read_text())
                rows = {t["name"]: t["shape"][0] for t in profile()["tensors"]}
                pieces = [(t, *b.get("piece", (0, 1))) for b in plan["buckets"] for t in b["tensors"]]
                counts = {t: count for t, _, count in pieces}
                self.assertEqual(sorted(pieces), sorted((t, i, counts[t]) for t in rows for i in range(counts[t])))
                explained = self.json("plan", "explain", path, *self.job)
                self.assertEqual(explained["iteration"], summary["iteration"])
                self.assertEqual(len(explained["rows"]), summary["buckets"])
                seconds[name] = summary["iteration"]
        # Of plans that take about as long, the one that sends least (auto:slack).
        self.assertLessEqual(seconds["auto"], 1.01 * min(seconds.values()))

    def test_biases_stay_dense(self):
        plan = json.loads(self.make("--planner", "layerwise")[0].read_text())
        self.assertEqual(plan["buckets"][-1]["tensors"], ["c.bias", "b.bias", "a.bias"])
        plan = json.loads(self.make("--planner", "layerwise", "--dense-rank", "0")[0].read_text())
        self.assertEqual(len(plan["buckets"]), 6)

    def test_reads_the_network_of_a_file(self):
        net = self.save("net.json", {"format": 1, "alpha": 50e-6, "beta": 8e-9})
        job = ("--profile", self.profile, "--net", net, "--workers", "8")
        self.assertEqual(self.make(job=job)[1]["iteration"], self.make()[1]["iteration"])
        self.ok("probe", "--engine", "simulated", "--net", SLOW, "--workers", "2", "--out", self.folder / "probed.json")
        job = ("--profile", self.profile, "--net", self.folder / "probed.json", "--workers", "8")
        self.assertAlmostEqual(self.make(job=job)[1]["iteration"], self.make()[1]["iteration"], delta=1e-4)

    def test_machines_exchange_as_one(self):
        net = self.save("net.json", {"format": 1, "alpha": 50e-6, "beta": 8e-9,
                                     "machine": {"ranks": 4, "alpha": 1e-6, "beta": 1e-11}})
        job = ("--profile", self.profile, "--net", net, "--workers", "16", "--planner", "single")
        flat = self.make(job=job)[1]["iteration"]
        self.assertLess(self.make("--hierarchical", job=job)[1]["iteration"], flat)

    def test_says_what_it_takes(self):
        text = self.ok("plan", "make", *self.job, "--out", self.folder / "plan.json")
        for word in ("mlp on 8 workers, 50 us, 1 Gbit/s", "plan auto:", "not hidden", "if compressing were free",
                     "planned 6 tensors in", "wrote"):
            self.assertIn(word, text)


class Explain(PlanTest):

    def test_every_bucket_has_its_alternatives(self):
        path, made = self.make("--planner", "single", "--collective", "allgather")
        rows = self.json("plan", "explain", path, *self.job)["rows"]
        self.assertEqual([row["way"] for row in rows], ["topk 1 % by allgather", "dense"])
        ways = {other["way"] for other in rows[0]["alternatives"]}
        self.assertLessEqual({"dense", "dense-bf16", "topk 1 % by balanced"}, ways)
        self.assertEqual({other["way"] for other in rows[1]["alternatives"]}, {"dense-bf16"}, "biases stay dense")
        best = min(rows[0]["alternatives"], key=lambda other: other["iteration"])
        self.assertEqual(rows[0]["instead"], best["way"])
        self.assertAlmostEqual(rows[0]["change"], best["iteration"] - made["iteration"])
        text = self.ok("plan", "explain", path, *self.job)
        for word in ("c.weight + 2", "topk 1 % by allgather", "next best", "step +ms"):
            self.assertIn(word, text)

    def test_pieces_have_their_rows_and_turns_their_rules(self):
        cut = profile()
        cut["costs"][0]["points"] = [[1, 1e-5], [2e6, 0.004]]
        path, made = self.make("--planner", "hipress", "--collective", "allgather", job=(
            "--profile", self.save("cut.json", cut), "--net", "10us,10Gbit", "--workers", "8"))
        rows = self.json("plan", "explain", path, *self.job)["rows"]
        first = rows[0]
        count = int(first["tensors"].split("/")[1])
        self.assertGreater(count, 1)
        self.assertEqual(first["tensors"], f"c.weight 1/{count}")
        self.assertEqual(sum(row["elements"] for row in rows if row["tensors"].startswith("c.weight")), 2_000_000)
        self.assertEqual({row["way"] for row in rows if row["tensors"].startswith("c.weight")}, {"topk 1 % by allgather"})
        # One piece by another way, and the others as they are.
        self.assertLess(abs(first["change"]), 0.5 * made["iteration"])
        path, _ = self.make("--planner", "interleaved:of=single,with=dgc", "--collective", "allgather")
        row = self.json("plan", "explain", path, *self.job)["rows"][0]
        self.assertEqual(row["way"], "topk/dgc 1 % by allgather")
        self.assertIn("topk/dgc 1 % by balanced", {other["way"] for other in row["alternatives"]})
        self.fails("plan", "make", *self.job, "--planner", "interleaved:with=topkk", "--out", self.folder / "no.json",
                   says="no sparsifier 'topkk'")

    def test_says_which_buckets_the_host_selects(self):
        gpu = profile()
        gpu["costs"] += [dict(cost, device="cuda") for cost in gpu["costs"]]
        gpu["costs"].append({"what": "copy", "device": "cuda", "points": [[1, 1e-5], [1e9, 0.1]]})
        job = ("--profile", self.save("gpu.json", gpu), *self.job[2:], "--device", "cuda")
        path, made = self.make("--planner", "single", "--collective", "allgather", job=job)
        rows = self.json("plan", "explain", path, *job)["rows"]
        self.assertIn("topk 1 % by allgather on cpu", {other["way"] for other in rows[0]["alternatives"]})
        plan = json.loads(path.read_text())
        plan["buckets"][0]["device"] = "cpu"
        path.write_text(json.dumps(plan))
        explained = self.json("plan", "explain", path, *job)
        self.assertEqual(explained["rows"][0]["way"], "topk 1 % by allgather on cpu")
        self.assertGreater(explained["iteration"], made["iteration"])
        gpu["costs"].pop()
        job = ("--profile", self.save("gpu.json", gpu), *job[2:])
        self.fails("plan", "explain", path, *job, says=("[plan] a bucket on the cpu needs costs of copy on cuda",))

    def test_of_many_buckets(self):
        many = profile()
        many["tensors"] = [tensor(f"t{i}", 10, 10) for i in range(300)]
        job = ("--profile", self.save("many.json", many), *self.job[2:])
        path, made = self.make("--planner", "layerwise", job=job)
        rows = self.json("plan", "explain", path, *job)["rows"]
        self.assertEqual([row["tensors"] for row in rows], [f"t{i}" for i in reversed(range(300))])
        self.assertEqual({len(row["alternatives"]) for row in rows}, {len(rows[0]["alternatives"])})
        self.assertEqual(self.json("plan", "diff", path, path), {"same": 300, "changes": []})

    def test_trace_is_a_timeline(self):
        path, made = self.make("--planner", "layerwise")
        trace = self.folder / "trace.json"
        self.ok("plan", "explain", path, *self.job, "--trace", trace)
        events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
        self.assertEqual({e["name"] for e in events}, {"forward", "backward", "select", "exchange", "apply", "wait", "optimizer"})
        self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in events) / 1e6, made["iteration"], delta=1e-6)

    def test_plan_of_another_model(self):
        path, _ = self.make()
        other = profile()
        other["tensors"][0]["name"] = "other.weight"
        job = ("--profile", self.save("other.json", other), *self.job[2:])
        self.fails("plan", "explain", path, *job, says=("[plan] tensors must be of the model", "'a.weight'"))
        path.write_text("{}")
        self.fails("plan", "explain", path, *self.job, says=("[plan]", "version"))
        self.fails("plan", "explain", self.folder / "none.json", *self.job, says=("[plan]", "none.json"))


class Simulate(PlanTest):
    JOB = ("--net", SLOW)

    def simulate(self, *more):
        return self.rows("plan", "simulate", "--profile", self.profile, *self.JOB, *more)

    def test_any_number_of_workers(self):
        rows = self.simulate("--workers", "2..65536", "--planners", "auto,single", "--methods", "dense-bf16,topk",
                             "--values", "bf16")
        self.assertEqual(len(rows), 2 * 16 * 2)
        by = {(row["method"], row["workers"], row["planner"]): row for row in rows}
        for workers in (2 ** i for i in range(1, 17)):
            best = by["topk", workers, "auto"]
            self.assertLessEqual(best["iteration"], by["topk", workers, "single"]["iteration"] * (1 + 1e-9))
            self.assertLessEqual(best["iteration"], by["dense-bf16", workers, "single"]["iteration"] * (1 + 1e-9))
            self.assertAlmostEqual(best["iteration"],
                                   best["compute"] + best["exposed_exchange"] + best["exposed_work"])
            self.assertLessEqual(best["free_compression"], best["iteration"] * (1 + 1e-9))
        self.assertLess(by["topk", 65536, "auto"]["efficiency"], by["topk", 2, "auto"]["efficiency"])

    def test_csv_and_plot(self):
        plot = self.folder / "plot.svg"
        text = self.ok("plan", "simulate", "--profile", self.profile, *self.JOB, "--workers", "2,6", "--csv",
                       "--planners", "omgs-exact", "--plot", plot)
        lines = text.splitlines()
        self.assertEqual(len(lines), 1 + 2 * 3)
        self.assertTrue(lines[0].startswith("method,workers,planner,"))
        self.assertIn("omgs-exact", xml.dom.minidom.parse(str(plot)).toxml())

    def test_bad_input(self):
        base = ("plan", "simulate", "--profile", self.profile, *self.JOB)
        self.each_fails(base, "--workers", {
            "0": ("--workers must be numbers from 1", "'0'"), "-4": "-4", "x": "'x'", "8..2": "must go up",
            "2..": "2..", "1..99999999999": "from 1 to 2^31",
        })
        self.each_fails(base, "--planners", {"nope": ("no planner 'nope'", "known:", "omgs-exact"),
                                             "lags:most=2": "'most'", "size=x": "size=BYTES"})
        self.each_fails(base, "--methods", {"nope": ("no sparsifier 'nope'", "known:")})
        self.fails(*base, "--json", "--csv", says=("--json", "--csv"))


class Diff(PlanTest):

    def test_names_what_only_one_has(self):
        a, _ = self.make("--planner", "layerwise", "--collective", "allgather", name="a.json")
        b, _ = self.make("--planner", "single", "--collective", "allgather", name="b.json")
        self.assertEqual(self.json("plan", "diff", a, a), {"same": 4, "changes": []})
        diff = self.json("plan", "diff", a, b)
        self.assertEqual(diff["same"], 1, "the dense one")
        self.assertEqual([(c["in"], c["tensors"]) for c in diff["changes"]],
                         [("-", ["c.weight"]), ("-", ["b.weight"]), ("-", ["a.weight"]),
                          ("+", ["c.weight", "b.weight", "a.weight"])])
        text = self.ok("plan", "diff", a, b)
        self.assertIn("c.weight + 2", text)
        self.assertIn("1 buckets are the same", text)

    def test_pieces_and_turns(self):
        whole, _ = self.make("--planner", "layerwise", name="whole.json")
        plan = json.loads(whole.read_text())
        first = plan["buckets"].pop(0)
        plan["buckets"] = [{**first, "piece": [i, 2]} for i in range(2)] + plan["buckets"]
        plan["buckets"][2]["turns"] = ["dgc"]
        cut = self.save("cut.json", plan)
        for a, b, signs in ((whole, cut, "--+++"), (cut, whole, "---++")):
            diff = self.json("plan", "diff", a, b)
            self.assertEqual("".join(c["in"] for c in diff["changes"]), signs)
            labels = {c["label"] for c in diff["changes"]}
            self.assertEqual(labels, {"c.weight", "c.weight 1/2", "c.weight 2/2", "b.weight"})
            self.assertIn("topk/dgc by auto", {c["way"] for c in diff["changes"]})
        self.assertEqual(self.json("plan", "diff", cut, cut), {"same": 5, "changes": []})

    def test_plans_of_two_models(self):
        a, _ = self.make()
        other = json.loads(a.read_text())
        other["buckets"][0]["tensors"][0] = "x"
        self.fails("plan", "diff", a, self.save("b.json", other), says="[plan] tensors must be of the model")
        self.fails("plan", "diff", a, self.write(b"[1", "c.json"), says=("[plan]", "JSON"))


class Profiles(PlanTest):
    BASE = ("plan", "profile", "--model", "resnet50", "--backward", "0.12")

    def test_can_be_planned_with(self):
        path = self.folder / "resnet50.json"
        self.assertIn("161 tensors", self.ok(*self.BASE, "--forward", "0.09", "--out", path))
        made = json.loads(path.read_text())
        self.assertAlmostEqual(sum(t["backward"] for t in made["tensors"]), 0.12)
        self.assertEqual(sum(t["elements"] for t in made["tensors"]), 25_557_032)
        advice = self.json("advise", "--profile", path, "--net", SLOW, "--workers", "16")
        self.assertAlmostEqual(advice["choices"][0]["compute"], 0.21)
        self.assertTrue(advice["worth_it"])

    def test_bad_input(self):
        out = ("--out", self.folder / "none.json")
        base = (*self.BASE, *out)
        for option in ("--forward", "--select-floor", "--select-rate", "--apply-rate"):
            self.each_fails(base, option, {"-1": ("0 or more", "-1"), "1e10": ("at most 1e9", option), "nan": option, "x": option})
        for option in ("--select-rate", "--apply-rate"):
            self.fails(*base, option, "2", says=("1e9 elements must take at most 1e9 seconds", f"{option} 2"))
        self.fails("plan", "profile", "--model", "resnet50", "--backward", "0", *out, says="above 0")
        self.fails("plan", "profile", "--model", "nope", "--backward", "1", *out, says=("nope", "resnet50"))
        self.fails(*base, "--sparsifier", "nope", says="no sparsifier 'nope'")
        self.assertFalse((self.folder / "none.json").exists())


class Claims(PlanTest):

    def test_every_paper_has_its_rows(self):
        rows = self.rows("plan", "claims")
        papers = {row["paper"] for row in rows}
        self.assertLessEqual({"OMGS", "LAGS", "ADTopk", "Espresso"}, papers)
        for row in rows:
            with self.subTest(row=row):
                self.assertGreater(row["claimed"], 1)
                self.assertAlmostEqual(row["simulated"], row["base"] / row["method"])
                self.assertGreater(row["simulated"], 0.99, "nothing that is claimed to be faster is slower")
                self.assertLessEqual(row["auto"], row["method"] * (1 + 1e-9))
        self.assertEqual(len(self.ok("plan", "claims", "--csv").splitlines()), 1 + len(rows))


class Advise(PlanTest):

    def test_worth_it_where_the_network_is_slow(self):
        advice = self.json("advise", *self.job, "--density", "0.001,0.01")
        self.assertTrue(advice["worth_it"])
        self.assertGreater(advice["speedup_over_dense_bf16"], 1.5)
        methods = [(c["method"], c["density"]) for c in advice["choices"]]
        self.assertEqual(methods, [("dense", 1), ("dense-bf16", 1), ("topk", 0.001), ("topk", 0.01),
                                   ("dgc", 0.001), ("dgc", 0.01)])
        self.assertIn("sluice train --model mlp --workers 8 --sparsifier topk --density 0.001 --plan plan.json",
                      advice["commands"])
        self.assertIn("worth it: topk", self.ok("advise", *self.job))

    def test_its_command_makes_the_plan(self):
        advice = self.json("advise", *self.job)
        words = advice["commands"][0].split()[1:]
        words[words.index("--out") + 1] = str(self.folder / "advised.json")
        best = min(c["iteration"] for c in advice["choices"])
        self.assertAlmostEqual(self.json(*words)["iteration"], best)

    def test_not_worth_it_where_it_is_fast(self):
        job = ("--profile", self.profile, "--net", FREE, "--workers", "8")
        advice = self.json("advise", *job)
        self.assertFalse(advice["worth_it"])
        self.assertEqual(advice["commands"],
                         ["sluice train --model mlp --workers 8 --sparsifier none --dense-collective dense-bf16"])
        self.assertIn("not worth it", self.ok("advise", *job))


class BadInput(PlanTest):

    def each_command_fails(self, job, says):
        for command in (("plan", "make", "--out", self.folder / "none.json"), ("advise",)):
            with self.subTest(command=command, job=job):
                self.fails(*command, *job, says=says)
        self.assertFalse((self.folder / "none.json").exists())

    def test_profiles(self):
        cases = {
            "a tensor twice": (lambda p: p["tensors"].append(p["tensors"][0]), "has 'a.weight' twice"),
            "no tensors": (lambda p: p["tensors"].clear(), "must have a tensor"),
            "below zero": (lambda p: p["tensors"][2].update(backward=-1), ("'backward' of tensor 'b.weight'", "-1")),
            "no number": (lambda p: p.update(forward="x"), ("'forward'", '"x"')),
            "one point": (lambda p: p["costs"][0]["points"].pop(), ("select of topk on cpu", "two points")),
            "too long": (lambda p: p["tensors"][2].update(backward=1e308), ("seconds of tensor 'b.weight'", "1e9", "1e+308")),
            "too steep": (lambda p: p["costs"][0].update(points=[[1, 0], [1.5, 1e9]]), ("select of topk on cpu", "1e9")),
            "unknown key": (lambda p: p.update(foward=1), ("'foward'", "did you mean 'forward'")),
            "wrong format": (lambda p: p.update(format=7), "format 1"),
        }
        for name, (change, says) in cases.items():
            with self.subTest(name):
                bad = profile()
                change(bad)
                self.each_command_fails(("--profile", self.save("bad.json", bad), *self.job[2:]), says)
        nan = json.dumps(profile()).replace("0.005", "NaN")
        self.each_command_fails(("--profile", self.write(nan.encode(), "nan.json"), *self.job[2:]), "[profile]")
        self.each_command_fails(("--profile", self.folder, *self.job[2:]), "[profile]")
        self.each_command_fails(("--profile", self.folder / "no.json", *self.job[2:]), ("[profile]", "no.json"))

    def test_networks(self):
        cases = {
            "one point": ({"format": 1, "times": [{"bytes": 1, "seconds": 1}]}, ("[network]", "two sizes")),
            "below zero": ({"format": 1, "alpha": -1, "beta": 1}, ("'alpha'", "-1")),
            "too long": ({"format": 1, "alpha": 1e300, "beta": 1}, ("alpha and beta", "1e9", "1e+300")),
            "no beta": ({"format": 1, "alpha": 1}, "must have 'beta'"),
            "no ranks": ({"format": 1, "alpha": 1, "beta": 1, "machine": {"ranks": 0, "alpha": 1, "beta": 1}}, "'ranks'"),
            "a profile": (profile(), "[network]"),
        }
        for name, (network, says) in cases.items():
            with self.subTest(name):
                path = self.save("bad.json", network)
                self.each_command_fails(("--profile", self.profile, "--net", path, "--workers", "8"), says)
        for net, says in {"50us,0Gbit": "above 0", "none.json": ("[network]", "none.json"), "1,2,3": "[link]",
                          "50us,1Gbit,0=2": "alike for all ranks"}.items():
            self.each_command_fails(("--profile", self.profile, "--net", net, "--workers", "8"), says)

    def test_options(self):
        cases = {
            "--workers": {"0": ("workers", "from 1 to 2^31", "0"), "5000000000": "from 1 to 2^31", "-1": "-1", "abc": "abc", "1.5": "1.5"},
            "--sparsifier": {"nope": ("no sparsifier 'nope'", "known:")},
            "--collective": {"nope": ("no collective 'nope'", "known:")},
            "--dense-collective": {"allgather": ("sums vectors", "dense-bf16"), "nope": "no collective 'nope'"},
            "--feedback": {"nope": ("no feedback 'nope'", "known:")},
            "--density": {"0": "above 0", "2": "at most 1", "nan": "density", "x": "x"},
            "--dense-rank": {"-1": "0 or more"},
            "--select": {"nowhere": ("beside", "backward")},
            "--device": {"tpu": ("cpu", "cuda")},
        }
        for option, values in cases.items():
            job = list(self.job)
            if option in job:
                at = job.index(option)
                del job[at:at + 2]
            for value, says in values.items():
                self.each_command_fails((*job, option, value), says)
        self.fails("plan", "make", *self.job, "--planner", "nope", says=("no planner 'nope'", "known:", "auto"))
        self.fails("plan", "make", "--profile", self.profile, "--net", SLOW, says="--workers")

    def test_out_that_cannot_be_written(self):
        self.fails("plan", "make", *self.job, "--out", self.folder / "no" / "plan.json", says="no/plan.json")


class Profiles(CliTest):
    def test_those_that_are_here_can_be_planned_with(self):
        files = sorted((Path(__file__).parents[2] / "benchmarks" / "profiles").glob("*.json"))
        self.assertGreaterEqual(len(files), 6)
        for file in files:
            rows = self.json("plan", "simulate", "--profile", file, "--device", "cuda", "--net", "20us,10Gbit",
                             "--workers", 16, "--planners", "auto,single")
            steps = {(row["method"], row["planner"]): row["iteration"] for row in rows}
            dense = min(step for (method, _), step in steps.items() if method != "topk")
            advice = self.json("advise", "--profile", file, "--device", "cuda", "--net", "20us,10Gbit", "--workers", 16)
            self.assertIn("--device cuda", advice["commands"][-1])
            if file.name == "h200-resnet20-32.json":  # so few weights that sending them all is faster at 10 Gbit/s
                self.assertEqual(steps["topk", "auto"], steps["dense", "auto"])
            else:
                self.assertLess(steps["topk", "auto"], dense, file.name)


if __name__ == "__main__":
    main()
