#!/usr/bin/env python3
"""report.html of `sluice train` and `sluice compare`: at the end, live, or not at all.

Run as: python3 tests/cli/live_report_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import signal

from harness import RunTest, main

JOB = ("--model", "logistic", "--dataset", "synthetic:train=640,test=100", "--workers", 2, "--engine", "threads",
       "--batch-size", 16, "--plan", "size=1M", "--log-every", 1, "--eval-every", 2)
SHORT = (*JOB, "--max-steps", 4)
# Slow enough to be looked at: 100 ms a message.
SLOW = (*JOB, "--max-steps", 1000, "--net", "100ms,1Gbit")
REFRESH = 'http-equiv="refresh"'


class Train(RunTest):
    def page(self, run):
        path = self.folder / run / "report.html"
        return path.read_text() if path.exists() else ""

    def test_at_the_end(self):
        done = self.run_program(*SHORT, "--out", "a")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = self.page("a")
        for words in (">finished<", "logistic on synthetic", "Test accuracy by time", "--max-steps 4", "processor"):
            self.assertIn(words, page)
        self.assertNotIn(REFRESH, page)
        about = json.loads((self.folder / "a/about.json").read_text())
        self.assertLessEqual({"started", "host", "processor", "cores", "sluice", "torch"}, set(about))

    def test_off_and_overwritten(self):
        self.assertEqual(self.run_program(*SHORT, "--out", "a").returncode, 0)
        done = self.run_program(*SHORT, "--out", "a", "--overwrite", "--report", "off")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.page("a"), "", "the page of the old run is gone with it")

    def test_live(self):
        run = self.start(*SLOW, "--out", "a", "--report", "live")
        self.wait_for(lambda: REFRESH in self.page("a"))
        page = self.page("a")
        self.assertIn(">running<", page)
        self.assertNotIn("To know", page)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 0)
        page = self.page("a")
        self.assertIn(">stopped<", page)
        self.assertNotIn(REFRESH, page)

    def test_a_page_that_cannot_be_written_costs_no_run(self):
        (self.folder / "a/report.html/x").mkdir(parents=True)
        done = self.run_program(*SHORT, "--out", "a")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("[train] the run is whole, but has no report.html:", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue((self.folder / "a/summary.json").exists())

    def test_other_words_are_refused(self):
        self.fails(*SHORT, "--out", "a", "--report", "daily", says="--report must be end, live or off, got 'daily'")
        self.assertFalse((self.folder / "a").exists())


class Compare(RunTest):
    COMMAND = "compare"

    def test_page_links_to_those_of_its_runs(self):
        done = self.run_program("--out", "c", "--methods", "dense,topk", "--report", "live", "--", *SHORT)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (self.folder / "c/report.html").read_text()
        for words in (">finished<", "By method and density", 'href="./topk-0.01-s1/report.html"'):
            self.assertIn(words, page)
        self.assertNotIn(REFRESH, page)

    def test_off(self):
        done = self.run_program("--out", "c", "--methods", "topk", "--report", "off", "--", *SHORT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.folder.rglob("report.html")), [])

    def test_is_no_flag_of_the_job(self):
        self.fails("--out", "c", "--methods", "topk", "--", *SHORT, "--report", "off",
                   says="--report may not be a flag of a job; use --report before the --")


if __name__ == "__main__":
    main()
