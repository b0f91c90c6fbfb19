"""The scripts of examples/python, as users start them, on little data."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "python"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")

needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}: apt-get install dataset-fashion-mnist")


def needs(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"no {package}: pip install {package}")


def run(ranks, script, *arguments):
    """What the job printed."""
    return run_and_hear(ranks, script, *arguments)[0]


def run_and_hear(ranks, script, *arguments):
    """What the job printed, and what it said beside."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [*torchrun, str(FOLDER / script), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        try:
            out, said = job.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            job.terminate()  # torchrun ends its ranks then, and not if it is killed
            raise
    assert job.returncode == 0, out + said
    return out, said


def numbers(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return [float(number) for number in found.groups()]


@pytest.mark.parametrize("script", SCRIPTS)
def test_says_how_it_is_used(script):
    for package in ("accelerate", "lightning"):
        if package in script and importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}: pip install {package}")
    done = subprocess.run([sys.executable, FOLDER / script, "--help"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "torchrun --nproc-per-node" in done.stdout and "--limit" in done.stdout


@needs_data
def test_learns_with_a_fraction_of_the_bytes():
    out = run(2, "fashion_mnist.py", "--limit", 12000)
    (accuracy,) = numbers(r"accuracy ([\d.]+)%", out)
    sent, dense = numbers(r"sent ([\d.]+) MB per step and rank, a dense ring all-reduce ([\d.]+)", out)
    # 10 % is chance; vectors and positions are sent as well.
    assert accuracy > 65
    assert 0.01 < sent / dense < 0.03


@needs_data
def test_learns_densely_for_comparison():
    out = run(2, "fashion_mnist.py", "--limit", 6000, "--dense")
    (accuracy,) = numbers(r"accuracy ([\d.]+)%", out)
    assert accuracy > 60


THROWN_AWAY = "before any optimizer used them"


def test_a_gan_pauses_what_its_generator_does_not_need():
    out, said = run_and_hear(2, "gan.py", "--limit", 400)
    near, centres, told_apart = numbers(r"([\d.]+)% of the points are near one of (\d+) centres, told apart ([\d.]+)%", out)
    assert numbers(r"has exchanged (\d+) steps and paused (\d+)", out) == [400, 400]
    # Neither of the two has lost: both learn.
    assert 52 < told_apart < 95
    assert THROWN_AWAY not in said


def test_a_gan_that_does_not_pause_is_warned():
    out, said = run_and_hear(2, "gan.py", "--limit", 20, "--unpaused")
    assert numbers(r"has exchanged (\d+) steps and paused (\d+)", out) == [40, 0]
    assert said.count(THROWN_AWAY) == 1


@needs_data
def test_sam_climbs_alone_and_drops_steps():
    out, said = run_and_hear(2, "sam.py", "--limit", 6400, "--max-norm", 2.5)
    accuracy, steps, dropped = numbers(r"accuracy ([\d.]+)% after (\d+) steps, (\d+) of them dropped", out)
    assert accuracy > 50
    assert steps == 50 and 0 < dropped < 50
    assert THROWN_AWAY not in said
    assert said.count("keeps a copy of its residuals") == 1


@needs_data
@needs("accelerate")
def test_learns_with_accelerate():
    out = run(2, "with_accelerate.py", "--limit", 6400, "--accumulate", 2, "--batch-size", 32)
    accuracy, steps, sent = numbers(r"accuracy ([\d.]+)% after (\d+) steps, sent ([\d.]+) MB", out)
    assert accuracy > 50
    # Two passes of 32 images on each of two ranks are one step.
    assert steps == 50
    assert 0 < sent < 0.03


@needs_data
@needs("lightning")
def test_learns_with_lightning():
    out = run(2, "with_lightning.py", "--limit", 6400)
    accuracy, steps, sent = numbers(r"accuracy ([\d.]+)% after (\d+) steps, sent ([\d.]+) MB", out)
    assert accuracy > 50
    assert steps == 50
    assert 0 < sent < 0.03


def two_runs(pattern, script, first, second):
    """Numbers of a run that saves, and of one that goes on from it."""
    return [numbers(pattern, run(2, script, "--limit", 3200, *arguments)) for arguments in (first, second)]


GONE_ON = r"accuracy ([\d.]+)% after (\d+) steps, sent ([\d.]+) MB"


@needs_data
@needs("accelerate")
def test_accelerate_saves_and_loads_all_ranks(tmp_path):
    how = ("--state", tmp_path / "state", "--accumulate", 1)
    before, after = two_runs(GONE_ON, "with_accelerate.py", how, how)
    assert (before[1], after[1]) == (50, 100)
    assert after[0] > before[0] > 30


@needs_data
@needs("lightning")
def test_lightning_saves_and_loads_all_ranks(tmp_path):
    how = ("--checkpoint", tmp_path / "last.ckpt")
    before, after = two_runs(GONE_ON, "with_lightning.py", how, (*how, "--epochs", 2))
    assert (before[1], after[1]) == (25, 50)
    assert after[0] > before[0] > 30


@needs_data
@pytest.mark.parametrize("form", ["torch", "dcp"])
def test_goes_on_with_fewer_ranks(tmp_path, form):
    folder = tmp_path / "run"
    before = run(4, "resume.py", "--limit", 6400, "--save", folder, "--form", form)
    after = run(2, "resume.py", "--limit", 6400, "--load", folder)
    line = r"at step (\d+) on \d ranks: accuracy ([\d.]+)%, owed ([\d.]+)"
    saved = numbers("trained " + line, before)
    assert numbers("loaded " + line, after) == pytest.approx(saved, rel=1e-5)
    assert saved[0] == 50
    trained = numbers("trained " + line, after)
    assert trained[0] == 100
    assert trained[1] > saved[1]
