#!/usr/bin/env python3
"""Tests of `sluice data vocab` and `sluice bench text`.

Run as: python3 tests/cli/text_test.py PATH_TO_SLUICE [unittest options]
"""

import json

from harness import CliTest, main

TEXT = ("It was low, lower, the lowest; and they'd say so.\n" * 40).encode()


class Vocab(CliTest):
    def make(self, *args, text=TEXT):
        path = self.write(text, "book.txt")
        return self.ok("data", "vocab", "--out", self.folder / "out", *args, path)

    def test_bpe(self):
        said = self.make("--kind", "bpe", "--size", "270")
        self.assertIn("270 tokens", said)
        vocab = json.loads((self.folder / "out/vocab.json").read_text(encoding="utf-8"))
        self.assertEqual(sorted(vocab.values()), list(range(270)))
        self.assertEqual(vocab["<|endoftext|>"], 269)
        merges = (self.folder / "out/merges.txt").read_text(encoding="utf-8").splitlines()
        self.assertEqual(merges[0], "#version: 0.2")
        self.assertEqual(len(merges), 1 + 270 - 257)

    def test_wordpiece(self):
        self.make("--kind", "wordpiece", "--size", "60")
        words = (self.folder / "out/vocab.txt").read_text(encoding="utf-8").splitlines()
        self.assertEqual(words[:5], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
        self.assertIn("low", words)
        self.assertNotIn("I", words)
        self.make("--kind", "wordpiece", "--size", "60", "--cased")
        self.assertIn("I", (self.folder / "out/vocab.txt").read_text(encoding="utf-8").splitlines())

    def test_is_the_same_twice(self):
        self.make("--size", "280")
        first = (self.folder / "out/merges.txt").read_bytes()
        self.make("--size", "280")
        self.assertEqual((self.folder / "out/merges.txt").read_bytes(), first)

    def test_says_when_nothing_is_left_to_merge(self):
        self.assertIn("nothing more to merge: 258 tokens of the 400 asked for", self.make("--size", "400", text=b"ab"))

    def test_bad_input(self):
        out = ("--out", self.folder / "out")
        empty = self.write(b"", "empty.txt")
        bad = self.write(b"fine\n\xff\n", "bad.txt")
        good = self.write(TEXT, "good.txt")
        self.fails("data", "vocab", *out, empty, says="[vocab] the files must hold words, hold none")
        self.fails("data", "vocab", *out, bad, says="must be UTF-8, line 2 (byte 5 of the file) is not; convert it")
        self.fails("data", "vocab", *out, self.folder / "none", says="must be a file that can be read")
        self.fails("data", "vocab", *out, "--size", "256", good, says="must have from 257")
        self.fails("data", "vocab", *out, "--kind", "wordpiece", "--size", "9", good, says="its characters and 5 special")
        self.fails("data", "vocab", *out, "--cased", good, says="--cased is for --kind wordpiece")
        self.fails("data", "vocab", *out, "--kind", "words", good, says="bpe,wordpiece")
        self.fails("data", "vocab", "--out", good, good, says="must be a folder that can be made")
        self.assertFalse((self.folder / "out").exists())


class BenchText(CliTest):
    def test_rows(self):
        path = self.write(TEXT, "book.txt")
        rows = self.rows("bench", "text", "--file", path, "--size", "300", "--rounds", "2")
        self.assertEqual([row["what"] for row in rows],
                         ["floor: sum of bytes", "utf-8 check", "byte", "word", "bpe", "wordpiece",
                          "wordpiece with places"])
        by_name = {row["what"]: row for row in rows}
        self.assertEqual(by_name["byte"]["tokens"], len(TEXT))
        self.assertEqual(by_name["wordpiece"]["tokens"], by_name["wordpiece with places"]["tokens"])

    def test_bad_input(self):
        short = self.write(b"short", "short.txt")
        self.fails("bench", "text", "--file", short, says="must have 1000 bytes or more, has 5")


if __name__ == "__main__":
    main()
