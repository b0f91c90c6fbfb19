#!/usr/bin/env python3
"""Tests of tools/make_questions."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/make_questions"


class MakeQuestions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-questions-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_on(self, text, name="out"):
        path = self.folder / "text.txt"
        path.write_bytes(text)
        return subprocess.run([sys.executable, TOOL, path, "--out", self.folder / name], capture_output=True, text=True,
                              timeout=60)

    def text(self):
        return "".join(f"Ge1:{i} And it came to pass that Abram{chr(97 + i % 26)} went to the city of Ur, and dwelt "
                       f"there {i} days and nights.\n" for i in range(400)).encode()

    def test_answers_stand_where_they_say(self):
        self.assertEqual(self.run_on(self.text()).returncode, 0)
        ids = set()
        for part in ("train", "dev"):
            data = json.loads((self.folder / f"out/{part}-v1.1.json").read_text(encoding="utf-8"))
            for paragraph in data["data"][0]["paragraphs"]:
                self.assertNotIn("Ge1:", paragraph["context"])
                for qa in paragraph["qas"]:
                    self.assertNotIn(qa["id"], ids)
                    ids.add(qa["id"])
                    for answer in qa["answers"]:
                        self.assertTrue(paragraph["context"][answer["answer_start"]:].startswith(answer["text"]))

    def test_is_the_same_twice(self):
        self.run_on(self.text(), "a")
        self.run_on(self.text(), "b")
        for part in ("train", "dev"):
            name = f"{part}-v1.1.json"
            self.assertEqual((self.folder / "a" / name).read_bytes(), (self.folder / "b" / name).read_bytes())

    def test_bad_input(self):
        self.assertIn("[make_questions] the text must give questions", self.run_on(b"nothing\n").stderr)
        self.assertIn("must be UTF-8, byte 0 is not", self.run_on(b"\xff").stderr)


if __name__ == "__main__":
    unittest.main()
