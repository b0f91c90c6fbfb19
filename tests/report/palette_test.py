#!/usr/bin/env python3
"""The colours of methods: the same in C++ and in Python, to be seen on both papers, and told apart by all; and the
picture that Python draws with them.

Run as: python3 tests/report/palette_test.py PATH_TO_sluice_find_colours [unittest options]
"""

import itertools
import json
import math
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from accuracy_plot import PALETTE, assign, draw, find_colour  # noqa: E402

FIND_COLOURS = sys.argv.pop(1)
SVG = "{http://www.w3.org/2000/svg}"
# By Machado et al. 2009, for full deuteranopia and protanopia, on linear RGB.
SIGHT = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}
METHODS = [
    *["dense", "none", "ddp", "dense-bf16", "bf16-own", "fp16", "topk", "topk@0.01", "topk:threads=2", "topk-naive@0.01"],
    *["adtopk", "adtopk 1 %", "adtopk-interleaved", "adtopk-threshold", "attach-adtopk@0.01", "attach-none"],
    *["attach-bf16", "sidco-e", "sidco-gp", "sidco-p", "dgc", "dgc+residual", "gaussiank", "redsync-quantized"],
    *["randomk", "threshold", "tile", "gtopk", "gtopk-tree", "oktopk", "balanced", "powersgd-4", "batched-4"],
    *["postlocal-4", "sparcml-rd", "cltk", "mine", "topkk", "densely", "", "attach-", "<topk>"],
]


def linear(colour):
    shares = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def contrast(a, b):
    """As WCAG has it, from 1 to 21."""
    low, high = sorted(sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(x))) for x in (a, b))
    return (high + 0.05) / (low + 0.05)


def oklab(rgb, sight):
    seen = [max(0, sum(w * c for w, c in zip(row, rgb))) for row in sight]
    roots = [sum(w * c for w, c in zip(row, seen)) ** (1 / 3) for row in (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005))]
    return [sum(w * c for w, c in zip(row, roots)) for row in (
        (0.2104542553, 0.793617785, -0.0040720468),
        (1.9779984951, -2.428592205, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.808675766))]


class Colours(unittest.TestCase):
    def test_are_the_same_in_both_languages(self):
        done = subprocess.run([FIND_COLOURS, *METHODS], stdout=subprocess.PIPE, text=True, check=True)
        theirs = [None if line == "-1" else int(line) for line in done.stdout.split()]
        self.assertEqual(dict(zip(METHODS, theirs)), {name: find_colour(name) for name in METHODS})
        self.assertEqual(find_colour("sidco-e"), find_colour("sidco-p"))
        self.assertIsNone(find_colour("topkk"))

    def test_can_be_read_on_both_papers(self):
        for paper in (0, 1):
            for name in ("ink", "muted"):
                self.assertGreaterEqual(contrast(PALETTE[name][paper], PALETTE["paper"][paper]), 4.5, name)
            for entry in PALETTE["colours"]:
                self.assertGreaterEqual(contrast(entry["colour"][paper], PALETTE["paper"][paper]), 3, entry)

    def test_differ_for_the_colour_blind(self):
        for paper in (0, 1):
            for (a, b), (name, sight) in itertools.product(itertools.combinations(PALETTE["colours"], 2), SIGHT.items()):
                apart = math.dist(*(oklab(linear(x["colour"][paper]), sight) for x in (a, b)))
                self.assertGreater(apart, 0.03, f"{a} and {b} with {name}")

    def test_others_get_what_is_left(self):
        colours = assign(["mine", "dense", "yours"])
        self.assertEqual(len(set(colours)), 3)
        self.assertEqual(colours[1], find_colour("dense"))


class AccuracyPlot(unittest.TestCase):
    def curves(self, names):
        return {name: [(t, 80 + i + t / 10) for t in range(1, 20 + 9 * i)] for i, name in enumerate(names)}

    def draw(self, *args, **how):
        return xml.etree.ElementTree.fromstring(draw(*args, **how))

    def texts(self, picture):
        return [element.text for element in picture.iter(SVG + "text")]

    def test_names_stand_at_the_ends_of_lines(self):
        picture = self.draw("title", self.curves(["dense", "adtopk 1 %"]), subtitle="at 1 Gbit/s", mark=81)
        for words in ("title", "at 1 Gbit/s", "dense", "adtopk 1 %", "target 81.0 %"):
            self.assertEqual(self.texts(picture).count(words), 1, words)

    def test_lines_on_each_other_have_a_legend(self):
        curve = [(1, 80), (2, 81), (3, 80), (4, 82)]
        picture = self.draw("title", {name: curve for name in ("dense", "topk", "dgc", "adtopk", "sidco-e")})
        for name in ("dense", "topk", "dgc", "adtopk", "sidco-e"):
            self.assertEqual(self.texts(picture).count(name), 1, name)

    def test_seven_are_coloured_and_names_are_escaped(self):
        picture = self.draw("<b>", self.curves([f"<{i}>&" for i in range(9)]))
        lines = [line.get("class") for line in picture.iter(SVG + "polyline")]
        self.assertEqual(len(lines), 9)
        self.assertEqual(lines.count("muted"), 2)


class Multiples(unittest.TestCase):
    """benchmarks/multiples.py, of a folder as `sluice compare` leaves it."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-multiples-"))
        self.addCleanup(shutil.rmtree, self.folder)
        cells = [("dense", "none", 1.0), ("topk", "topk", 0.01), ("topk", "topk", 0.001)]
        runs = [{"method": m, "density": d, "folder": f"/elsewhere/{m}-{d:g}-s{s}"} for m, _, d in cells for s in (1, 2)]
        rows = [{"method": m, "sparsifier": kind, "density": d} for m, kind, d in cells]
        (self.folder / "table.json").write_text(json.dumps({"rows": rows, "runs": runs}))
        for i, run in enumerate(runs):
            place = self.folder / Path(run["folder"]).name
            place.mkdir()
            (place / "config.json").write_text(json.dumps({
                "model": "lenet", "dataset": "cifar10", "workers": 4, "batch_size": 8, "net": "", "seed": 1 + i % 2}))
            rows = [row for step in (1, 2, 3) for row in (
                {"kind": "train", "step": 10 * step, "step_s": 7},
                {"kind": "eval", "epoch": float(step), "accuracy": 0.5 + 0.1 * step - 0.02 * i})]
            (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def draw(self, *options):
        out = self.folder / "out.svg"
        done = subprocess.run([sys.executable, ROOT / "benchmarks/multiples.py", self.folder, "--out", out, *options],
                              text=True, capture_output=True)
        return done, [e.text for e in xml.etree.ElementTree.parse(out).iter(SVG + "text")] if out.exists() else []

    def test_every_density_has_a_line_over_epochs(self):
        done, words = self.draw("--epochs", "--titles", "LeNet-5 on icons")
        self.assertEqual(done.returncode, 0, done.stderr)
        for one in ("LeNet-5 on icons", "dense", "topk 1 %", "topk 0.1 %", "epochs", "3"):
            self.assertEqual(words.count(one), 1, one)
        self.assertIn("4 workers, batch 8 each, 2 seeds, density 0.1 %, 1 %", words)

    def test_seconds_are_the_default(self):
        done, words = self.draw()
        self.assertEqual(done.returncode, 0, done.stderr)
        for one in ("lenet on cifar10", "seconds in training steps", "200"):
            self.assertEqual(words.count(one), 1, one)

    def test_titles_must_be_as_many_as_folders(self):
        done, _ = self.draw("--titles", "a", "b")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--titles needs 1 titles, one for each folder; it has 2", done.stderr)


if __name__ == "__main__":
    unittest.main()
