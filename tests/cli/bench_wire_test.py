#!/usr/bin/env python3
"""Tests of `sluice bench wire`.

Run as: python3 tests/cli/bench_wire_test.py PATH_TO_SLUICE [unittest options]
"""

import csv
import io

from harness import CliTest, WIRE, main


class BenchWire(CliTest):
    KEYS = {"codec", "form", "values", "n", "density", "entries", "bytes", "index_bits", "entropy_bits",
            "bits_per_entry", "select_seconds", "encode_seconds", "decode_seconds", "encode_ns", "decode_ns", "device"}

    def test_rows(self):
        rows = self.rows("bench", "wire", "--n", "100k", "--density", "0.01,0.1", "--steps", "2")
        for row in rows:
            self.assertLessEqual(self.KEYS, set(row))
            self.assertEqual(row["entries"], int(row["density"] * row["n"]))
            self.assertGreater(row["bits_per_entry"], 0)
            self.assertTrue(row["device"].startswith("cpu/"))
        self.assertEqual({row["density"] for row in rows}, {0.01, 0.1})
        for density in (0.01, 0.1):
            some = {row["codec"]: row for row in rows if row["density"] == density}
            self.assertLessEqual({"auto", "elias-fano", "bitpack", "bitmap", "raw32"}, set(some))
            smallest = min(row["bytes"] for row in some.values() if row["values"] == "fp32")
            self.assertEqual(some["auto"]["bytes"], smallest)

    def test_rows_form_for_row_sparsifiers(self):
        rows = self.rows(*WIRE, "--n", "100k", "--sparsifier", "adtopk")
        self.assertIn("rows", {row["codec"] for row in rows})

    def test_csv_and_table(self):
        args = (*WIRE, "--n", "20000")
        count = len(self.rows(*args))
        table = list(csv.reader(io.StringIO(self.ok(*args, "--csv"))))
        self.assertEqual(len(table), 1 + count)
        self.assertEqual({len(line) for line in table}, {len(table[0])})
        lines = self.ok(*args).splitlines()
        self.assertEqual(len({len(line) for line in lines[:1 + count]}), 1, "columns are aligned")
        self.assertTrue(lines[1 + count].startswith("form, values: "), "then comes the legend")


if __name__ == "__main__":
    main()
