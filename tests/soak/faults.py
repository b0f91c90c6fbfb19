"""What the soak does to a run: at which moment, and to whom."""

import signal
import time

from job import check, send, wait_for

# Of a run that is not yet there: enough to be killed while it starts, too little to be killed only then.
SOON = 4


def sleep(job, seconds):
    """Until then or until it has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not job.ended():
        time.sleep(0.005)


def has_trained(job):
    wait_for(lambda: job.ended() or job.latest(), "the first checkpoint")


def at_random(job, chance, starts=True, soon=SOON):
    """Waits for a moment: any, or while ranks start, or while they write a checkpoint. Its name."""
    kind = chance.choice(("any", "any", "start", "checkpoint") if starts else ("any", "checkpoint"))
    if not starts:
        has_trained(job)
    if kind == "start":
        wait_for(lambda: job.ended() or job.ranks(), "the ranks")
        sleep(job, chance.uniform(0, 1))
    elif kind == "checkpoint":
        seen = job.latest()
        wait_for(lambda: job.ended() or job.saving() or job.latest() != seen, "a checkpoint")
        sleep(job, chance.uniform(0, 0.02))
    else:
        sleep(job, chance.uniform(0.1, soon))
    return kind


def some_rank(job, chance):
    """Number and process of a rank; None if there is none any more."""
    number = chance.random()
    wait_for(lambda: job.ended() or job.ranks(), "the ranks")
    ranks = job.ranks()
    if not ranks:
        return None, None
    rank = int(number * len(ranks))
    return rank, ranks[rank]


def kill_rank(job, chance):
    """Whether one was killed."""
    _, pid = some_rank(job, chance)
    return pid is not None and send(pid, signal.SIGKILL)


def goes_on_by_itself(job):
    """Then the time until its end is not that of the fault."""
    return "going on from" in job.errors()


def stop(job, chance, scenario):
    """SIGTERM or SIGINT, once or twice, to the launcher, a rank or mpirun; waits for the end."""
    number = chance.choice((signal.SIGTERM, signal.SIGINT))
    gap = chance.choice((None, 0, 0.02))
    whom = chance.choice(("launcher", "launcher", "rank", "mpirun"))
    scenario.say(f"{signal.Signals(number).name} {'once' if gap is None else f'twice in {gap} s'} to {whom}")
    if whom == "launcher":
        pid = job.run.pid
    elif whom == "rank":
        _, pid = some_rank(job, chance)
    else:
        pid = next(iter(job.mpirun()), None)
    if job.ended() or pid is None or not send(pid, number):
        return
    if gap is not None:
        time.sleep(gap)
        send(pid, number)
    status, seconds = job.wait()
    # Where mpirun is told twice it kills the ranks, and where one comes before they listen they end by it.
    if whom == "launcher":
        check(status in (0, 1, -number), f"stopped with status {status}: {job.errors()}")
    if not goes_on_by_itself(job):
        scenario.measured(f"stop of the {whom}", seconds)


def kill_launcher(job, chance, scenario):
    """Nothing may outlive it."""
    whom = chance.choice(("launcher", "mpirun"))
    pid = job.run.pid if whom == "launcher" else next(iter(job.mpirun()), None)
    scenario.say(f"SIGKILL to the {whom}")
    if job.ended() or pid is None or not send(pid, signal.SIGKILL):
        return
    start = time.monotonic()
    job.wait()
    job.all_gone()
    if not goes_on_by_itself(job):
        scenario.measured(f"SIGKILL of the {whom}", time.monotonic() - start)
