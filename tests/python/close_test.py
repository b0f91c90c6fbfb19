"""What is left of a sync once it is closed, and what a forked process may do."""

import atexit
import os
import resource
import signal
import time

import models
import pytest
import torch
import torch.distributed as dist

import sluice


def held():
    """Descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def attached_often(times, sparsifier):
    seen = []
    # Ten descriptors for each would not do.
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, usual[1]))
    for n in range(times):
        model = torch.nn.Linear(8, 8, device=models.DEVICE)
        ddp = models.wrapped(model)
        sync = sluice.attach(ddp, sparsifier=sparsifier, density=0.5, timeout=30)
        ddp(torch.ones(2, 8, device=models.DEVICE) * dist.get_rank()).sum().backward()
        assert sync.stats()["step"] == 1
        sync.close()
        del ddp, sync
        if n % 20 == 0:
            seen.append(held())
    resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    # The last threads of gloo end by themselves.
    time.sleep(0.2)
    return seen, held()


@pytest.mark.parametrize("times, sparsifier", [(60, "topk"), (60, "none")])
def test_many_models_are_attached_to_one_after_another(pool, times, sparsifier):
    for seen, last in pool.run(2, attached_often, times, sparsifier):
        # torch and its DistributedDataParallel may keep something of the first.
        assert last[0] <= seen[0][0] + 5 and last[1] <= seen[0][1] + 5, (seen, last)


def closed_behind_the_last_message(times):
    """Who is done first closes while the others still wait for what it said."""
    model = torch.nn.Linear(4, 4, device=models.DEVICE)
    for n in range(times):
        sync = sluice.GradientSync(model.named_parameters(), timeout=60)
        model(torch.ones(1, 4, device=models.DEVICE)).sum().backward()
        assert sync.step()
        sync.close()
        with pytest.raises(ValueError, match="no sparsifier 'all-of-it'"):
            sluice.GradientSync(model.named_parameters(), sparsifier="all-of-it", timeout=60)
    return True


def test_what_was_said_before_the_end_arrives(pool):
    assert pool.run(3, closed_behind_the_last_message, 15) == [True] * 3


def closed_by_one():
    """Rank 1 finds at once that rank 0 has closed."""
    model = models.small_model()
    sync = sluice.GradientSync(model.named_parameters(), density=0.05, timeout=100)
    models.loss_of(model, 0).backward()
    assert sync.step()
    start = time.monotonic()
    text = ""
    if dist.get_rank() == 0:
        sync.close()
    else:
        with pytest.raises(sluice.CommError) as e:
            sync.step()
        text = str(e.value)
    # The user's own group is not disturbed.
    dist.barrier()
    return text, time.monotonic() - start


def test_who_goes_on_without_the_others_hears_of_it(pool):
    _, (text, took) = pool.run(2, closed_by_one)
    assert "rank 0 has closed its connection" in text, text
    assert took < 20


def in_child(what, sync, ddp):
    """The status of a forked process that does so; None if it does not end."""
    child = os.fork()
    if child == 0:
        try:
            if what == "close":
                sync.close()
            elif what == "exit":
                # What multiprocessing runs at the end of a process.
                atexit._run_exitfuncs()
            elif what == "drop":
                ddp._comm_hooks.clear()
                del ddp, sync
            else:
                with pytest.raises(RuntimeError, match="was forked"):
                    sync.stats()
            os._exit(7)
        except BaseException:
            os._exit(8)
    return status_of(child)


def status_of(child):
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def forked(what):
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, density=0.05, timeout=30)
    models.loss_of(ddp, 0).backward()
    status = in_child(what, sync, ddp)
    # The parent's is as it was.
    model.zero_grad()
    models.loss_of(ddp, 1).backward()
    return status, sync.stats()["step"], models.same_on_all(models.gradients(model))


@pytest.mark.parametrize("what", ["close", "drop", "exit", "ask"])
@pytest.mark.skipif(models.DEVICE == "cuda", reason="CUDA does not go with fork()")
def test_a_forked_process_ends_nothing(pool, what):
    assert pool.run(2, forked, what) == [(7, 2, True)] * 2
