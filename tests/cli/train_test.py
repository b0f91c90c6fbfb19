#!/usr/bin/env python3
"""Tests of `sluice train`: runs, what they leave behind, and bad input.

Run as: python3 tests/cli/train_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from checkpoint_file import tensors
from harness import SLUICE, RunTest, main

# Small, and what it sends depends on nothing that is measured.
SMALL = ("--model", "mlp:widths=64", "--dataset", "synthetic:train=4000,test=200", "--workers", 2,
         "--collective", "sparcml-split", "--dense-collective", "dense:by=ring")
THREADS = (*SMALL, "--engine", "threads")
FASHION = Path("/usr/share/datasets/fashion-mnist")
TRAIN_KEYS = {"kind", "step", "epoch", "time_s", "loss", "accuracy", "lr", "samples_per_s", "density", "k_hat_over_k",
              "bytes_per_step", "step_s", "exposed_s", "select_s", "wire_s", "skipped"}


def small_files():
    """For preexec_fn: files end at 150 kB, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))


# What a machine without a GPU says; others would train.
NO_GPU = {} if os.path.exists("/dev/nvidiactl") else {("--device", "cuda"): ("--device cuda needs a", "--device cpu")}


class TrainTest(RunTest):
    def train(self, *args):
        done = self.run_program(*args, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def latest(self, run):
        path = self.folder / run / "checkpoints" / "latest"
        return path.read_text().strip() if path.exists() else ""

    def kept(self, run, step, tensor):
        """The bytes of a tensor of rank 1."""
        return tensors(self.folder / run / "checkpoints" / f"step-{step:08}" / "rank-1.ckpt")[tensor]


class Recipes(TrainTest):
    """Optimizer and rate by what is kept; a note where the user asks for what loses."""

    def test_defaults_and_notes(self):
        for flags, optimizer, lr, note in (
                ((), "sgd:momentum=0", 0.5, None),
                (("--sparsifier", "none"), "sgd:momentum=0.9", 0.05, None),
                (("--feedback", "dgc"), "sgd:momentum=0", 0.05, None),
                (("--optimizer", "sgd"), "sgd", 0.05, "--optimizer sgd:momentum=0 --lr 0.5 does not"),
                (("--optimizer", "adam"), "adam", 0.001, "--optimizer adam:beta1=0 does not")):
            done = self.run_program(*THREADS, "--max-steps", 1, "--out", "a", "--overwrite", *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            config = json.loads((self.folder / "a/config.json").read_text())
            self.assertEqual((config["optimizer"], config["lr"]), (optimizer, lr), flags)
            if note is None:
                self.assertNotIn("note", done.stderr)
            else:
                self.assertRegex(done.stderr, r"^\[train\] note: ")
                self.assertIn(note, done.stderr)


class Devices(TrainTest):
    def test_choices_are_stated(self):
        done = self.run_program(*THREADS, "--max-steps", 2, "--out", "a", "--tf32", "on", "--channels-last", "on")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--tf32 on is for GPUs and changes nothing on the CPU", done.stdout + done.stderr)
        config = json.loads((self.folder / "a/config.json").read_text())
        self.assertEqual((config["tf32"], config["channels_last"], config["deterministic"]), ("on", "on", "off"))
        done = self.run_program(*THREADS, "--max-steps", 2, "--out", "b")
        self.assertNotIn("tf32", done.stdout + done.stderr)
        config = json.loads((self.folder / "b/config.json").read_text())
        self.assertEqual((config["tf32"], config["channels_last"]), ("off", "off"))


class Runs(TrainTest):
    @unittest.skipUnless(FASHION.exists(), "needs the package dataset-fashion-mnist")
    def test_example(self):
        done = self.run_program("--model", "fcn5net", "--dataset", "fashion-mnist", "--workers", 4, "--sparsifier",
                                "adtopk", "--density", "0.01", "--max-steps", 40, "--out", "runs/a")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("199210 parameters", "step 40/40", "loss", "images/s", "density", "k^/k", "exposed",
                     "test accuracy", "extra memory"):
            self.assertIn(part, done.stdout)
        run = self.folder / "runs/a"
        for name in ("config.json", "plan.json", "metrics.jsonl", "summary.json", "checkpoints/latest"):
            self.assertTrue((run / name).exists(), name)
        self.assertEqual(json.loads((run / "config.json").read_text())["sparsifier"], "adtopk")

    def test_same_seed_same_weights(self):
        first = self.train(*THREADS, "--max-steps", 6, "--out", "a")
        again = self.train(*SMALL, "--max-steps", 6, "--out", "b", "--engine", "mpi")
        other = self.train(*THREADS, "--max-steps", 6, "--out", "c", "--seed", 2)
        self.assertEqual(first["weights"], again["weights"])
        self.assertNotEqual(first["weights"], other["weights"])

    def test_defaults_repeat(self):
        """Three workers: the order of two summands does not matter."""
        job = ("--model", "mlp:widths=64", "--dataset", "synthetic:train=4000,test=200", "--workers", 3)
        weights = set()
        for engine in ("threads", "mpi"):
            for i in range(2):
                run = f"{engine}{i}"
                weights.add((engine, self.train(*job, "--engine", engine, "--max-steps", 6, "--out", run)["weights"]))
                # What it chose by, as 'auto' keeps it.
                alpha, beta = struct.unpack_from("<2d", self.kept(run, 6, "collectives"))
                self.assertAlmostEqual(alpha / 20e-6, 1)
                self.assertAlmostEqual(beta / 0.8e-9, 1)
        self.assertEqual(len(weights), 2)
        done = self.run_program(*job, "--engine", "threads", "--max-steps", 2, "--out", "c", "--network", "measured")
        self.assertIn("this run does not repeat bit for bit", done.stdout)
        self.fails(*job, "--engine", "threads", "--network", "fast", says=("--network", "'fast'", "50us,1Gbit"))

    def test_other_threads_change_bits(self):
        self.train(*THREADS, "--max-steps", 2, "--out", "a", "--threads", 1)
        done = self.run_program("--resume", "a", "--max-steps", 3, "--threads", 2)
        self.assertIn("1 threads per worker before, 2 now", done.stdout)
        self.assertIn("--threads 1 keeps them", done.stdout)

    def test_one_worker_dense(self):
        done = self.train("--model", "logistic", "--dataset", "synthetic:train=4000,test=200", "--workers", 1,
                          "--engine", "threads", "--sparsifier", "none", "--max-steps", 30, "--out", "a")
        self.assertEqual(done["density"], 1)
        self.assertGreater(done["eval_accuracy"], 0.8)

    def test_every_way_to_train(self):
        for args in (("--accumulate", 2), ("--clip", 1), ("--clip-local", 1), ("--precision", "bf16"),
                     ("--plan", "layerwise"), ("--plan", "single"), ("--feedback", "dgc"),
                     ("--density-schedule", "warmup:epochs=2"), ("--values", "bf16"), ("--dense", "*bias"),
                     ("--sparsifier", "none", "--collective", "dense-bf16"), ("--optimizer", "adam", "--lr", "0.001"),
                     ("--lr-schedule", "cosine:warmup=0.05"), ("--net", "1us,10Gbit"), ("--collective", "auto")):
            with self.subTest(args=args):
                done = self.train(*THREADS, "--max-steps", 4, "--overwrite", "--out", "a", "--replica-check", 2, *args)
                self.assertLess(done["loss"], 3)
                self.assertEqual(done["steps"], 4)

    def test_batch_normalisation(self):
        done = self.train("--model", "resnet20", "--dataset", "synthetic:train=64,test=16,channels=3,height=32,width=32",
                          "--workers", 2, "--engine", "threads", "--batch-size", 4, "--max-steps", 2, "--out", "a")
        self.assertEqual(done["steps"], 2)

    def test_plan_of_another_run(self):
        one = self.train(*THREADS, "--max-steps", 4, "--out", "a", "--plan", "layerwise")
        two = self.train(*THREADS, "--max-steps", 4, "--out", "b", "--plan", "a/plan.json")
        self.assertEqual(one["weights"], two["weights"])

    def test_config_file_and_flags(self):
        (self.folder / "c.json").write_text(json.dumps(
            {"model": "logistic", "dataset": "synthetic:train=2000,test=100", "workers": 2, "engine": "threads",
             "max_steps": 9, "out": "a"}))
        done = self.train("--config", "c.json", "--max-steps", 3)
        self.assertEqual((done["model"], done["steps"], done["ranks"]), ("logistic", 3, 2))

    def test_mpirun(self):
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        small = [str(x) for x in (*SMALL, "--max-steps", 4, "--json")]
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n"]
        done = subprocess.run([*mpirun, "2", SLUICE, "train", *small, "--out", "a"], cwd=self.folder, env=env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=80)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["ranks"], 2)
        done = subprocess.run([*mpirun, "1", SLUICE, "train", *small, "--out", "b", ":",
                               "-n", "1", SLUICE, "train", *small, "--out", "b", "--lr", "0.7"],
                              cwd=self.folder, env=env, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=80)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 differ from rank 0 (lr: '0.5', '0.7')", done.stderr)

    def test_list(self):
        for kind, name in (("models", "resnet20"), ("datasets", "cifar10"), ("optimizers", "adamw"),
                           ("lr-schedules", "cosine")):
            done = subprocess.run([SLUICE, "list", kind, "--json"], capture_output=True, text=True, timeout=30)
            self.assertIn(name, [row["name"] for row in json.loads(done.stdout)[kind]])


class Outputs(TrainTest):
    @classmethod
    def setUpClass(cls):
        cls.run_folder = Path(tempfile.mkdtemp(prefix="sluice-train-"))
        cls.addClassCleanup(shutil.rmtree, cls.run_folder, ignore_errors=True)
        subprocess.run([SLUICE, "train", *map(str, THREADS), "--max-steps", "12", "--log-every", "5", "--eval-every",
                        "6", "--trace", "3:4", "--out", cls.run_folder / "a"], check=True, capture_output=True,
                       timeout=80)

    def test_metrics(self):
        rows = [json.loads(line) for line in (self.run_folder / "a/metrics.jsonl").read_text().splitlines()]
        trained = [row for row in rows if row["kind"] == "train"]
        self.assertEqual([row["step"] for row in trained], [5, 10, 12])
        self.assertLessEqual(TRAIN_KEYS, set(trained[0]))
        self.assertEqual([row["step"] for row in rows if row["kind"] == "eval"], [6, 12])

    def test_trace(self):
        events = json.loads((self.run_folder / "a/trace.json").read_text())["traceEvents"]
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["pid"] for e in spans}, {0, 1})
        self.assertEqual({e["args"]["step"] for e in spans}, {3, 4})
        self.assertLessEqual({"forward", "backward", "select", "encode", "exchange", "apply", "wait", "optimizer"},
                             {e["name"] for e in spans})
        self.assertTrue(all(e["ts"] >= 0 and e["dur"] >= 0 for e in spans))
        # Encoding is part of the exchange, and stands in its lane.
        lanes = {e["name"]: e["tid"] for e in spans}
        self.assertEqual(lanes["encode"], lanes["exchange"])

    def test_events(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("needs tensorboard")
        events = EventAccumulator(str(self.run_folder / "a"))
        events.Reload()
        self.assertEqual([e.step for e in events.Scalars("train/loss")], [5, 10, 12])
        self.assertIn("eval/accuracy", events.Tags()["scalars"])


class Checkpoints(TrainTest):
    LONG = (*THREADS, "--net", "5ms,1Gbit", "--checkpoint-every", 10)

    def test_killed_runs_go_on_with_the_same_bits(self):
        whole = self.train(*self.LONG, "--max-steps", 20, "--out", "whole")
        run = self.start(*self.LONG, "--max-steps", 20, "--out", "cut")
        self.wait_for(lambda: self.latest("cut") == "step-00000010")
        time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.assertEqual(self.latest("cut"), "step-00000010")
        rest = self.train("--resume", "cut")
        self.assertEqual(rest["steps"], 20)
        self.assertEqual(whole["weights"], rest["weights"])
        for tensor in ("residual", "rules"):
            self.assertEqual(self.kept("whole", 20, tensor), self.kept("cut", 20, tensor))
        rows = [json.loads(line) for line in (self.folder / "cut/metrics.jsonl").read_text().splitlines()]
        steps = [row["step"] for row in rows if row["kind"] == "train"]
        self.assertEqual(steps, sorted(set(steps)))

    def test_a_killed_rank_ends_the_run(self):
        run = self.start(*SMALL, "--net", "5ms,1Gbit", "--checkpoint-every", 10, "--max-steps", 2000, "--out", "a",
                         "--timeout", 3)
        self.wait_for(lambda: self.latest("a"))
        ranks = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_rank(pid, run.pid)]
        self.assertTrue(ranks)
        os.kill(max(ranks), signal.SIGKILL)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, errors)
        self.assertIn("rank", errors)
        done = self.train("--resume", "a", "--max-steps", int(self.latest("a")[5:]) + 2)
        self.assertGreater(done["steps"], 10)

    def is_rank(self, pid, launcher):
        """A process of MPI below the one that was started."""
        try:
            mpirun = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
            above = Path(f"/proc/{mpirun}/stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            return False
        return int(above) == launcher

    def test_a_signal_saves(self):
        for engine in ("threads", "mpi"):
            with self.subTest(engine=engine):
                run = self.start(*SMALL, "--engine", engine, "--net", "5ms,1Gbit", "--max-steps", 100000, "--log-every",
                                 1, "--out", engine)
                self.wait_for(lambda: (self.folder / engine / "metrics.jsonl").exists()
                              and (self.folder / engine / "metrics.jsonl").stat().st_size)
                run.send_signal(signal.SIGTERM)
                out, errors = run.communicate(timeout=60)
                self.assertEqual(run.returncode, 0, errors)
                self.assertIn("stopped by a signal", out)
                step = int(self.latest(engine)[5:])
                done = self.train("--resume", engine, "--max-steps", step + 2, "--timeout", 20)
                self.assertEqual(done["steps"], step + 2)

    def test_another_number_of_workers(self):
        self.train(*THREADS, "--max-steps", 5, "--workers", 4, "--out", "a")
        for workers, steps in ((2, 8), (3, 10)):
            done = self.run_program("--resume", "a", "--workers", workers, "--max-steps", steps)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"workers went to {workers}", done.stdout)

    def test_full_disk(self):
        # A cosine would know how long the run is.
        job = (*THREADS, "--lr-schedule", "constant")
        whole = self.train(*job, "--max-steps", 8, "--out", "whole")
        self.train(*job, "--max-steps", 4, "--out", "a")
        self.fails("--resume", "a", "--max-steps", 8, preexec_fn=small_files,
                   says=("could not be written: File too large", "the last good checkpoint is a/checkpoints/step-00000004"))
        self.assertEqual(self.latest("a"), "step-00000004")
        self.assertEqual(set(os.listdir(self.folder / "a/checkpoints")), {"latest", "step-00000004"})
        self.assertEqual(self.train("--resume", "a", "--max-steps", 8)["weights"], whole["weights"])

    def test_what_cannot_be_resumed(self):
        self.train(*THREADS, "--max-steps", 2, "--out", "a")
        self.fails(*THREADS, "--max-steps", 4, "--out", "a", says=("has a run in it", "--resume", "--overwrite"))
        self.fails("--resume", "a", "--model", "logistic", says=("--model", "'mlp:widths=64'", "'logistic'"))
        self.fails("--resume", "nope", "--engine", "threads", says=("[resume]", "'nope'"))
        part = self.folder / "a/checkpoints/step-00000002/rank-1.ckpt"
        part.write_bytes(part.read_bytes()[:-100])
        self.fails("--resume", "a", says="rank-1.ckpt")
        model = self.folder / "a/checkpoints/step-00000002/model.ckpt"
        model.write_bytes(b"x" + model.read_bytes()[1:])
        self.fails("--resume", "a", says="model.ckpt")
        done = self.fails("--resume", "a", "--engine", "mpi", says=("model.ckpt", "host", "process"), lines=2)
        self.assertTrue(done.stderr.endswith("[launch] all of 2 ranks must end well\n"), "a rank says why: none was killed")

    def test_files_that_do_not_belong_together(self):
        job = (*THREADS, "--checkpoint-every", 2, "--max-steps", 4)
        self.train(*job, "--out", "a")
        self.train(*job, "--out", "b")
        old, new = (self.folder / f"a/checkpoints/step-0000000{step}" for step in (2, 4))
        first, second = (new / f"rank-{rank}.ckpt" for rank in (0, 1))
        here, there = first.read_bytes(), second.read_bytes()
        for part, content, says in ((first, there, "is of rank 1 of 2 ranks"),
                                    (second, (old / second.name).read_bytes(), "is of rank 1 of 2 ranks after step 2"),
                                    (new / "model.ckpt", (self.folder / "b/checkpoints/step-00000004/model.ckpt").read_bytes(),
                                     "of all 2 ranks after step 4 of run")):
            with self.subTest(says=says):
                before = part.read_bytes()
                part.write_bytes(content)
                self.fails("--resume", new, "--max-steps", 6, says=(str(part), says, "put the files"))
                part.write_bytes(before)
        first.write_bytes(there)
        second.write_bytes(here)
        self.fails("--resume", new, "--max-steps", 6, says="is of rank")
        self.assertTrue((new / "manifest.json").exists())

    def test_auto(self):
        self.train(*THREADS, "--max-steps", 2, "--out", "a", "--resume", "auto")
        self.assertEqual(self.train(*THREADS, "--max-steps", 4, "--out", "a", "--resume", "auto")["steps"], 4)

    def test_auto_finds_the_newest_whole_checkpoint(self):
        job = (*THREADS, "--lr-schedule", "constant", "--checkpoint-every", 2, "--resume", "auto")
        whole = self.train(*job, "--max-steps", 6, "--out", "whole")
        self.train(*job, "--max-steps", 4, "--out", "a")
        checkpoints = self.folder / "a/checkpoints"
        latest = checkpoints / "latest"
        for i, (content, says) in enumerate(((None, "latest' cannot be read: No such file"), ("", "latest' is empty"),
                                             ("step-00000009\n", "names 'step-00000009', which is no checkpoint here"))):
            with self.subTest(says=says):
                shutil.copytree(self.folder / "a", self.folder / f"copy{i}")
                latest = self.folder / f"copy{i}/checkpoints/latest"
                latest.unlink() if content is None else latest.write_text(content)
                done = self.run_program(*job, "--max-steps", 6, "--out", f"copy{i}", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertIn(f"resumed after step 4 from copy{i}/checkpoints/step-00000004", done.stderr)
                self.assertEqual(json.loads(done.stdout)["weights"], whole["weights"])

        part = checkpoints / "step-00000004/rank-1.ckpt"
        part.write_bytes(part.read_bytes()[:-100])
        done = self.run_program(*job, "--max-steps", 6, "--out", "a", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("[resume] passed over: [read_checkpoint] 'a/checkpoints/step-00000004/rank-1.ckpt'", done.stderr)
        self.assertIn("resumed after step 2 from", done.stderr)
        self.assertEqual(json.loads(done.stdout)["weights"], whole["weights"])
        self.assertEqual(set(os.listdir(checkpoints)),
                         {"latest", "step-00000004", "step-00000006", "step-00000004.abandoned"})

        for path in checkpoints.glob("step-*/model.ckpt"):
            path.write_bytes(b"x")
        before = sorted(checkpoints.rglob("*"))
        self.fails(*job, "--max-steps", 6, "--out", "a", says=("none of 2 checkpoints can be read", "--overwrite"))
        self.assertEqual(sorted(checkpoints.rglob("*")), before)

    def test_an_older_step_is_kept(self):
        job = (*THREADS, "--lr-schedule", "constant", "--checkpoint-every", 2)
        self.train(*job, "--max-steps", 6, "--keep", 3, "--out", "a")
        done = self.run_program("--resume", "a/checkpoints/step-00000002", "--max-steps", 4, "--keep", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        for step in (4, 6):
            self.assertIn(f"a/checkpoints/step-0000000{step}.abandoned; remove it when nobody needs it", done.stdout)
        self.assertEqual(set(os.listdir(self.folder / "a/checkpoints")),
                         {"latest", "step-00000002", "step-00000004", "step-00000004.abandoned",
                          "step-00000006.abandoned"})
        self.assertEqual(self.latest("a"), "step-00000004")

    def test_checkpoints_without_a_configuration_are_a_run(self):
        self.train(*THREADS, "--max-steps", 2, "--out", "a")
        (self.folder / "a/config.json").unlink()
        self.fails(*THREADS, "--max-steps", 4, "--out", "a", says=("has a run in it", "--resume"))


class BadInput(TrainTest):
    def test_flags(self):
        cases = {
            ("--model", "nope"): ("'nope'", "resnet20"),
            ("--model", "mlp:width=3"): ("'width'", "widths"),
            ("--dataset", "nope"): ("'nope'", "fashion-mnist"),
            ("--dataset", "cifar10", "--data-dir", "/nowhere"): ("/nowhere", "cifar"),
            ("--density", "2"): ("density", "2"),
            ("--density", "0"): ("density", "0"),
            ("--density", "much"): ("density", "'much'"),
            ("--density-schedule", "nope"): "nope",
            ("--sparsifier", "nope"): ("'nope'", "topk"),
            ("--feedback", "nope"): ("'nope'", "residual"),
            ("--collective", "nope"): ("'nope'", "auto"),
            ("--values", "fp8"): ("fp8", "bf16"),
            ("--values", "bf16", "--collective", "dense", "--check"): ("'dense'", "full width", "values fp32"),
            ("--optimizer", "nope"): ("'nope'", "sgd"),
            ("--lr", "fast"): ("lr", "'fast'"),
            ("--lr-schedule", "nope"): ("'nope'", "cosine"),
            ("--batch-size", "0"): ("batch_size", "0"),
            ("--batch-size", "5000"): ("5000", "4000"),
            ("--accumulate", "5000"): ("--accumulate", "5000"),
            ("--plan", "nope"): ("'nope'", "layerwise"),
            ("--plan", "nope.json"): ("nope.json", "readable"),
            ("--dense", "nope"): ("'nope'", "match"),
            ("--trace", "5:2"): ("trace", "5:2"),
            ("--checkpoint-every", "often"): ("checkpoint_every", "often"),
            ("--nonfinite", "ignore"): ("skip", "stop"),
            ("--device", "tpu"): ("'device'", "cpu, cuda", "'tpu'"),
            ("--device", "cuda:x"): ("'device'", "'cuda:x'"),
            ("--device", "cuda:-1"): ("'device'", "'cuda:-1'"),
            ("--device", "cuda:99"): ("--device cuda:99",),
            ("--tf32", "yes"): ("tf32", "yes", "on"),
            ("--channels-last", "2"): ("channels_last", "2", "auto"),
            ("--deterministic", "maybe"): ("deterministic", "maybe"),
            ("--gpu-link", "wire"): ("gpu_link", "wire", "nccl"),
            ("--gpu-link", "nccl"): ("gpu_link", "nccl", "device cuda"),
            **NO_GPU,
            ("--workers", "0"): ("--workers", "0"),
            ("--engine", "pigeons"): ("pigeons", "threads"),
            ("--net", "slow"): ("slow",),
            ("--out", "/proc/nope"): ("--out", "/proc/nope"),
            ("--config", "nope.json"): ("--config", "nope.json"),
            ("--resume",): ("--resume", "--out"),
            ("--modle", "mlp"): "[train] no option '--modle'; did you mean '--model'?",
        }
        base = (*THREADS, "--max-steps", 2)
        for args, says in cases.items():
            with self.subTest(args=args):
                self.fails(*base, *args, says=says)
        self.assertEqual(os.listdir(self.folder), [])

    def test_config_file(self):
        path = self.folder / "c.json"
        for text, says in (("{", "JSON"), ("[]", "JSON"), ('{"modle": "mlp"}', ("'modle'", "did you mean 'model'")),
                           ('{"lr": "x"}', ("'lr'", "'x'")), ('{"lr": [1]}', "'lr'")):
            with self.subTest(text=text):
                path.write_text(text)
                self.fails("--config", "c.json", says=says)

    def test_pipes_and_holes(self):
        """What would be waited for, or read, for ever."""
        os.mkfifo(self.folder / "pipe.json")
        with open(self.folder / "hole.json", "wb") as hole:
            hole.truncate(6 << 30)
        for flag in ("--config", "--plan"):
            self.fails(*THREADS, "--max-steps", 2, flag, "pipe.json", says=("pipe.json", "it is a pipe"))
            self.fails(*THREADS, "--max-steps", 2, flag, "hole.json", says=("hole.json", "at most 67108864 bytes"))
        os.mkfifo(self.folder / "test_batch.bin")
        self.fails("--dataset", "cifar10", "--data-dir", ".", "--engine", "threads", says="test_batch.bin")

    def test_loss_that_is_not_finite(self):
        wild = (*THREADS, "--sparsifier", "none", "--optimizer", "sgd:momentum=0", "--lr", "1e9", "--max-steps", 60)
        self.fails(*wild, "--out", "a", "--nonfinite", "stop", says=("--nonfinite skip", "--lr"))
        done = self.run_program(*wild, "--out", "b", "--nonfinite", "skip")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is skipped (--nonfinite skip)", done.stderr)
        self.assertIn("steps in a row", done.stderr)

    def test_mpi_that_is_missing(self):
        done = subprocess.run(self.command(*SMALL, "--max-steps", 2), cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PATH": "/nowhere"}, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("mpirun", done.stderr)
        self.assertIn("--engine threads", done.stderr)


if __name__ == "__main__":
    main()
