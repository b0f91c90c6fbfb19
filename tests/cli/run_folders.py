"""Run folders as `sluice train` leaves them, made by hand."""

import json
import math

CONFIG = {
    "model": "mlp", "dataset": "fashion-mnist", "batch_size": 64, "optimizer": "sgd:momentum=0", "lr": 0.5,
    "sparsifier": "topk", "density": 0.01, "feedback": "residual", "collective": "auto", "seed": 1, "workers": 4,
    "engine": "threads", "net": "50us,1Gbit",
}
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def train_line(step, **changes):
    return {
        "kind": "train", "step": step, "epoch": step / 100, "time_s": step / 50, "loss": 2 / math.sqrt(step), "lr": 0.5,
        "samples_per_s": 1000, "density": 0.012, "target_density": 0.01, "k_hat_over_k": 1.0, "bytes_per_step": 3e5,
        "step_s": 0.02, "exposed_s": 0.008, "select_s": 0.001, "wire_s": 0.005, "skipped": 0, "replaced": 0, **changes,
    }


def eval_line(step, accuracy):
    return {"kind": "eval", "step": step, "epoch": step / 100, "time_s": step / 50, "loss": 0.5, "accuracy": accuracy,
            "samples": 100, "replaced": 0}


def make_run(folder, config=None, steps=200, accuracy=0.85, finished=True):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, "out": str(folder), **(config or {})}))
    lines = []
    for step in range(10, steps + 1, 10):
        lines.append(train_line(step))
        if step % 50 == 0:
            lines.append(eval_line(step, accuracy * step / steps))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if finished:
        (folder / "summary.json").write_text(json.dumps({"steps": steps, "stopped": False}))
    return folder
