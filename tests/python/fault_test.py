"""Ranks that die, stop, differ or bring values that are not finite."""

import datetime
import os
import signal
import sys
import threading
import time

import models
import pytest
import torch
import torch.distributed as dist
from pool import Raised

import sluice


def nonfinite(policy):
    model = models.small_model()
    ddp = models.wrapped(model, bucket_cap_mb=0.001)
    sync = sluice.attach(ddp, density=0.05, nonfinite=policy)
    models.loss_of(ddp, 0).backward()
    before = models.residual(sync)
    model.zero_grad()
    loss = models.loss_of(ddp, 1)
    if dist.get_rank() == 1:
        loss = loss * float("inf")
    loss.backward()
    assert sync.skipped
    assert all(not p.grad.isfinite().any() for p in model.parameters())
    if dist.get_rank() == 1:
        assert torch.equal(models.residual(sync), before)
    model.zero_grad()
    models.loss_of(ddp, 2).backward()
    assert not sync.skipped
    assert models.same_on_all(models.gradients(model))
    return sync.stats()["skipped"]


def test_a_step_that_is_not_finite_is_seen_by_all(pool):
    assert pool.run(3, nonfinite, "skip") == [1, 1, 1]


def test_a_step_that_is_not_finite_may_stop_all(pool):
    pool.start(2, nonfinite, "stop")
    for answer in pool.answers(2):
        assert isinstance(answer, Raised)
        assert "stopped the job" in answer.text and "step 2" in answer.text


def scaled(enabled, spoil, hook=True):
    """Scales change nothing that is sent, and an overflow skips the step."""
    model = models.small_model()
    ddp = models.wrapped(model) if hook else model
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=1024.0, growth_interval=2, enabled=enabled)
    how = {"density": 0.05, "collective": "allgather", "scaler": scaler}
    sync = sluice.attach(ddp, **how) if hook else sluice.GradientSync(model.named_parameters(), **how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        loss = models.loss_of(ddp, step)
        if spoil and step == 3 and dist.get_rank() == 0:
            loss = loss * float("nan")
        if spoil and step == 3 and not enabled:
            continue
        scaler.scale(loss).backward()
        if not hook:
            sync.step()
        scaler.step(optimizer)
        scaler.update()
    return models.flat(model.parameters()), models.residual(sync), scaler.get_scale()


@pytest.mark.parametrize("hook", [True, False])
def test_residuals_are_kept_unscaled(pool, hook):
    # Scales are powers of two: nothing is rounded.
    for ours, plain in zip(pool.run(2, scaled, True, False, hook), pool.run(2, scaled, False, False, hook)):
        assert ours[2] == 4096.0 and plain[2] == 1.0
        assert torch.equal(ours[0], plain[0]) and torch.equal(ours[1], plain[1])


@pytest.mark.parametrize("hook", [True, False])
def test_a_scaler_sees_a_step_that_is_skipped(pool, hook):
    with_scaler = pool.run(2, scaled, True, True, hook)
    without = pool.run(2, scaled, False, True, hook)
    for ours, plain in zip(with_scaler, without):
        # Rank 1's gradient of the step that was skipped stays in its residual.
        assert ours[2] == 1024.0
        assert torch.isfinite(ours[0]).all() and torch.isfinite(ours[1]).all()
        assert ours[1].abs().max() < 100 * plain[1].abs().max()
    assert torch.equal(with_scaler[0][0], with_scaler[1][0])


def closed_at_once():
    """No other thread has the interpreter's lock unless it is given up."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)
    for _ in range(120):
        ddp = models.wrapped(torch.nn.Linear(8, 8, device=models.DEVICE))
        scaler = torch.amp.GradScaler(models.DEVICE)
        sync = sluice.attach(ddp, scaler=scaler)
        scaler.scale(ddp(torch.ones(2, 8, device=models.DEVICE)).sum()).backward()
        sync.close()
    sys.setswitchinterval(interval)
    return True


def test_closes_right_behind_a_step(pool):
    assert pool.run(1, closed_at_once) == [True]


def dies(how, timeout, sparsifier):
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, sparsifier=sparsifier, density=0.05, timeout=timeout)
    # Before its second step DDP itself exchanges what its buckets are to be, and
    # before the third we do.
    for step in range(4):
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), how)
    start = time.monotonic()
    try:
        ddp.zero_grad()
        models.loss_of(ddp, 4).backward()
    except sluice.CommError as e:
        took = time.monotonic() - start
        residual = models.residual(sync)
        # What is not in the residual is where it was.
        as_it_was = torch.equal(models.gradients(model), models.local_gradient(model, 4))
        return str(e), took, bool(residual.isfinite().all()), residual.abs().sum().item(), as_it_was
    return None


# With nothing sparse, all go by gloo's own sum, which knows no deadline of ours.
@pytest.mark.parametrize("sparsifier", ["topk", "none"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_is_named_on_every_survivor(pool, how, sparsifier):
    processes = pool.start(3, dies, how, 3.0, sparsifier)
    if how == signal.SIGSTOP:
        # The survivors answer while it is stopped.
        survivors = [pool.answer_of(0), pool.answer_of(2)]
        os.kill(processes[1].pid, signal.SIGCONT)
        pool.answer_of(1)
    else:
        survivors = [a for a in pool.answers(3) if a is not None]
    pool.forget_group()
    assert len(survivors) == 2
    for answer in survivors:
        assert not isinstance(answer, Raised), answer.trace
        text, took, finite, kept, as_it_was = answer
        assert "rank 1" in text and "step 5" in text, text
        assert finite and (kept > 0 if sparsifier == "topk" else as_it_was)


def ends(sparsifier, group_timeout):
    """As dies(), by a timeout that is far away, or that of the group."""
    how = {} if group_timeout else {"timeout": 100}
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, sparsifier=sparsifier, density=0.05, **how)
    for step in range(4):
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        models.loss_of(ddp, 4).backward()
    except sluice.CommError as e:
        failed = time.monotonic() - start
        with pytest.raises(sluice.CommError):
            sync.recover()
        sync.close()
        return str(e), failed, time.monotonic() - start
    return None


@pytest.mark.parametrize("sparsifier", ["topk", "none"])
@pytest.mark.parametrize("group_timeout", [False, True])
def test_a_rank_that_ends_is_missed_at_once(pool, sparsifier, group_timeout):
    pool.start(3, ends, sparsifier, group_timeout)
    survivors = [a for a in pool.answers(3) if a is not None]
    pool.forget_group()
    assert len(survivors) == 2
    for answer in survivors:
        assert not isinstance(answer, Raised), answer.trace
        text, failed, all_of_it = answer
        assert "rank 1 has closed its connection" in text and "step 5" in text, text
        assert failed < 20 and all_of_it < 30


def timeouts():
    model = models.small_model()
    seconds = datetime.timedelta(seconds=77)
    group = dist.new_group(timeout=seconds, backend="nccl" if models.DEVICE == "cuda" else "gloo")
    by_group = sluice.attach(models.wrapped(model, process_group=group))
    by_default = sluice.GradientSync(models.small_model().named_parameters())
    given = sluice.attach(models.wrapped(models.small_model()), timeout=5)
    return [sync._how["timeout"] for sync in (by_group, by_default, given)]


def test_the_timeout_is_that_of_the_group(pool):
    usual = 600 if models.DEVICE == "cuda" else 1800
    assert pool.run(2, timeouts) == [[77, usual, 5]] * 2


def interrupted(way):
    """Ctrl-C on rank 0 in the middle of a step that rank 1 is late for."""
    model = models.small_model()
    if way == "step":
        sync = sluice.GradientSync(model.named_parameters(), density=0.05, timeout=100)
    else:
        ddp = models.wrapped(model, bucket_cap_mb=0.001)
        state = sync = sluice.HookState(ddp, sparsifier=way, density=0.05, timeout=100)

        def hook(state, bucket):
            future = sluice.comm_hook(state, bucket)
            if bucket.is_last() and dist.get_rank() == 0 and sync.stats()["step"] == 3:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
            return future

        hook.__annotations__ = sluice.comm_hook.__annotations__
        ddp.register_comm_hook(state, hook)
    # DDP's own exchange comes before its second step, ours before the third.
    for step in range(3):
        models.loss_of(model if way == "step" else ddp, step).backward()
        if way == "step":
            sync.step()
    start = time.monotonic()
    if dist.get_rank() == 1:
        time.sleep(2)
    elif way == "step":
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    text = ""
    try:
        models.loss_of(model if way == "step" else ddp, 3).backward()
        if way == "step":
            sync.step()
    except (KeyboardInterrupt, sluice.CommError) as e:
        text = f"{type(e).__name__}: {e}"
    sync.close()
    return text, time.monotonic() - start


@pytest.mark.parametrize("way", ["topk", "none", "step"])
def test_a_step_that_the_user_stops_ends_at_once(pool, way):
    first, second = pool.run(2, interrupted, way)
    pool.forget_group()
    assert first[0].startswith("KeyboardInterrupt")
    assert second[0].startswith("CommError") and "rank 0" in second[0] and "step 4" in second[0], second
    assert first[1] < 20 and second[1] < 20


def late(sparsifier):
    """Rank 1 comes too late for a step; both go on, by the same bits."""
    model = models.small_model()
    sync = sluice.GradientSync(model.named_parameters(), sparsifier=sparsifier, density=0.05, timeout=2)
    out = []
    for step in range(4):
        model.zero_grad()
        models.loss_of(model, step).backward()
        if step == 2 and dist.get_rank() == 1:
            time.sleep(3)
        try:
            sync.step()
        except sluice.CommError as e:
            model.zero_grad()
            assert not sync.recover()
            out.append(str(e))
            continue
        assert models.same_on_all(models.gradients(model))
    return out, sync.stats()["step"]


@pytest.mark.parametrize("sparsifier", ["topk", "none"])
def test_a_rank_that_is_late_can_be_waited_for(pool, sparsifier):
    first, second = pool.run(2, late, sparsifier)
    assert "rank 1" in first[0][0] and len(first[0]) == len(second[0]) == 1
    assert first[1] == second[1] == 3


def looked_at():
    """Others may ask while a step is under way, and nobody waits for nobody."""
    model = models.small_model()
    sync = sluice.GradientSync(model.named_parameters(), density=0.05)
    done = threading.Event()
    seen = []

    def look():
        while not done.is_set():
            seen.append(sync.stats()["step"])
            sync.plan, sync.skipped

    watcher = threading.Thread(target=look)
    watcher.start()
    for step in range(60):
        model.zero_grad()
        models.loss_of(model, step).backward()
        sync.step()
    done.set()
    watcher.join()
    return seen == sorted(seen) and sync.stats()["step"] == 60


def test_others_may_look_while_a_step_is_under_way(pool):
    assert pool.run(2, looked_at) == [True, True]


class Fails:
    @staticmethod
    def check(flags):
        if any(flags):
            raise ArithmeticError("of the user's own")


def abandoned(sparsifier, timeout, late):
    """Backward throws on rank 0 when some buckets are on their way already."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(30, 30) for _ in range(6)]).to(models.DEVICE)
    fails = []
    model[2].register_full_backward_hook(lambda *_: Fails.check(fails))
    ddp = models.wrapped(model, bucket_cap_mb=0.004)
    sync = sluice.attach(ddp, sparsifier=sparsifier, density=0.05, timeout=timeout, plan="layerwise")
    x = torch.ones(2, 30, device=models.DEVICE) * (rank + 1)
    ddp(x).square().mean().backward()
    ddp(x).square().mean().backward()
    kept = models.residual(sync)
    fails.append(rank == 0)
    if rank == 1:
        time.sleep(late)
    text = ""
    try:
        ddp(x).square().mean().backward()
    except (ArithmeticError, sluice.CommError) as e:
        text = f"{type(e).__name__}: {e}"
    fails.clear()
    committed = sync.recover()
    grown = not torch.equal(models.residual(sync), kept)
    # DDP does not go on behind a backward that threw; the sync does.
    loss = model(x).square().mean()
    for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
        p.grad = g
    assert sync.step()
    assert models.same_on_all(models.gradients(model))
    return text, committed, grown, sync.stats()["step"]


# Sums by gloo that have begun end by the time of their group, if nobody ends them:
# too late for a rank that came to recover() before.
@pytest.mark.parametrize("sparsifier, timeout, late", [("topk", 20, 0), ("none", 3, 1)])
def test_an_abandoned_step_is_told_and_does_not_spoil_the_next(pool, sparsifier, timeout, late):
    first, second = pool.run(2, abandoned, sparsifier, timeout, late)
    assert first[0].startswith("ArithmeticError")
    assert second[0].startswith("CommError")
    assert "rank 0 gave up step 3" in second[0]
    assert first[1:] == second[1:] == (False, sparsifier == "topk", 3)


def settings(rank_1):
    model = models.small_model()
    how = {"density": 0.05, "timeout": 20}
    if dist.get_rank() == 1:
        how.update(rank_1)
    sluice.GradientSync(model.named_parameters(), **how)


@pytest.mark.parametrize(
    "other, text",
    [
        ({"density": 0.1}, "rank 1 differs from rank 0 in density: '0.05', '0.1'"),
        ({"sparsifier": "dgc"}, "rank 1 differs from rank 0 in sparsifier: 'topk', 'dgc'"),
        ({"exceptions": {"5": "dense"}}, "rank 1 differs from rank 0 in exceptions: '', '5'"),
        ({"exceptions": {"5": "no_feedback"}}, "rank 1 differs from rank 0 in exceptions: '', '5'"),
        ({"emulate": "50us,1Gbit"}, "rank 1 has 'emulate=50us,1Gbit' and rank 0 ''"),
        ({"warmup": "warmup:epochs=2", "steps_per_epoch": 2}, "rank 1 differs from rank 0 in warmup: ''"),
        ({"total_steps": 9}, "rank 1 differs from rank 0 in total_steps: 0, 9"),
        ({"density": 0}, "density"),
        ({"sparsifier": "nothing"}, "no sparsifier 'nothing'"),
    ],
)
def test_other_settings_are_found_at_the_start(pool, other, text):
    pool.start(3, settings, other)
    for answer in pool.answers(3):
        assert isinstance(answer, Raised) and answer.name == "ValueError"
        assert text in answer.text, answer.text


def attached_alone():
    """Rank 1 comes too late, and then both are there."""
    text, start = "", time.monotonic()
    model = models.small_model()
    if dist.get_rank() == 0:
        try:
            sluice.GradientSync(model.named_parameters(), timeout=1)
        except sluice.CommError as e:
            text = str(e)
    took = time.monotonic() - start
    dist.barrier()
    sync = sluice.GradientSync(model.named_parameters(), timeout=20)
    models.loss_of(model, 0).backward()
    return text, took, sync.step()


def test_a_rank_that_attaches_alone_does_not_wait_for_ever(pool):
    (text, took, first), (_, _, second) = pool.run(2, attached_alone)
    assert "rank 0 waited 1 s for rank 1 to attach; all ranks of the group must do so" in text
    assert took < 20 and first and second


def other_model():
    width = 8 + dist.get_rank()
    sluice.GradientSync(torch.nn.Linear(width, 4).named_parameters(), timeout=20)


def test_other_models_are_found_at_the_start(pool):
    pool.start(2, other_model)
    for answer in pool.answers(2):
        assert "rank 1 differs from rank 0 in parameter 0" in answer.text


def closed_behind_an_error(times):
    # Nobody else gets the interpreter's lock before the sync is gone, unless it is
    # let go on purpose.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    raised = 0
    for _ in range(times):
        ddp = models.wrapped(models.small_model())
        sync = sluice.attach(ddp, nonfinite="stop")
        try:
            (models.loss_of(ddp, 0) * float("nan")).backward()
        except RuntimeError:
            sync.close()
            raised += 1
    sys.setswitchinterval(usual)
    return raised


def test_a_sync_may_be_closed_right_behind_an_error(pool):
    assert pool.run(2, closed_behind_an_error, 20) == [20, 20]
