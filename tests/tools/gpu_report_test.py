#!/usr/bin/env python3
"""Tests of the table that tools/gpu_check ends with."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import gpu_report  # noqa: E402


def bench_row(**changes):
    return {"sparsifier": "topk", "n": 24_999_936, "row": 1024, "stride": 1, "density": 0.01, "data": "randn",
            "threads": 1, "phase": "steady", "seconds": 1e-4, "ratio": 1.1, **changes}


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.results = self.folder / "results.jsonl"

    def file(self, content, name="file"):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def run_report(self, command, *arguments):
        """The exit status and what was printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = gpu_report.main([command, str(self.results), *map(str, arguments)])
        return status or 0, out.getvalue()

    def lines(self):
        return [tuple(row[key] for key in gpu_report.COLUMNS) for row in gpu_report.read(self.results)]


class Table(ReportTest):
    def test_a_missed_bar_is_shown_and_no_failure(self):
        self.assertEqual(self.run_report("cpu", self.file([bench_row(ratio=1.51)]))[0], 0)
        status, text = self.run_report("table")
        self.assertEqual(status, 0)
        self.assertEqual([line.split() for line in text.splitlines()],
                         [["part", "what", "result", "bar", "met"],
                          ["cpu", "topk", "25M", "1", "%", "1", "threads", "1.51", "1.50", "no"]])

    def test_a_failed_part_fails_the_table(self):
        self.run_report("note", "nccl", "", "left out: no NCCL")
        self.assertEqual(self.run_report("table")[0], 0)
        _, text = self.run_report("end", "wire", 3, 7)
        self.assertEqual(text, "[gpu_check] wire failed after 7 s\n")
        status, text = self.run_report("table")
        self.assertEqual(status, 1)
        self.assertIn("FAIL: exit status 3, see above", text)

    def test_a_failure_has_one_line(self):
        self.run_report("repeat", "resnet50", "a", "a", "b")
        self.run_report("end", "repeat", 1, 7)
        self.assertEqual(self.lines(), [("repeat", "resnet50", "FAIL: a a b", "pass", "no")])

    def test_a_part_that_passed_adds_nothing(self):
        self.assertEqual(self.run_report("repeat", "resnet50", "a", "a", "a")[0], 0)
        _, text = self.run_report("end", "repeat", 0, 7)
        self.assertEqual(text, "[gpu_check] repeat is done after 7 s\n")
        self.assertEqual(self.lines(), [("repeat", "resnet50", "pass: a", "pass", "yes")])

    def test_nothing_measured_is_a_failure(self):
        self.assertEqual(self.run_report("table")[0], 1)

    def test_lines_of_a_part_stand_together(self):
        for part in ("tests", "laws", "tests"):
            self.run_report("note", part, "", "x")
        _, text = self.run_report("table")
        self.assertEqual([line.split()[0] for line in text.splitlines()[1:]], ["tests", "tests", "laws"])


class Suites(ReportTest):
    def result(self, command, *arguments):
        self.run_report(command, *arguments)
        return self.lines()[-1][2:]

    def test_counts_tests(self):
        log = self.file("[==========] 4 tests ran.\n[  PASSED  ] 3 tests.\n[  SKIPPED ] 1 test, listed below:\n")
        self.assertEqual(self.result("tests", "laws", "x", log, 0), ("pass: 3 tests, 1 skipped", "pass", "yes"))

    def test_shards_add_up(self):
        log = self.file("[  PASSED  ] 3 tests.\n[  SKIPPED ] 1 test, listed below:\n[  PASSED  ] 4 tests.\n")
        self.run_report("tests", "laws", "program", log, 0)
        self.assertEqual(self.lines(), [("laws", "program", "pass: 7 tests, 1 skipped", "pass", "yes")])

    def test_says_how_many_failed(self):
        log = self.file("[  PASSED  ] 3 tests.\n[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] A.B\n")
        self.assertEqual(self.result("tests", "laws", "x", log, 1), ("FAIL: 2 of 5 tests", "pass", "no"))

    def test_no_test_is_a_failure(self):
        log = self.file("[  PASSED  ] 0 tests.\n")
        self.assertEqual(self.result("tests", "laws", "x", log, 0), ("FAIL: no test ran", "pass", "no"))

    def test_says_how_a_crash_ended(self):
        self.assertEqual(self.result("tests", "laws", "x", self.file("one\ntwo\n"), 139),
                         ("FAIL: exit status 139, last line: two", "pass", "no"))

    def test_reads_both_sanitizers(self):
        log = self.file("========= ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 0 errors\n")
        self.assertEqual(self.result("sanitizer", "memcheck", log, 0),
                         ("pass: 2 runs without an error", "pass", "yes"))
        log = self.file("========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n")
        self.assertEqual(self.result("sanitizer", "racecheck", log, 1), ("FAIL: 1 errors", "pass", "no"))

    def test_a_sanitizer_without_time_neither_passes_nor_fails(self):
        self.assertEqual(self.result("sanitizer", "racecheck", self.file("="), 124),
                         ("ran out of time, nothing found until then", "pass", "no"))
        self.assertEqual(self.run_report("table")[0], 0)

    def test_a_sanitizer_without_time_tells_what_it_saw(self):
        log = self.file("========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n")
        self.assertEqual(self.result("sanitizer", "memcheck", log, 124),
                         ("FAIL: Invalid __global__ read of size 4 bytes", "pass", "no"))

    def test_a_sanitizer_of_no_test_fails(self):
        log = self.file("[  PASSED  ] 0 tests.\n========= ERROR SUMMARY: 0 errors\n")
        self.assertEqual(self.result("sanitizer", "memcheck", log, 0), ("FAIL: no test ran", "pass", "no"))

    def test_a_sanitizer_without_a_summary_fails(self):
        self.assertEqual(self.result("sanitizer", "memcheck", self.file("no device\n"), 0),
                         ("FAIL: exit status 0, last line: no device", "pass", "no"))


class Benches(ReportTest):
    def test_select_has_a_bar_for_each_kind(self):
        for changes, bar in (({}, 1.15), ({"sparsifier": "adtopk"}, 1.2), ({"sparsifier": "tile"}, 1.2),
                             ({"sparsifier": "adtopk", "row": 64}, 1.5), ({"sparsifier": "adtopk", "row": 768}, 1.2),
                             ({"sparsifier": "adtopk", "row": 64, "stride": 9}, 1.3), ({"data": "zeros"}, 3),
                             ({"sparsifier": "adtopk", "row": 0, "stride": 0, "model": "resnet50"}, 1.3)):
            self.assertEqual(gpu_report.select_bar(bench_row(**changes)), bar, changes)

    def test_select_shows_the_usual_and_the_worst(self):
        rows = [bench_row(phase="cold", ratio=9), bench_row(), bench_row(density=0.001, ratio=8),
                bench_row(sparsifier="adtopk", ratio=1.3), bench_row(sparsifier="dgc", ratio=1.4),
                bench_row(sparsifier="redsync", ratio=1.6), bench_row(sparsifier="threshold:value=8", ratio=1.5),
                bench_row(sparsifier="adtopk", row=64, ratio=1.4), bench_row(n=999_424, seconds=2e-5)]
        _, text = self.run_report("select", self.file(rows[:4], "a"), self.file(rows[4:], "b"))
        self.assertIn("topk 25M 0.1 %", text)
        self.assertEqual(self.lines(), [
            ("select", "topk 25M 1 %", "1.10", "1.15", "yes"),
            ("select", "adtopk 25M 1 %", "1.30", "1.20", "no"),
            ("select", "worst of others: redsync 25M 1 %", "1.60", "1.15", "no"),
            ("select", "worst of rows: adtopk rows 64 25M 1 %", "1.40", "1.50", "yes"),
            ("select", "topk 1M 1 %, us", "20", "15", "no")])

    def test_wire_takes_the_default_codec(self):
        row = {"codec": "auto", "n": 340_000_000, "density": 0.01, "encode_seconds": 5e-5, "decode_seconds": 3e-5,
               "encode_share": 0.06, "decode_share": 0.04}
        self.run_report("wire", self.file([row, {**row, "codec": "raw32"}]))
        self.assertEqual(self.lines(), [
            ("wire", "encode 340M 1 %, 50 us, share of select", "6.0%", "5.0%", "no"),
            ("wire", "decode 340M 1 %, 30 us, share of select", "4.0%", "5.0%", "yes")])

    def test_peers_has_a_bar_for_topk(self):
        row = {"method": "topk", "n": 110_000_000, "density": 0.01, "sluice_seconds": 4e-4, "torch_seconds": 2.8e-3,
               "speedup": 7.0}
        self.run_report("peers", self.file([row, {**row, "method": "adtopk"}]))
        self.assertEqual(self.lines(), [
            ("peers", "topk 110M 1 %, 0.400 / 2.800 ms of torch, times as fast", "7.0", "at least 7.0", "yes"),
            ("peers", "adtopk 110M 1 %, 0.400 / 2.800 ms of torch, times as fast", "7.0", "", "")])


class Training(ReportTest):
    def metrics(self, name, *steps):
        rows = [{"kind": "train", "samples_per_s": 1 / s, "step_s": s, "exposed_s": 0.25 * s, "bytes_per_step": 2e6}
                for s in steps]
        return self.file("\n".join(map(json.dumps, [*rows, {"kind": "eval"}])), name)

    def test_takes_the_second_half(self):
        self.assertEqual(gpu_report.means(self.metrics("a", 9, 9, 2, 4))["step_s"], 3)

    def test_a_run_without_lines_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"\[gpu_report\] .*a must have a line of training"):
            gpu_report.means(self.metrics("a"))

    def test_divides(self):
        fast, slow = self.metrics("a", 9, 0.02), self.metrics("b", 9, 0.04)
        self.run_report("dense", "m bf16", fast, "100")
        self.run_report("sparse", "m topk", slow, fast)
        self.run_report("net", "m topk 1Gbit", slow, fast)
        self.assertEqual(self.lines(), [
            ("dense", "m bf16 50 / 100 samples/s", "0.500", "at least 0.970", "no"),
            ("sparse", "m topk 40.0 / 20.0 ms of dense", "2.00", "1.03", "no"),
            ("net", "m topk 1Gbit 40.0 / 20.0 ms without network, 10.0 exposed, 2.00 MB sent", "2.00", "", "")])


if __name__ == "__main__":
    unittest.main()
