"""The scenarios of tools/soak. Each takes a Scenario, draws its parameters from scenario.chance, and raises Failed."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import faults
import labs
from job import BITS, HANG, LAST, LOSS, Job, Skipped, check, same_bits, wait_for
from processes import send

# Steps of some 20 ms, on a network that is emulated.
SLOW = ("--net", "3ms,1Gbit", "--log-every", 2)
FASHION = Path("/usr/share/datasets/fashion-mnist")


class Scenario:
    """One turn: a folder, random numbers, and what is to be told about it."""

    def __init__(self, number, name, chance, folder, soak):
        self.number, self.name, self.chance, self.folder, self.soak = number, name, chance, folder, soak
        self.words, self.kills, self.times, self.jobs = [], 0, {}, []

    def say(self, words):
        self.words.append(words)

    def measured(self, what, seconds):
        self.times.setdefault(what, []).append(seconds)

    def job(self, workers, flags, **how):
        job = Job(self.soak.program, self.folder, workers, (*flags, "--max-steps", LAST), **how)
        self.jobs.append(job)
        return job

    def bits_job(self, most, *flags, least=2, net=SLOW, **how):
        """A run whose bits are known, and the run that they are known from."""
        workers, seed = self.chance.randint(least, most), self.chance.randint(1, 3)
        every = self.chance.choice((3, 20, 60, "1s"))
        self.say(f"{workers} ranks, seed {seed}, checkpoint every {every}")
        reference = self.soak.references.bits(workers, seed)
        return self.job(workers, (*BITS, *net, "--seed", seed, "--checkpoint-every", every, *flags), **how), reference


def kill_ranks(scenario, job, most):
    """Kills some while it goes on by itself, and waits for its end."""
    chance = scenario.chance
    job.start()
    for _ in range(chance.randint(1, most)):
        # Half of them when something has been saved, for starting takes as long as training here.
        moment = faults.at_random(job, chance, starts=chance.random() < 0.5)
        before = job.errors().count("going on from")
        patient = chance.random() < 0.5
        start = time.monotonic()
        if job.ended() or not faults.kill_rank(job, chance):
            continue
        scenario.kills += 1
        scenario.say(f"kill ({moment})")
        if patient:  # else the next one may come while it is restarting
            wait_for(lambda: job.ended() or job.errors().count("going on from") > before, "a restart")
            if not job.ended():
                scenario.measured("restart after a kill", time.monotonic() - start)
    status, _ = job.wait()
    check(status == 0, f"ended with status {status}: {job.errors()}")


def restart(scenario):
    job, reference = scenario.bits_job(4, "--on-failure", "restart", "--max-restarts", 20)
    kill_ranks(scenario, job, 4)
    same_bits(job, reference)


def shrink(scenario):
    """The run ends where runs with as many ranks, or as few as are left, do."""
    if not FASHION.exists():
        raise Skipped("needs the package dataset-fashion-mnist")
    workers = scenario.chance.randint(3, 4)
    losses = scenario.soak.references.losses
    undisturbed = losses(workers)
    # One seed, in the middle: an outlier is then a fault and no chance.
    seed = sorted(undisturbed, key=undisturbed.get)[len(undisturbed) // 2]
    scenario.say(f"{workers} ranks, seed {seed}")
    job = scenario.job(workers, (*LOSS, *SLOW, "--seed", seed, "--checkpoint-every", 10, "--on-failure", "shrink"))
    kill_ranks(scenario, job, workers - 2)
    done = job.summary()
    left = workers - job.errors().count("going on from")
    check((done["steps"], done["ranks"]) == (LAST, left), f"ended with {done['ranks']} ranks in step {done['steps']}, "
          f"must have {left} in step {LAST}")
    allowed = [loss for n in range(left, workers + 1) for loss in losses(n).values()]
    check(min(allowed) <= done["eval_loss"] <= max(allowed),
          f"the loss {done['eval_loss']} must lie in [{min(allowed)}, {max(allowed)}]")
    scenario.say(f"loss {done['eval_loss']:.4f} in [{min(allowed):.4f}, {max(allowed):.4f}]")


def stops(scenario):
    more = scenario.chance.choice(((), ("--on-failure", "restart")))
    job, reference = scenario.bits_job(3, "--timeout", 5, *more)
    for _ in range(scenario.chance.randint(1, 3)):
        job.start()
        faults.at_random(job, scenario.chance)
        faults.stop(job, scenario.chance, scenario)
        job.all_gone()
    job.finish()
    same_bits(job, reference)


def orphans(scenario):
    job, reference = scenario.bits_job(3, "--timeout", 10)
    for _ in range(scenario.chance.randint(1, 2)):
        job.start()
        faults.at_random(job, scenario.chance)
        faults.kill_launcher(job, scenario.chance, scenario)
    job.finish()
    same_bits(job, reference)


def check_blame(job, rank):
    """The errors name the rank, and nobody else."""
    named = set(re.findall(r"rank (\d+) (?:does not answer|was paused or slow)", job.errors()))
    check(named == {str(rank)}, f"rank {rank} was to blame, named are {sorted(named)}: {job.errors()}")


def pause(scenario):
    """Shorter than the timeout: nothing happens. Longer: all say who it was."""
    chance, timeout = scenario.chance, 4
    job, reference = scenario.bits_job(4, "--timeout", timeout)
    job.start()
    faults.at_random(job, chance, starts=False)
    rank, pid = faults.some_rank(job, chance)
    seconds = chance.choice((chance.uniform(0.1, 1.5), chance.uniform(6, 9), HANG))
    if pid is not None and send(pid, signal.SIGSTOP):
        scenario.say(f"rank {rank} for {seconds:.1f} s")
        start = time.monotonic()
        faults.sleep(job, seconds)
        send(pid, signal.SIGCONT)
        status, _ = job.wait()
        if seconds < timeout:
            check(status == 0, f"a short pause must not matter: {job.errors()}")
        elif status != 0:
            check_blame(job, rank)
            scenario.measured("rank paused for good" if seconds == HANG else "rank paused for 6 to 9 s",
                              time.monotonic() - start)
        job.all_gone()
    if not (job.ended() and job.run.returncode == 0):
        job.finish()
    same_bits(job, reference)


def intruder(scenario):
    """A second job in the folder is refused and does no harm."""
    job, reference = scenario.bits_job(2)
    job.start()
    faults.at_random(job, scenario.chance, starts=False)
    first, number = job.run, job.starts
    if not job.ended():
        job.start(*scenario.chance.choice(((), ("--overwrite",))))
        status, seconds = job.wait()
        check(first.poll() is not None or status == 1 and "locked by process" in job.errors(),
              f"a second job must be refused, has status {status}: {job.errors()}")
        scenario.measured("second job refused", seconds)
        job.run, job.starts = first, number
    status, _ = job.wait()
    check(status == 0, f"the first one ended with status {status}: {job.errors()}")
    same_bits(job, reference)


def moved(scenario):
    """The run folder is renamed: the run is rescued and goes on from there."""
    job, reference = scenario.bits_job(3)
    job.start()
    faults.at_random(job, scenario.chance, starts=False)
    folder = job.folder / job.out
    folder.rename(job.folder / "moved")
    start = time.monotonic()
    status, _ = job.wait()
    check(status == 1 or (job.folder / "moved/summary.json").exists(), f"status {status}: {job.errors()}")
    if status == 1:
        scenario.measured("folder renamed", time.monotonic() - start)
        check(f"--resume {job.out}.rescued" in job.errors(), "no advice:", job.errors())
        job.out = "run.rescued"
        job.finish()
    else:
        job.out = "moved"
    same_bits(job, reference)


def full_disk(scenario):
    """The disk is full for a while, at any moment."""
    if os.geteuid() != 0:
        raise Skipped("needs root, for a small disk")
    chance = scenario.chance
    disk = scenario.folder / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skipped(f"needs a disk of its own: {made.stderr.strip()}")
    try:
        job, reference = scenario.bits_job(3)
        job.out = "disk/run"
        job.start()
        faults.at_random(job, chance, starts=False)
        left = chance.choice((0, 0, 1000, 100_000, 400_000))
        scenario.say(f"{left} bytes left")
        with open(disk / "filler", "wb", buffering=0) as filler:
            room = os.statvfs(disk)
            try:
                filler.write(bytes(max(room.f_bavail * room.f_bsize - left, 0)))
            except OSError:
                pass
        start = time.monotonic()
        status, _ = job.wait()
        check(status == 0 or "No space left on device" in job.errors(), f"status {status}: {job.errors()}")
        if status != 0:
            scenario.measured("disk full", time.monotonic() - start)
        (disk / "filler").unlink()
        job.all_gone()
        job.finish()
        same_bits(job, reference)
    finally:
        for job in scenario.jobs:
            job.clean_up()
        subprocess.run(["umount", "--lazy", disk])


def slow_disk(scenario):
    """One rank's disk takes longer than the timeout."""
    library = next((scenario.soak.build / "tests").rglob("libsluice_slow_disk.so"), None)
    if library is None:
        raise Skipped("needs the library sluice_slow_disk; build all of the release preset")
    seconds = scenario.chance.uniform(0.1, 5)
    env = {"LD_PRELOAD": library, "SLOW_DISK_SECONDS": f"{seconds:.2f}"}
    job, reference = scenario.bits_job(3, "--timeout", 4, "--checkpoint-every", 120, env=env)
    scenario.say(f"{seconds:.1f} s for a file")
    job.start()
    status, _ = job.wait()
    check(status == 0, f"a slow disk is no failure: {job.errors()}")
    same_bits(job, reference)


def mixed(scenario):
    """Any of it, one after the other."""
    chance = scenario.chance
    job, reference = scenario.bits_job(4, "--timeout", 10, "--on-failure", "restart", "--max-restarts", 20)
    for _ in range(chance.randint(2, 4)):
        if job.run is None or job.ended():
            job.start()
        faults.at_random(job, chance)
        what = chance.choice(("kill", "stop", "pause", "launcher"))
        if what == "kill":
            killed = faults.kill_rank(job, chance)
            scenario.kills += killed
            scenario.say(f"kill{'' if killed else ' of nobody'}")
        elif what == "stop":
            faults.stop(job, chance, scenario)
        elif what == "launcher":
            faults.kill_launcher(job, chance, scenario)
        else:
            rank, pid = faults.some_rank(job, chance)
            seconds = chance.uniform(0.1, 3)
            scenario.say(f"pause of {seconds:.1f} s")
            if pid is not None and send(pid, signal.SIGSTOP):
                faults.sleep(job, seconds)
                send(pid, signal.SIGCONT)
    job.wait()
    job.all_gone()
    job.finish()
    same_bits(job, reference)


def law(scenario):
    """Law 1 and equal replicas while messages are lost and ranks are late, over threads."""
    program = scenario.soak.build / "bin/sluice_tests"
    if not program.exists():
        raise Skipped("needs the program sluice_tests; build all of the release preset")
    seed = scenario.chance.randrange(1 << 32)
    scenario.say(f"seed {seed}")
    done = subprocess.run([program, "--gtest_filter=SyncStorm.*"], env={**os.environ, "SLUICE_TEST_SEED": str(seed),
                          "SLUICE_TEST_ROUNDS": "100"}, capture_output=True, text=True, timeout=HANG)
    (scenario.folder / "tests.out").write_text(done.stdout + done.stderr)
    check(done.returncode == 0 and "[  PASSED  ]" in done.stdout, f"SLUICE_TEST_SEED={seed}: {done.stdout[-2000:]}")


SCENARIOS = {f.__name__.replace("_", "-"): f for f in (
    restart, shrink, stops, orphans, pause, intruder, moved, full_disk, slow_disk, mixed, law, labs.link, labs.hosts,
    labs.slurm)}
# How often each comes in a round.
DECK = [*SCENARIOS, "restart", "shrink", "stops", "mixed"]
