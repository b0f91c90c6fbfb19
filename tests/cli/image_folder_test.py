#!/usr/bin/env python3
"""Tests of `sluice train` and `sluice bench data` on folders of images.

Run as: python3 tests/cli/image_folder_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

from harness import SLUICE, RunTest, main

JOB = ("--model", "logistic", "--dataset", "imagefolder:size=16", "--batch-size", 4, "--workers", 2, "--engine",
       "threads", "--collective", "sparcml-split", "--dense-collective", "dense:by=ring")


def png(width, height, colour):
    """An RGB image; colour(x, y) is a triple of bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(c for x in range(width) for c in colour(x, y)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class ImageFolderTest(RunTest):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        for split, count in (("train", 20), ("val", 6)):
            for c, name in enumerate(("dark", "light")):
                (self.data / split / name).mkdir(parents=True)
                for i in range(count):
                    image = png(20 + i, 30 - i, lambda x, y, c=c, i=i: (100 * c + 3 * x, 100 * c + 3 * y, 100 * c + i))
                    (self.data / split / name / f"{i:03}.png").write_bytes(image)

    def command(self, *args):
        return [SLUICE, *map(str, args)]

    def train(self, *args, job=JOB):
        done = self.run_program("train", *job, "--data-dir", self.data, *args, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_learns(self):
        done, _ = self.train("--epochs", 20, "--lr", "0.02", "--out", "a")
        self.assertGreater(done["eval_accuracy"], 0.9)
        self.assertEqual(done["replaced"], 0)

    def test_the_example_trains_and_goes_on(self):
        example = Path(__file__).resolve().parents[2] / "examples/photographs/train"
        env = {**os.environ, "SLUICE": SLUICE, "OUT": "photographs"}
        for epochs in (1, 2):
            command = [example, self.data, *map(str, JOB), "--epochs", str(epochs)]
            done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dark (20), light (20)", done.stdout + done.stderr)
        self.assertTrue((self.folder / "photographs" / "report.html").exists())
        steps = json.loads((self.folder / "photographs" / "summary.json").read_text())["steps"]
        self.assertEqual(steps, 10)  # 40 images, 8 a step, twice
        done = subprocess.run([example, self.folder], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("must have train/CLASS/ and val/CLASS/", done.stderr)

    def test_threads_and_prefetch_change_nothing(self):
        weights = {self.train("--max-steps", 12, "--out", f"{threads}-{ahead}", "--data-threads", threads, "--prefetch",
                              ahead)[0]["weights"]
                   for threads, ahead in ((0, 2), (1, 0), (1, 7), (3, 1), (4, 3))}
        self.assertEqual(len(weights), 1)

    def test_resumes_with_the_same_bits(self):
        # A schedule that ends with the run would differ between the parts.
        job = (*JOB, "--lr-schedule", "constant")
        whole, _ = self.train("--max-steps", 13, "--out", "whole", job=job)
        self.train("--max-steps", 6, "--out", "part", "--data-threads", 3, "--prefetch", 5, job=job)
        rest, _ = self.train("--resume", "part", "--max-steps", 13, "--data-threads", 2, "--prefetch", 3, job=job)
        self.assertEqual(rest["steps"], 13)
        self.assertEqual(rest["weights"], whole["weights"])

    def test_broken_image_stops(self):
        (self.data / "train/dark/007.png").write_bytes(b"")
        done = self.run_program("train", *JOB, "--data-dir", self.data, "--epochs", 1, "--timeout", 5, "--out", "a")
        self.assertEqual(done.returncode, 1)
        self.assertIn("train/dark/007.png' must be a whole JPEG or PNG image, but: it is empty; replace it", done.stderr)

    def test_goes_on_past_a_broken_image(self):
        self.train("--max-steps", 2, "--out", "a")
        (self.data / "train/dark/007.png").write_bytes(b"")
        job = ["imagefolder:size=16,broken=skip" if str(a).startswith("imagefolder") else a for a in JOB]
        done, _ = self.train("--resume", "a", "--max-steps", 10, job=job)
        self.assertEqual(done["steps"], 10)
        self.assertGreaterEqual(done["replaced"], 1)
        other = ["imagefolder:size=20" if str(a).startswith("imagefolder") else a for a in JOB]
        self.fails("train", *other, "--data-dir", self.data, "--resume", "a", "--epochs", 1,
                   says="--dataset must be that of the checkpoint")

    def test_data_differ(self):
        """Each rank finds its own folder under the same name."""
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun here")
        shutil.copytree(self.data, self.folder / "other/data")
        (self.folder / "other/data/train/dark/new.png").write_bytes(png(9, 9, lambda x, y: (x, y, 0)))
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        job = ["train", "--model", "logistic", "--dataset", "imagefolder:size=16", "--data-dir", "data", "--batch-size",
               "4", "--max-steps", "2", "--out", self.folder / "a"]
        one = ["-n", "1", "--wdir"]
        done = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", *one, self.folder, SLUICE, *job, ":",
                               *one, self.folder / "other", SLUICE, *job],
                              env=env, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=80)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 has other files or labels than rank 0 under 'data'", done.stderr)
        self.assertFalse((self.folder / "a").exists())

    def test_broken_images_are_counted(self):
        for path in ("train/dark/007.png", "val/light/002.png"):
            file = self.data / path
            file.write_bytes(file.read_bytes()[:60])
        job = ["imagefolder:size=16,broken=skip" if str(a).startswith("imagefolder") else a for a in JOB]
        done, log = self.train("--epochs", 3, "--out", "a", job=job)
        # Once in each epoch, whichever worker has it.
        self.assertEqual(done["replaced"], 3)
        self.assertIn("a sample cannot be read on rank", log)
        self.assertIn("train/dark/007.png': it was cut short", log)
        self.assertIn("1 images that cannot be read were replaced", log)
        rows = [json.loads(line) for line in (self.folder / "a/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(sum(row["replaced"] for row in rows if row["kind"] == "train"), 3)
        self.assertEqual({row["replaced"] for row in rows if row["kind"] == "eval"}, {1})

    def test_bombs(self):
        """Few bytes that would take gigabytes: a small PNG of many pixels, a file that is one long hole."""
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        side = 16384
        header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
        (self.data / "train/dark/003.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(side * (1 + side // 8))))
            + chunk(b"IEND", b""))
        done = self.run_program("train", *JOB, "--data-dir", self.data, "--epochs", 1, "--timeout", 5, "--out", "a")
        self.assertEqual(done.returncode, 1)
        self.assertIn("003.png' must be a whole JPEG or PNG image, but: it says that it has 16384 x 16384 pixels",
                      done.stderr)
        with open(self.data / "train/light/004.jpg", "wb") as hole:
            hole.truncate(6 << 30)
        job = ["imagefolder:size=16,broken=skip" if str(a).startswith("imagefolder") else a for a in JOB]
        done, log = self.train("--epochs", 2, "--out", "b", job=job)
        self.assertEqual(done["replaced"], 4)
        self.assertRegex(log, "at most (100000000|268435456) may be")  # whichever comes first

    def test_wrong_layout(self):
        done = self.run_program("train", *JOB, "--data-dir", self.data / "train", "--out", "a")
        self.assertEqual(done.returncode, 1)
        self.assertIn("must hold a folder val, holds dark, light; expected are train/CLASS/*.jpg", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_bench(self):
        done = self.run_program("bench", "data", "--images", 16, "--width", 96, "--height", 64, "--batch-size", 2,
                                "--rounds", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual([row["threads"] for row in rows], [1] * 4 + [2] * 4)
        for row in rows:
            self.assertEqual(row["images"], 16)
            self.assertGreater(row["samples_per_core_s"], 0)
        for args, says in ((("--data-dir", self.data), "must hold JPEG files"), (("--quality", 101), "from 1 to 100"),
                           (("--dataset", "mnist", "--data-dir", self.data), "[dataset 'mnist']")):
            done = self.run_program("bench", "data", *args)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    main()
