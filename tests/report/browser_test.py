#!/usr/bin/env python3
"""Pages of `sluice report` in a real browser: light, dark, on a phone and on paper; nothing is loaded, nothing fails.

Run as: python3 tests/report/browser_test.py PATH_TO_SLUICE [--keep FOLDER_FOR_PICTURES] [unittest options]
"""

import base64
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))

from browser import Browser, find_browser, NAMES  # noqa: E402

KEEP = None
if "--keep" in sys.argv:
    at = sys.argv.index("--keep")
    KEEP = pathlib.Path(sys.argv[at + 1])
    del sys.argv[at:at + 2]

from harness import main, sluice  # noqa: E402
from run_folders import EVIL, make_run  # noqa: E402

PALETTE = json.loads((ROOT / "sluice/report/palette.json").read_text())
VIEWS = {"light": (1280, False), "dark": (1280, True), "phone": (390, False), "phone-dark": (390, True)}


def rgb(colour):
    return "rgb({}, {}, {})".format(*(int(colour[i:i + 2], 16) for i in (1, 3, 5)))


def make_pages(folder):
    """By name: one run with a timeline, a comparison with many methods, a name with markup, an empty folder."""
    one = make_run(folder / "one")
    spans = [{"ph": "X", "name": name, "pid": rank, "tid": tid, "ts": 900 * i, "dur": 800, "args": {"step": 3}}
             for rank in (0, 1) for i, (name, tid) in enumerate((("forward", 0), ("backward", 0), ("exchange", 2)))]
    (one / "trace.json").write_text(json.dumps({"traceEvents": spans}))
    many = [make_run(folder / "many/dense", {"sparsifier": "none", "collective": "dense"}, accuracy=0.86)]
    methods = ("topk", "adtopk", "dgc", "gaussiank", "redsync", "sidco-e", "tile", "randomk")
    for density in (0.01, 0.001):
        for i, method in enumerate(methods):
            many.append(make_run(folder / f"many/{method}-{density}", {"sparsifier": method, "density": density},
                                 accuracy=0.8 + 0.01 * i))
    evil = make_run(folder / EVIL.replace("/", ""), {"model": EVIL, "net": EVIL, "sparsifier": EVIL}, finished=False)
    empty = folder / "empty"
    empty.mkdir()
    pages = {"one": [one], "many": many, "evil": [evil, one], "empty": [empty]}
    for name, paths in pages.items():
        page = folder / f"{name}.html"
        done = sluice("report", *paths, "-o", page)
        assert done.returncode == 0, done.stderr
        pages[name] = page
    return pages


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = find_browser()
        if path is None:
            raise unittest.SkipTest(f"needs a browser, one of: {', '.join(NAMES)}")
        folder = tempfile.TemporaryDirectory(prefix="sluice-pages-")
        cls.addClassCleanup(folder.cleanup)
        cls.pages = make_pages(pathlib.Path(folder.name))
        cls.browser = Browser(path)
        cls.addClassCleanup(cls.browser.close)

    def show(self, name, width=1280, dark=False):
        self.browser.problems.clear()
        self.browser.requests.clear()
        self.browser.look(width, dark)
        self.browser.open(self.pages[name].as_uri())

    def keep(self, name, data):
        if KEEP:
            KEEP.mkdir(parents=True, exist_ok=True)
            (KEEP / name).write_bytes(data)

    def is_clean(self, name):
        self.assertEqual(self.browser.problems, [])
        self.assertLessEqual(set(self.browser.requests), {self.pages[name].as_uri(), "data:,"})

    def test_looks(self):
        for name in self.pages:
            for view, (width, dark) in VIEWS.items():
                with self.subTest(page=name, view=view):
                    self.show(name, width, dark)
                    shot = self.browser.call("Page.captureScreenshot", captureBeyondViewport=True)
                    data = base64.b64decode(shot["data"])
                    self.assertEqual(data[:4], b"\x89PNG")
                    self.keep(f"{name}-{view}.png", data)
                    wide = self.browser.run("document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, width, "tables and timelines scroll in boxes of their own")
                    paper = self.browser.run("getComputedStyle(document.body).backgroundColor")
                    self.assertEqual(paper, rgb(PALETTE["paper"][dark]))
                    self.is_clean(name)

    def test_pictures_have_the_colours_of_the_paper(self):
        topk = next(entry for entry in PALETTE["colours"] if "topk" in entry["names"])
        for dark in (False, True):
            self.show("one", dark=dark)
            stroke = self.browser.run("getComputedStyle(document.querySelector('figure polyline')).stroke")
            self.assertEqual(stroke, rgb(topk["colour"][dark]))

    def test_labels_do_not_overlap(self):
        script = """
          [...document.querySelectorAll("figure svg")].flatMap(svg => {
            const boxes = [...svg.querySelectorAll("text[font-weight='600']")].map(t => t.getBoundingClientRect());
            return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
              a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4));
          }).length"""
        for name in ("one", "many"):
            self.show(name)
            self.assertEqual(self.browser.run(script), 0)

    def test_prints_on_light_paper(self):
        self.show("many", dark=True)
        printed = self.browser.call("Page.printToPDF", printBackground=True)
        data = base64.b64decode(printed["data"])
        self.assertEqual(data[:5], b"%PDF-")
        self.assertGreater(len(data), 20_000)
        self.keep("many.pdf", data)
        self.browser.look(800, True, media="print")
        self.assertEqual(self.browser.run("getComputedStyle(document.body).backgroundColor"), rgb(PALETTE["paper"][0]))
        self.is_clean("many")

    def test_tables_sort(self):
        self.show("many")
        script = """(() => {
          const table = [...document.querySelectorAll("table")].find(t => t.tHead.textContent.includes("final"));
          const heads = [...table.tHead.rows[0].cells];
          const column = heads.findIndex(h => h.textContent.startsWith("final"));
          const values = () => [...table.tBodies[0].rows].map(r => Number(r.cells[column].dataset.v));
          const out = [];
          for (let i = 0; i < 2; ++i) { heads[column].querySelector("button").click(); out.push(values()); }
          heads[0].querySelector("button").click();
          out.push([...table.tBodies[0].rows].map(r => r.cells[0].textContent));
          return out;
        })()"""
        up, down, names = self.browser.run(script)
        self.assertGreater(len(set(up)), 5)
        self.assertEqual(up, sorted(up))
        self.assertEqual(down, sorted(down, reverse=True))
        self.assertEqual(names, sorted(names))
        self.is_clean("many")

    def test_is_whole_without_script(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        self.addCleanup(self.browser.call, "Emulation.setScriptExecutionDisabled", value=False)
        self.show("many")
        self.assertEqual(self.browser.run("document.querySelectorAll('th button').length"), 0)
        self.assertGreater(self.browser.run("document.querySelectorAll('tbody tr').length"), 17)

    def test_markup_in_names_stays_text(self):
        self.show("evil")
        self.assertEqual(self.browser.run("document.scripts.length"), 1)
        self.assertEqual(self.browser.run("document.images.length"), 0)
        self.assertIn("<script>alert(1)</script>", self.browser.run("document.body.innerText"))
        self.is_clean("evil")


if __name__ == "__main__":
    main()
