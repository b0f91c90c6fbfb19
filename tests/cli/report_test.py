#!/usr/bin/env python3
"""`sluice report`: a page whatever is in the folder, and nothing in it that is not escaped.

Run as: python3 tests/cli/report_test.py PATH_TO_SLUICE [unittest options]
"""

import html.parser
import json
import re

from harness import CliTest, main, sluice
from run_folders import CONFIG, EVIL, eval_line, make_run, train_line

LIMIT = 3_000_000


class Checker(html.parser.HTMLParser):
    """What a page is made of; tags must be closed in order."""
    VOID = {"meta", "link", "br", "img", "rect", "line", "circle"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.links, self.text, self.problems = [], [], [], [], []
        self.feed(text)
        self.close()
        self.problems += [f"{tag} is not closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src", "action", "data")]
        self.problems += [f"{name} in {tag}" for name, _ in attributes if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> in the wrong place")

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


class ReportTest(CliTest):
    def run_folder(self, name, config=None, **how):
        return make_run(self.folder / name, config, **how)

    def page(self, *args):
        """Its text as people see it, once it has been looked through."""
        out = self.folder / "page.html"
        self.ok("report", *args, "-o", out)
        text = out.read_text(encoding="utf-8")
        self.assertLess(len(text.encode()), LIMIT)
        seen = Checker(text)
        self.assertEqual(seen.problems, [])
        self.assertEqual(seen.tags.count("script"), 1, "its own")
        self.assertNotIn("img", seen.tags)
        for link in seen.links:
            self.assertRegex(link, r"^(#s\d+|data:,|\./[^:]*)$")
        self.assertEqual(re.findall(r"(?i).{20}\b(?:nan|inf)\b.{20}", text), [])
        return " ".join(" ".join(seen.text).split())


class Pages(ReportTest):
    def test_of_a_run(self):
        seen = self.page(self.run_folder("run"), "--target", 60)
        for words in ("mlp on fashion-mnist", "topk at 1 %; 4 workers of batch 64 (threads), network 50us,1Gbit; seed 1",
                      "finished", "Test accuracy by time", "Training loss by steps", "target 60.00 %", "Density", "asked for",
                      "Share of a step that waits", "What to do next", "waits 40 % of a step", "--density 0.001",
                      "sluice train --optimizer sgd:momentum=0 --lr 0.5 --workers 4", "kB per step (log)"):
            self.assertIn(words, seen)
        self.assertNotIn("To know", seen)

    def test_of_runs_beside_each_other(self):
        dense = {"sparsifier": "none", "collective": "dense", "optimizer": "sgd"}
        folders = [self.run_folder(f"dense-{s}", {**dense, "seed": s}, accuracy=0.84) for s in (1, 2)]
        folders += [self.run_folder(f"topk-{s}", {"seed": s}) for s in (1, 2)]
        folders += [self.run_folder("other", {"lr": 0.1})]
        seen = self.page(*folders)
        for words in ("5 5 of them finished", "2 seeds, curves are means of them", "Settings in which they differ",
                      "topk (other) 1 %", "dense", "Every run"):
            self.assertIn(words, seen)
        self.assertIn("target 83.50 %", seen)

    def test_links_lead_to_folders_of_any_name(self):
        odd = self.run_folder("a#b?c%41 d:e\"<\u00e9", {"seed": 2})
        (odd / "report.html").write_text("")
        seen = self.page(self.run_folder("plain"), odd)
        self.assertIn("2 of them finished", seen)
        self.assertIn('href="./a%23b%3Fc%2541%20d%3Ae%22%3C%C3%A9/report.html"', (self.folder / "page.html").read_text())

    def test_of_a_denormal_number(self):
        run = self.run_folder("run")
        lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            line |= {"target_density": 1e-320} if line["kind"] == "train" else {}
        (run / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        self.assertIn("Density", self.page(run))

    def test_of_a_folder_of_runs(self):
        for seed in (1, 2, 3):
            self.run_folder(f"runs/s{seed}", {"seed": seed})
        self.assertIn("3 of them finished", self.page(self.folder / "runs"))

    def test_of_a_comparison(self):
        folder = self.folder / "cmp"
        cells = []
        for method, sparsifier, density in (("dense", "none", 1), ("topk", "topk", 0.01)):
            run = self.run_folder(f"cmp/{method}-s1", {"sparsifier": sparsifier})
            cells.append({"method": method, "density": density, "fixed_density": method == "dense", "seed": 1,
                          "config": {**json.loads((run / "config.json").read_text()), "max_steps": 10, "epochs": 1,
                                     "lr_schedule": "constant"}})
        (folder / "compare.json").write_text(json.dumps({"jobs": 1, "grid": "", "cells": cells}))
        (folder / "topk-s1" / "report.html").write_text("")
        self.assertIn("By method and density", self.page(folder))
        self.assertIn('href="./cmp/topk-s1/report.html"', (self.folder / "page.html").read_text())
        (folder / "compare.json").write_text("{")
        self.assertIn("compare.json cannot be read", self.page(folder))

    def test_of_a_plan(self):
        buckets = [{"tensors": [f"fc{i}.<b>"], "sparsifier": "topk", "feedback": "residual", "collective": "auto",
                    "values": "fp32"} for i in (2, 1)]
        plan = self.write(json.dumps({"version": 2, "name": "size=1M", "buckets": buckets}).encode(), "plan.json")
        seen = self.page(plan)
        self.assertIn("fc2.<b>", seen)
        self.assertIn("From step 1 on: size=1M", seen)

    def test_of_a_study(self):
        (self.folder / "study").mkdir()
        series = [{"name": name, "x": [1, 2, 3], "y": [1, None, 100], "x_label": "steps", "y_label": "xi", "panel": panel}
                  for name in ("topk", "adtopk") for panel in ("fc1", "fc2")]
        series.append({"name": "bad", "x": [1]})
        study = {"kind": "convergence", "series": series,
                 "tables": [{"title": "fits", "legend": "KS: distance", "columns": ["layer", "KS"], "rows": [["fc1", 0.25], ["fc2"]]}]}
        (self.folder / "study" / "study.json").write_text(json.dumps(study))
        seen = self.page(self.folder / "study")
        for words in ("Study of convergence", "fc1", "fits", "KS: distance", "0.25", "1 series have no points"):
            self.assertIn(words, seen)

    def test_of_a_timeline(self):
        run = self.run_folder("run")
        spans = [{"ph": "X", "name": name, "pid": rank, "tid": 0, "ts": 10 * i, "dur": 9, "args": {"step": 3, "tensors": EVIL}}
                 for rank in (0, 1) for i, name in enumerate(("forward", "backward", "exchange", EVIL))]
        (run / "trace.json").write_text(json.dumps({"traceEvents": spans}))
        self.assertIn("Step 3, 0.03 ms", self.page(run))
        (run / "trace.json").write_text('{"traceEvents": [')
        self.assertIn("trace.json is no JSON", self.page(run))

    def test_goes_into_the_folder_by_default(self):
        run = self.run_folder("run")
        self.ok("report", run)
        self.assertTrue((run / "report.html").exists())


class BadInput(ReportTest):
    def test_run_that_crashed_in_the_middle_of_a_line(self):
        run = self.run_folder("run", finished=False)
        with (run / "metrics.jsonl").open("a") as file:
            file.write('{"kind":"train","step":210,"lo')
        seen = self.page(run)
        for words in ("unfinished", "1 of 25 lines of metrics.jsonl cannot be read", "summary.json is missing",
                      "sluice train --resume"):
            self.assertIn(words, seen)

    def test_other_versions(self):
        run = self.run_folder("run")
        lines = [{"kind": "train", "step": step, "time_s": step, "loss": 1.0, "gradient_norm": 1.0} for step in (1, 2, 3)]
        lines += [{"kind": "diary", "step": 4}, {"kind": "eval", "step": -1}, ["x"], 7]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (run / "config.json").write_text(json.dumps({"model": 3, "density": "much", "sparsifier": ["a"], "new": None}))
        (run / "summary.json").write_text("[]")
        seen = self.page(run)
        for words in ("does not know, which are left out: gradient_norm", "some lines lack", "4 of 7 lines"):
            self.assertIn(words, seen)

    def test_numbers_that_are_none(self):
        run = self.run_folder("run")
        lines = [json.dumps(train_line(10, loss=None, step_s=None, density=0, k_hat_over_k=1e300, bytes_per_step=-5)),
                 json.dumps(train_line(20, loss=1e308, step_s=1e308)), json.dumps(train_line(30)).replace("0.02", "NaN"),
                 json.dumps(train_line(40)).replace("0.02", "1e999"), json.dumps(eval_line(40, None)),
                 json.dumps(eval_line(40, 1e300))]
        (run / "metrics.jsonl").write_text("\n".join(lines))
        self.assertIn("metrics.jsonl has numbers beyond 1e15: left out", self.page(run))

    def test_empty_and_strange_folders(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("has no run, comparison, study or plan in it", self.page(empty))
        bare = self.folder / "bare"
        (bare / "checkpoints").mkdir(parents=True)
        self.assertIn("config.json is missing", self.page(bare))
        odd = self.folder / "odd"
        for name in ("config.json", "metrics.jsonl", "summary.json", "trace.json"):
            (odd / name).mkdir(parents=True)
        self.assertIn("metrics.jsonl has no lines yet", self.page(odd))

    def test_names_with_markup(self):
        # What a file can be called has no slash.
        name = EVIL.replace("/", "")
        evil = {"model": EVIL, "dataset": EVIL, "net": EVIL, "sparsifier": EVIL, "optimizer": EVIL, "engine": EVIL}
        run = self.run_folder(name, evil)
        (run / "failure.txt").write_text(EVIL)
        (run / "about.json").write_text(json.dumps({EVIL: EVIL}))
        for folders in ((run,), (run, self.run_folder("b" + name, {"sparsifier": "none"}))):
            self.assertIn(EVIL, self.page(*folders))

    def test_thousands_of_runs(self):
        for i in range(2000):
            folder = self.folder / "runs" / f"run-{i:04}"
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(json.dumps({**CONFIG, "lr": i, "seed": i % 7}))
            lines = [train_line(1), train_line(2), eval_line(2, i / 2000)]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        seen = self.page(self.folder / "runs")
        self.assertIn("The first 500 of 2000 rows", seen)
        self.assertIn("and 1999 other runs: summary.json is missing", seen)

    def test_long_runs_are_thinned(self):
        run = self.run_folder("run", steps=100_000)
        self.page(run)
        self.assertLess((self.folder / "page.html").stat().st_size, 200_000)

    def test_what_has_no_page(self):
        text = self.write(b"hello", "a.txt")
        run = self.run_folder("run")
        plan = self.write(b'{"buckets": 7}', "plan.json")
        for args, says in (
                (("nowhere",), ("[report] 'nowhere' must be a folder or a plan.json",)),
                ((text,), ("must be the folder of a run", "holds no JSON object")),
                ((run / "config.json",), ("must be a plan.json (with \"buckets\")", "of a run give its folder")),
                ((run, text), ("several arguments must all be run folders",)),
                ((run, "-o", "page.txt"), ("-o must be a file that ends in .html",)),
                ((run, "--target", "high"), ("--target must be a score",)),
                ((plan,), ("[plan]",)),
                ((run, "-o", self.folder / "no" / "page.html"), ("could not be written",))):
            with self.subTest(args=args):
                self.fails("report", *args, says=says)
        self.assertGreater(sluice("report").returncode, 0)


if __name__ == "__main__":
    main()
