#!/usr/bin/env python3
"""Tests of gradients from .npy files.

Run as: python3 tests/cli/npy_test.py PATH_TO_SLUICE [unittest options]
"""

import os
import random
import struct

from harness import CliTest, SELECT, WIRE, main


def npy(shape, values, fortran="False", descr="'<f4'", version=1, header=None, header_length=None, magic=b"\x93NUMPY"):
    """A .npy file, sound by default. `values`: floats, or the bytes to put there."""
    text = (header or f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}") + "\n"
    length = len(text) if header_length is None else header_length
    body = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}f", *values)
    return magic + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", length) + text.encode() + body


def normals(n):
    rng = random.Random(1)
    return [rng.gauss(0, 1) for _ in range(n)]


class Npy(CliTest):

    def select(self, content, **how):
        return self.rows(*SELECT, "--data", self.write(content), **how)[0]

    def test_shapes(self):
        cases = {(6000,): (6000, 1), (60, 100): (100, 1), (10, 20, 5): (20, 5), (8, 20, 3, 3): (20, 9),
                 (2, 3, 4, 5, 6): (3, 120)}
        for shape, (row, stride) in cases.items():
            n = 1
            for d in shape:
                n *= d
            for fortran in ("False", "True"):
                for version in (1, 2, 3):
                    with self.subTest(shape=shape, fortran=fortran, version=version):
                        got = self.select(npy(shape, normals(n), fortran, version=version))
                        self.assertEqual((got["n"], got["row"], got["stride"]), (n, row, stride))
                        self.assertEqual(got["k"], n // 100)
                        self.assertEqual(got["k_hat"], n // 100)

    def test_wire(self):
        rows = self.rows(*WIRE, "--data", self.write(npy((100, 60), normals(6000))))
        self.assertEqual({row["entries"] for row in rows}, {60})

    def test_size_comes_from_the_file(self):
        path = self.write(npy((5000,), normals(5000)))
        self.assertEqual(self.rows(*SELECT, "--n", "20000", "--data", path)[0]["n"], 5000)

    def test_fortran_order_is_the_transpose(self):
        # Row r of 50 holds r + 1 ones: 'threshold' selects by value alone, and
        # the bytes of its positions tell one order from the other.
        rows, columns = 50, 64
        matrix = [[1.0 if c <= r else 0.0 for c in range(columns)] for r in range(rows)]
        by_row = [matrix[r][c] for r in range(rows) for c in range(columns)]
        by_column = [matrix[r][c] for c in range(columns) for r in range(rows)]
        args = ("bench", "select", "--steps", "1", "--sparsifier", "threshold:value=0.2,cap=0", "--density", "0.5",
                "--feedback", "none", "--codec", "bitpack", "--data")
        shape = (rows, columns)
        c_order = self.rows(*args, self.write(npy(shape, by_row)))[0]["bytes"]
        f_order = self.rows(*args, self.write(npy(shape, by_column, "True")))[0]["bytes"]
        misread = self.rows(*args, self.write(npy(shape, by_column)))[0]["bytes"]
        self.assertNotEqual(c_order, misread, "the test can tell")
        self.assertEqual(c_order, f_order)

    def test_non_finite_values_are_never_selected(self):
        values = normals(5000)
        values[7] = float("nan")
        values[8] = float("inf")
        self.assertEqual(self.select(npy((5000,), values))["k_hat"], 50)

    def test_bad_files(self):
        good = normals(1000)
        sound = npy((1000,), good)
        overflow = f"({2**32}, {2**32}, {2**32})"
        cases = {
            "empty": (b"", ("must be a .npy file",)),
            "text": (b"1.0 2.0 3.0 4.0\n" * 10, ("must be a .npy file", "numpy.save")),
            "magic only": (sound[:6], ("must be a .npy file",)),
            "inside the length": (sound[:9], ("header",)),
            "inside the header": (sound[:40], ("header",)),
            "no data": (sound[:-4000], ("1000 float32 values", "got 0 bytes")),
            "truncated": (sound[:-100], ("1000 float32 values", "got 3900 bytes", "truncated")),
            "truncated inside a value": (sound[:-1], ("1000 float32 values", "got 3999 bytes", "truncated")),
            "a value too many": (sound + b"abcd", ("1000 float32 values", "got 4004 bytes")),
            "bytes too many": (sound + b"abc", ("1000 float32 values", "got 4003 bytes")),
            "float64": (npy((1000,), struct.pack("<1000d", *good), descr="'<f8'"), ("float32", "<f8", "astype")),
            "float16": (npy((1000,), bytes(2000), descr="'<f2'"), ("float32", "<f2", "astype")),
            "integers": (npy((1000,), bytes(4000), descr="'<i4'"), ("float32", "<i4")),
            "big-endian": (npy((1000,), struct.pack(">1000f", *good), descr="'>f4'"),
                           ("little-endian", ">f4", "astype")),
            "a record": (npy((1000,), good, descr="[('a', '<f4')]"), ("float32",)),
            "absurd header length": (npy((1000,), good, version=2, header_length=2**32 - 1), ("header", "below 1 MiB")),
            "header longer than the file": (npy((10,), good[:10], header_length=2**16 - 1),
                                            ("ends inside its header",)),
            "shape overflow": (npy(overflow, good), ("at most 2^40",)),
            "number overflow": (npy("(99999999999999999999999,)", good), ("too large",)),
            "byte overflow": (npy(f"({2**62},)", good), ("too large",)),
            "huge": (npy(f"({10**12},)", good), (str(10**12), "got 4000 bytes")),
            "negative": (npy("(-5,)", good), ("tuple of numbers", "(-5,)")),
            "no numbers": (npy("(a, b)", good), ("tuple of numbers",)),
            "too many dimensions": (npy("(1, 1, 1, 1, 1, 1, 1, 1, 1, 10)", good[:10]),
                                    ("at most 8 dimensions", "got 10")),
            "version 9": (npy((1000,), good, version=9), ("format 1 to 3", "got 9")),
            "version 200": (npy((1000,), good, version=200), ("format 1 to 3", "got 200")),
            "no shape": (npy((), good, header="{'descr': '<f4', 'fortran_order': False, }"), ("'shape'",)),
            "no order": (npy((), good, header="{'descr': '<f4', 'shape': (1000,), }"), ("'fortran_order'",)),
            "open shape": (npy("(1000", good), ("complete",)),
            "unknown order": (npy((1000,), good, fortran="maybe"), ("fortran_order", "maybe")),
            "nothing in it": (npy((0,), b""), ("at least 1",)),
        }
        for name, (content, says) in cases.items():
            for command in (SELECT, WIRE):
                with self.subTest(file=name, command=command[1]):
                    self.fails(*command, "--data", self.write(content), says=says)

    def test_every_error_names_the_file(self):
        for shape in (f"({2**32}, {2**32}, {2**32})", "(5,)", "(-1,)", "(1, 1, 1, 1, 1, 1, 1, 1, 1, 10)"):
            with self.subTest(shape=shape):
                path = self.write(npy(shape, normals(10)), "named.npy")
                self.fails(*SELECT, "--data", path, says="named.npy")

    def test_extra_bytes_are_not_called_truncated(self):
        path = self.write(npy((1000,), normals(1000)) + b"abcd")
        self.assertNotIn("truncated", self.fails(*SELECT, "--data", path))

    def test_missing(self):
        self.fails(*SELECT, "--data", self.folder / "missing.npy", says=("cannot open", "missing.npy"))

    def test_directory(self):
        path = self.folder / "folder.npy"
        path.mkdir()
        self.fails(*SELECT, "--data", path, says=("folder.npy", "directory"))

    def test_pipe(self):
        path = self.folder / "pipe.npy"
        os.mkfifo(path)
        self.fails(*SELECT, "--data", path, says=("pipe.npy", "it is a pipe"))

    def test_unreadable(self):
        path = self.write(npy((1000,), normals(1000)))
        path.chmod(0)
        if os.access(path, os.R_OK):
            self.skipTest("this user reads every file")
        self.fails(*SELECT, "--data", path, says="cannot open")


if __name__ == "__main__":
    main()
