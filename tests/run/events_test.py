#!/usr/bin/env python3
"""Reads the event files that write_events makes with TensorBoard's own reader.

usage: events_test.py WRITE_EVENTS

Exits with 77, with a reason, where the package tensorboard is not installed.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError as error:
    print(f"[events_test] skipped: no tensorboard package ({error})")
    sys.exit(77)


def scalars(accumulator, tag):
    return [(item.step, item.value) for item in accumulator.Scalars(tag)]


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.time() - 1
        subprocess.run([program, folder], check=True)
        files = sorted(os.listdir(folder))
        assert len(files) == 2, files
        accumulator = event_accumulator.EventAccumulator(folder)
        accumulator.Reload()

    assert set(accumulator.Tags()["scalars"]) == {
        "train/loss",
        "lr",
        "large step",
    }, accumulator.Tags()
    # The second run began with step 3, so steps 3 and 4 of the first are gone.
    assert scalars(accumulator, "train/loss") == [
        (0, 1.0),
        (1, 0.5),
        (2, 1 / 3 - (1 / 3 - 0.3333333432674408)),
        (3, 103.0),
        (4, 104.0),
        (5, 105.0),
    ], scalars(accumulator, "train/loss")
    assert [step for step, _ in scalars(accumulator, "lr")] == [0, 1, 2]
    assert scalars(accumulator, "large step") == [(1 << 40, -2.5)]
    times = [item.wall_time for item in accumulator.Scalars("train/loss")]
    assert begin <= min(times) <= max(times) <= time.time() + 1, times
    print("[events_test] passed")


if __name__ == "__main__":
    main()
