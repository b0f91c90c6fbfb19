#!/usr/bin/env python3
"""Tests of training on texts, questions and speech, and of models that come and go.

Run as: python3 tests/cli/tasks_test.py PATH_TO_SLUICE [unittest options]
"""

import array
import json
import math
import random
import subprocess

from harness import SLUICE, RunTest, main

LSTM = "lstm:hidden=24,dropout=0.2"
GPT2 = "gpt2:layers=1,width=32,heads=2,context=32"
# Of one thread each, and by a plan that nothing changes: bits can be compared.
FIXED = ("--engine", "threads", "--threads", 1, "--plan", "size=1M", "--density", 0.1)


class TaskTest(RunTest):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "book"
        self.text.mkdir()
        source = random.Random(5)
        words = [f"word{source.randrange(40)}" for _ in range(12000)]
        lines = [" ".join(words[i:i + 12]) for i in range(0, len(words), 12)]
        (self.text / "text.txt").write_text("\n".join(lines) + "\n")

    def train(self, *args):
        done = self.run_program(*FIXED, "--data-dir", self.text, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout + done.stderr

    def other(self, *args, rc=0):
        done = subprocess.run([SLUICE, *map(str, args)], cwd=self.folder, capture_output=True, text=True,
                              timeout=80, check=False)
        self.assertEqual(done.returncode, rc, done.stderr)
        return done.stdout if rc == 0 else done.stderr

    def summary(self, run):
        return json.loads((self.folder / run / "summary.json").read_text())


class Language(TaskTest):
    DATA = ("--dataset", "text:file=text.txt", "--length", 10, "--batch-size", 4)

    def test_learns_and_tells_perplexity(self):
        text = self.train("--model", LSTM, *self.DATA, "--workers", 2, "--epochs", 1, "--out", "a")
        self.assertIn("tokens/s", text)
        self.assertIn("perplexity", text)
        done = self.summary("a")
        self.assertAlmostEqual(done["eval_perplexity"], math.exp(done["eval_loss"]), delta=0.01)
        # 40 words and the end of a line.
        self.assertLess(done["eval_perplexity"], 45)
        lines = [json.loads(line) for line in (self.folder / "a" / "metrics.jsonl").read_text().splitlines()]
        self.assertTrue(all("perplexity" in line for line in lines))

    def test_a_resumed_run_carries_the_state(self):
        job = ("--model", LSTM, *self.DATA, "--workers", 2, "--eval-every", 0, "--lr-schedule", "constant")
        self.train(*job, "--max-steps", 12, "--out", "through")
        self.train(*job, "--max-steps", 7, "--out", "halves")
        self.train("--resume", "halves", *job, "--max-steps", 12, "--out", "halves")
        self.assertEqual(self.summary("halves")["weights"], self.summary("through")["weights"])

    def test_any_ranks_evaluate_every_token_once(self):
        for model in (LSTM, GPT2):
            self.train("--model", model, *self.DATA, "--workers", 3, "--max-steps", 8, "--out", "a", "--overwrite")
            one = json.loads(self.other("evaluate", "a", "--json"))
            self.assertAlmostEqual(one["loss"], self.summary("a")["eval_loss"], delta=1e-5)

    # With both parts swapped, the one is the other. Lines are of one length, so that cuts fall alike.
    def test_evaluates_either_part(self):
        source = random.Random(6)
        lines = [" ".join(f"w{source.randrange(30):02}" for _ in range(9)) + "\n" for _ in range(1000)]
        (self.text / "a.txt").write_text("".join(lines))
        (self.text / "b.txt").write_text("".join(lines[:900] + lines[950:] + lines[900:950]))
        for tokens, score in (("word", "perplexity"), ("byte", "bits_per_byte")):
            data = [f"text:file={name}.txt,tokens={tokens}" for name in "ab"]
            self.train("--model", LSTM, "--dataset", data[0], "--length", 10, "--batch-size", 4, "--workers", 1,
                       "--max-steps", 5, "--out", "a", "--overwrite")
            told = {(name, split): json.loads(self.other("evaluate", "a", "--dataset", where, "--json", *split))
                    for name, where in zip("ab", data) for split in ((), ("--split", "valid"), ("--split", "test"))}
            for name, other in ("ab", "ba"):
                self.assertEqual(told[name, ()], told[name, ("--split", "valid")])
                self.assertEqual(told[name, ()]["split"], "valid")
                test = told[other, ("--split", "test")]
                self.assertEqual(test["split"], "test")
                for key in ("loss", "samples", score):
                    self.assertEqual(told[name, ()][key], test[key])
            self.assertNotEqual(told["a", ()]["loss"], told["b", ()]["loss"])
        self.assertIn("tokens of test: loss", self.other("evaluate", "a", "--split", "test"))

    def test_bytes_are_scored_by_bits(self):
        self.train("--model", GPT2, "--dataset", "text:file=text.txt,tokens=byte", "--length", 16, "--workers", 1,
                   "--max-steps", 20, "--out", "a")
        done = self.summary("a")
        self.assertAlmostEqual(done["eval_bits_per_byte"], done["eval_loss"] / math.log(2), delta=1e-4)
        self.assertLess(done["eval_bits_per_byte"], 8)

    # With steps of other workers, the schedule once ended before the run did.
    def test_other_workers_go_on_with_the_rate(self):
        job = ("--model", LSTM, *self.DATA, "--eval-every", 0, "--log-every", 1)
        self.train(*job, "--workers", 2, "--max-steps", 6, "--out", "a")
        self.train("--resume", "a", *job, "--workers", 1, "--max-steps", 9, "--out", "a")
        lines = [json.loads(line) for line in (self.folder / "a" / "metrics.jsonl").read_text().splitlines()]
        rates = {line["step"]: line["lr"] for line in lines}
        self.assertGreater(rates[8], 0)

    def test_says_what_does_not_fit(self):
        self.fails(*FIXED, "--data-dir", self.text, "--model", "bert-base:layers=1,width=16,heads=2", *self.DATA,
                   "--out", "a", says="these data need a language model, such as lstm")
        self.fails(*FIXED, "--model", "mlp", "--dataset", "synthetic", "--length", 5, "--out", "a",
                   says="--length is for texts")
        self.fails(*FIXED, "--data-dir", self.text, "--model", "resnet20", *self.DATA, "--out", "a",
                   says="model 'resnet20'] takes images")
        self.fails(*FIXED, "--data-dir", self.text, "--model", GPT2, "--dataset", "text:file=text.txt", "--length",
                   33, "--out", "a", says="33")
        self.fails(*FIXED, "--data-dir", self.text, "--model", LSTM, "--dataset", "text:file=text.txt", "--length", 10,
                   "--batch-size", 5000, "--out", "a", says="too short")


class Questions(TaskTest):
    MODEL = ("--model", "bert-base:layers=1,width=16,heads=2,dropout=0", "--dataset", "squad:stride=8,query=8",
             "--length", 32, "--batch-size", 4, "--data-dir", "asked")

    def setUp(self):
        super().setUp()
        folder = self.folder / "asked"
        folder.mkdir()
        names = ["anna", "otto", "hannah", "bob"]
        words = ["who", "has", "the", "hat", "?", "."]
        (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *names, *words]))
        source = random.Random(3)

        def ask(count, part):
            paragraphs = []
            for i in range(count):
                name = source.choice(names)
                context = f"the hat . the hat . {name} has the hat ."
                answer = {"text": name, "answer_start": context.index(name)}
                paragraphs.append({"context": context, "qas": [
                    {"id": f"{part}{i}", "question": "who has the hat ?", "answers": [answer]}]})
            return {"version": "1.1", "data": [{"title": part, "paragraphs": paragraphs}]}

        (folder / "train-v1.1.json").write_text(json.dumps(ask(60, "train")))
        (folder / "dev-v1.1.json").write_text(json.dumps(ask(11, "dev")))

    def test_learns_where_the_answer_stands(self):
        text = self.train(*self.MODEL, "--workers", 2, "--max-steps", 60, "--lr", 0.01, "--out", "a")
        self.assertIn("windows/s", text)
        done = self.summary("a")
        self.assertGreater(done["eval_f1"], 0.9)
        self.assertGreater(done["eval_exact_match"], 0.9)

    def test_any_ranks_ask_every_question_once(self):
        self.train(*self.MODEL, "--workers", 3, "--max-steps", 4, "--out", "a")
        self.assertIn("--split must be test for data set 'squad", self.other("evaluate", "a", "--split", "dev", rc=1))
        one = json.loads(self.other("evaluate", "a", "--json"))
        for score in ("loss", "f1", "exact_match"):
            self.assertAlmostEqual(one[score], self.summary("a")["eval_" + score], delta=1e-5)

    def test_says_which_files_it_wants(self):
        without = [a for a in self.MODEL if a not in ("--data-dir", "asked")]
        self.fails(*FIXED, *without, "--out", "a", says="train-v1.1.json")
        (self.folder / "asked" / "dev-v1.1.json").write_text("{")
        self.fails(*FIXED, *self.MODEL, "--out", "a", says="dev-v1.1.json")


class Speech(TaskTest):
    MODEL = ("--model", "deepspeech:width=16,layers=1", "--dataset", "an4:cache=none", "--batch-size", 2, "--data-dir",
             "said", "--lr", 1e-3)

    def setUp(self):
        super().setUp()
        folder = self.folder / "said"
        folder.mkdir()
        source = random.Random(4)
        for part, count in (("train", 8), ("val", 5)):
            lines = []
            for i in range(count):
                samples = array.array("h", [source.randrange(-9000, 9000) for _ in range(12000 + 900 * i)])
                (folder / f"{part}{i}.raw").write_bytes(samples.tobytes())
                (folder / f"{part}{i}.txt").write_text(source.choice(["YES", "NO", "GO ON"]))
                lines.append(f"{part}{i}.raw,{part}{i}.txt")
            (folder / f"an4_{part}_manifest.csv").write_text("\n".join(lines) + "\n")

    def test_trains_and_tells_four_rates(self):
        text = self.train(*self.MODEL, "--workers", 2, "--max-steps", 4, "--out", "a")
        self.assertIn("clips/s", text)
        done = self.summary("a")
        for score in ("wer", "cer", "corpus_wer", "corpus_cer"):
            self.assertGreaterEqual(done["eval_" + score], 0)
        one = json.loads(self.other("evaluate", "a", "--json"))
        for score in ("loss", "wer", "corpus_cer"):
            self.assertAlmostEqual(one[score], done["eval_" + score], delta=1e-4 * (1 + one[score]))

    def test_names_what_cannot_be_fitted(self):
        (self.folder / "said" / "train0.txt").write_text("YES " * 40)
        self.fails(*FIXED, *self.MODEL, "--out", "a", says=("train0.raw", "frames"))
        (self.folder / "said" / "train0.txt").write_text("Ja, bitte: 3 \u00c4pfel")
        self.fails(*FIXED, *self.MODEL, "--out", "a", says="train0")
        (self.folder / "said" / "train0.txt").write_text("YES")
        (self.folder / "said" / "train0.raw").write_bytes(b"")
        self.fails(*FIXED, *self.MODEL, "--out", "a", says="train0.raw")


class Compare(TaskTest):
    COMMAND = "compare"

    def test_less_perplexity_is_better(self):
        done = self.run_program("--out", "c", "--methods", "dense,topk", "--densities", 0.1, "--", *FIXED[:-2],
                                "--model", LSTM, *Language.DATA, "--data-dir", self.text, "--workers", 2, "--max-steps",
                                40, "--eval-every", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        table = json.loads((self.folder / "c" / "table.json").read_text())
        self.assertEqual(table["score"], "perplexity")
        dense, topk = table["rows"]
        self.assertAlmostEqual(table["target"], dense["perplexity"] * 1.005)
        self.assertAlmostEqual(topk["behind"], topk["perplexity"] / dense["perplexity"] - 1)
        self.assertLessEqual(dense["best"], dense["perplexity"])
        self.assertTrue((self.folder / "c" / "perplexity-time.svg").exists())


class ComeAndGo(TaskTest):
    DATA = Language.DATA

    def test_a_run_leaves_and_comes_back(self):
        for model in (LSTM, GPT2):
            self.train("--model", model, *self.DATA, "--workers", 1, "--max-steps", 8, "--out", "a", "--overwrite")
            self.other("export", "a", "--to", "out/model.safetensors")
            words = json.loads((self.folder / "out" / "labels.json").read_text())
            self.assertIn("word7", words)
            config = json.loads((self.folder / "out" / "config.json").read_text())
            self.assertEqual(config.get("model_type"), "gpt2" if model == GPT2 else None)
            where = ("--data-dir", self.text, *self.DATA)
            told = json.loads(self.other("evaluate", "out/model.safetensors", "--model", model, *where, "--json"))
            self.assertAlmostEqual(told["loss"], self.summary("a")["eval_loss"], delta=1e-6)
            # A folder as Hugging Face's, where a model has such a form.
            text = self.train("--model", model, *self.DATA, "--workers", 2, "--max-steps", 1, "--lr", 1e-9,
                              "--init", "out" if model == GPT2 else "out/model.safetensors", "--out", "b",
                              "--overwrite")
            self.assertAlmostEqual(self.summary("b")["eval_loss"], told["loss"], delta=1e-4, msg=text)

    def test_refuses_other_heads_than_those_of_the_file(self):
        self.train("--model", GPT2, *self.DATA, "--workers", 1, "--max-steps", 1, "--out", "a")
        self.other("export", "a", "--to", "out/model.safetensors")
        self.fails(*FIXED, "--model", GPT2.replace("heads=2", "heads=4"), *self.DATA, "--data-dir", self.text,
                   "--init", "out", "--out", "b", says="n_head is 2, the model has 4")

    def test_refuses_what_is_no_model(self):
        (self.folder / "x.safetensors").write_bytes(b"\xff" * 64)
        job = ("--model", LSTM, *self.DATA, "--data-dir", self.text)
        self.fails(*FIXED, *job, "--init", "x.safetensors", "--out", "a", says="x.safetensors")
        self.assertIn("--model and --dataset", self.other("evaluate", "x.safetensors", rc=1))
        self.train("--model", LSTM, *self.DATA, "--workers", 1, "--max-steps", 1, "--out", "a")
        self.assertIn("--split must be valid or test for data set 'text:file=text.txt', got 'train'",
                      self.other("evaluate", "a", "--split", "train", rc=1))
        self.assertIn(".safetensors", self.other("export", "a", "--to", "x.bin", rc=1))


if __name__ == "__main__":
    main()
