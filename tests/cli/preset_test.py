#!/usr/bin/env python3
"""Tests of `sluice train --preset` and `sluice list presets`.

Run as: python3 tests/cli/preset_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import re
import subprocess

from harness import SLUICE, RunTest, main

# In place of data that nobody has here.
CIFAR100 = ("--dataset", "synthetic:channels=3,height=32,width=32,classes=100", "--engine", "threads")


def listing(kind):
    done = subprocess.run([SLUICE, "list", kind, "--json"], capture_output=True, text=True, timeout=30, check=True)
    return json.loads(done.stdout)[kind]


class Presets(RunTest):
    def config(self, *args):
        done = self.run_program(*args, "--print-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_each_has_a_model_and_a_data_set(self):
        models = {row["name"] for row in listing("models")}
        datasets = {row["name"] for row in listing("datasets")}
        names = set()
        for preset in listing("presets"):
            with self.subTest(preset=preset["name"]):
                values = {p["name"]: p["default"] for p in preset["parameters"]}
                self.assertEqual(len(values), len(preset["parameters"]), "a key is set once")
                self.assertIn(values["model"].split(":")[0], models)
                self.assertIn(values["dataset"].split(":")[0], datasets)
                self.assertLessEqual({"batch_size", "lr", "lr_schedule", "epochs", "optimizer", "sparsifier", "density",
                                      "feedback"}, set(values))
                self.assertTrue(preset["summary"], "its source")
                names.add(preset["name"])
        for job in ("vgg16-cifar100", "vgg16-cifar10-gtopk", "resnet50-imagenet", "resnet50-imagenet-sidco",
                    "vit-base-imagenet", "resnet110-cifar10-dgc", "mlp-fashion-mnist"):
            self.assertIn(job, names)

    def test_table(self):
        done = subprocess.run([SLUICE, "list", "presets"], capture_output=True, text=True, timeout=30)
        row = next(line for line in done.stdout.splitlines() if re.match(r"  vgg16-cifar10-gtopk ", line))
        for part in ("vgg16", "cifar10", "32", "0.1", "141", "topk", "0.001", "ICDCS"):
            self.assertIn(part, row)

    def test_precedence(self):
        (self.folder / "c.json").write_text(json.dumps({"epochs": 7, "batch_size": 9}))
        config = self.config("--preset", "vgg16-cifar10-gtopk", "--config", "c.json", "--batch-size", 11)
        self.assertEqual((config["model"], config["lr"], config["collective"]), ("vgg16", 0.1, "gtopk"))
        self.assertEqual((config["epochs"], config["batch_size"]), (7, 11))
        self.assertEqual(config["eval_every"], "1e", "the rest are defaults")

    def test_what_is_printed_is_a_config_file(self):
        printed = self.config("--preset", "resnet50-cifar100-adtopk", "--workers", 8)
        (self.folder / "c.json").write_text(json.dumps(printed))
        self.assertEqual(self.config("--config", "c.json"), printed)

    def test_exceptions_name_tensors(self):
        for preset in ("vgg16-cifar100-adtopk", "resnet50-cifar100-adtopk"):
            with self.subTest(preset=preset):
                done = self.run_program("--preset", preset, *CIFAR100, "--check")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_rates_grow_with_the_workers(self):
        small = ("--preset", "resnet50-cifar100", "--model", "logistic", *CIFAR100, "--batch-size", 8, "--max-steps", 1,
                 "--log-every", 1, "--eval-every", 0)
        for workers in (2, 3):
            for warmup, rate in (("5", 0.0125), ("0", 0.0125 * workers)):
                out = f"{workers}-{warmup}"
                schedule = self.config(*small)["lr_schedule"].replace("warmup=5", f"warmup={warmup}")
                done = self.run_program(*small, "--workers", workers, "--lr-schedule", schedule, "--out", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                line = json.loads((self.folder / out / "metrics.jsonl").read_text().splitlines()[0])
                # What is logged is the rate of the next step.
                self.assertAlmostEqual(line["lr"], rate, delta=0.001)

    def test_unknown(self):
        self.fails("--preset", "vgg16-cifa100", says=("no preset 'vgg16-cifa100'", "did you mean 'vgg16-cifar100'",
                                                      "sluice list presets"))


if __name__ == "__main__":
    main()
