#!/usr/bin/env python3
"""Tests of tools/make_images."""

import gzip
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/make_images"


def png(side, grey):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([grey]) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class MakeImages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-images-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make(self, what, name="out", source="source"):
        command = [sys.executable, TOOL, what, "--out", self.folder / name, "--from", self.folder / source]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def write_fashion(self, count):
        source = self.folder / "source"
        source.mkdir()
        for split, n in (("train", 5 * count), ("t10k", count)):
            images = b"".join(bytes([i % 256]) * 784 for i in range(n))
            (source / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + images))
            labels = bytes(i % 10 for i in range(n))
            (source / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + labels))

    def test_images_are_as_cifar_has_them(self):
        self.write_fashion(6)
        self.assertEqual(self.make("cifar").returncode, 0)
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            data = (self.folder / "out" / name).read_bytes()
            self.assertEqual(len(data), 6 * 3073)
            self.assertTrue(all(data[i * 3073] < 10 for i in range(6)))
        # Label 7 is that of the second image of the second file; its middle is not its edge.
        second = (self.folder / "out" / "data_batch_2.bin").read_bytes()
        self.assertEqual(second[3073], 7)
        self.assertNotEqual(second[3074], second[3074 + 16 * 32 + 16])

    def test_same_input_same_files(self):
        self.write_fashion(2)
        self.make("cifar", "a")
        self.make("cifar", "b")
        for path in (self.folder / "a").iterdir():
            self.assertEqual(path.read_bytes(), (self.folder / "b" / path.name).read_bytes())

    def test_icons_of_one_name_are_on_one_side(self):
        for kind in ("actions", "apps", "rare"):
            for size in (22, 32):
                folder = self.folder / "source" / "theme" / f"{size}x{size}" / kind
                folder.mkdir(parents=True)
                for i in range(5 if kind == "rare" else 60):
                    (folder / f"icon{i}.png").write_bytes(png(size, i))
                (folder / "link.png").symlink_to("icon0.png")
        done = self.make("icons")
        self.assertEqual(done.returncode, 0, done.stderr)
        sides = {s: {p.name.split("-")[0] for p in (self.folder / "out" / s).glob("*/*.png")} for s in ("train", "val")}
        self.assertFalse(sides["train"] & sides["val"])
        self.assertEqual(len(sides["train"] | sides["val"]), 60)
        self.assertEqual({p.name for p in (self.folder / "out" / "train").iterdir()}, {"actions", "apps"})

    def test_says_what_is_missing(self):
        (self.folder / "source").mkdir()
        for what, package in (("cifar", "dataset-fashion-mnist"), ("icons", "oxygen-icon-theme")):
            done = self.make(what, what)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"apt-get install {package}", done.stderr)
        (self.folder / "full").mkdir()
        (self.folder / "full" / "file").touch()
        self.assertIn("new or empty", self.make("cifar", "full").stderr)

    def test_files_that_are_no_images(self):
        self.write_fashion(2)
        (self.folder / "source" / "train-images-idx3-ubyte.gz").write_bytes(b"no gzip")
        self.assertIn("must be a file of gzip", self.make("cifar").stderr)
        (self.folder / "source" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(100)))
        self.assertIn("do not fit", self.make("cifar", "b").stderr)


if __name__ == "__main__":
    unittest.main()
