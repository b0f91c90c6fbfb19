"""What is about GPUs alone; with SLUICE_TEST_DEVICE=cuda the other files run there, too."""

import models
import pytest
import torch
import torch.distributed as dist
from pool import ON_GPUS

import sluice

pytestmark = pytest.mark.skipif(not ON_GPUS, reason="SLUICE_TEST_DEVICE is not cuda")


def trained(ddp, steps=4, **how):
    """By which link, and the weights after some steps."""
    sync = sluice.attach(ddp, density=0.05, plan="size=4k", **how)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        models.loss_of(ddp, step).backward()
        optimizer.step()
    out = sync.link, models.flat(ddp.parameters()), models.residual(sync)
    sync.close()
    return out


def by_links():
    links = {}
    for link in ("nccl", "host"):
        ddp = models.wrapped(models.small_model())
        links[link] = trained(ddp, collective="allgather", dense_rank=0, gpu_link=link)
    return links


@pytest.mark.parametrize("size", [2, 3, 4])
def test_lists_have_the_bits_of_the_host(pool, size):
    for links in pool.run(size, by_links):
        for link, (used, _, _) in links.items():
            assert used == link
        assert torch.equal(links["nccl"][1], links["host"][1])
        assert torch.equal(links["nccl"][2], links["host"][2])


def over_gloo():
    """The user's group may be of gloo, which takes tensors of GPUs as well."""
    group = dist.new_group(backend="gloo")
    return trained(models.wrapped(models.small_model(), process_group=group))[:2]


def test_groups_of_gloo(pool):
    first, second = pool.run(2, over_gloo)
    assert first[0] == "nccl"
    assert torch.equal(first[1], second[1])


def in_half_precision(spoil):
    """Steps in fp16 with a scaler whose first scales overflow, or of one rank's."""
    model = models.small_model()
    ddp = models.wrapped(model)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10, growth_interval=1000)
    sync = sluice.attach(ddp, density=0.1, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(12):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = ddp(models.batch(0)).float().square().mean()
        losses.append(loss.item())
        if spoil and step == 3 and dist.get_rank() == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    residual = models.residual(sync)
    return losses, scaler.get_scale(), sync.stats()["skipped"], residual.isfinite().all().item(), models.flat(model.parameters())


@pytest.mark.parametrize("spoil", [False, True])
def test_autocast_with_a_scaler(pool, spoil):
    answers = pool.run(2, in_half_precision, spoil)
    for losses, scale, skipped, finite, weights in answers:
        assert losses[-1] < 0.9 * losses[0]
        assert scale == (2.0**9 if spoil else 2.0**10)
        assert skipped == (1 if spoil else 0)
        assert finite and torch.equal(weights, answers[0][4])


def on_a_stream_of_ones_own():
    """Backward, exchange and what is made of it on another stream than the default."""
    ddp = models.wrapped(models.small_model())
    plain = trained(ddp, collective="allgather")[1]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        ours = trained(models.wrapped(models.small_model()), collective="allgather")[1]
    return torch.equal(plain, ours)


def test_streams_of_ones_own(pool):
    assert pool.run(2, on_a_stream_of_ones_own) == [True, True]


def skipped_on_a_stream():
    """NaN of a step that was skipped are there for who reads on that stream."""
    parameter = torch.nn.Parameter(torch.zeros(2000, 2000, device="cuda"))
    sync = sluice.GradientSync([("w", parameter)])
    stream = torch.cuda.Stream()
    seen = []
    with torch.cuda.stream(stream):
        for step in range(4):
            parameter.grad = torch.full_like(parameter, float("nan") if step % 2 else 1.0)
            took = sync.step()
            seen.append((took, parameter.grad.isnan().all().item()))
    return seen


def test_a_step_that_is_skipped_on_a_stream(pool):
    for seen in pool.run(2, skipped_on_a_stream):
        assert seen == [(True, False), (False, True)] * 2


def compiled():
    torch._dynamo.reset()
    model = models.small_model()
    ddp = models.wrapped(torch.compile(model))
    sluice.attach(ddp, density=0.05)
    losses = []
    for step in range(6):
        model.zero_grad()
        loss = models.loss_of(ddp, 0)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
    return losses, models.flat(model.parameters())


def test_compiled_kernels(pool):
    first, second = pool.run(2, compiled)
    assert torch.equal(first[1], second[1])
    # Their batches differ, and both are learned.
    for losses, _ in (first, second):
        assert losses[-1] < losses[0]


def nothing_new_is_allocated():
    """Device memory that torch does not know of, before and after many steps."""
    ddp = models.wrapped(models.small_model())
    sluice.attach(ddp, density=0.05)
    free = []
    for step in range(60):
        ddp.zero_grad()
        models.loss_of(ddp, step).backward()
        if step in (29, 59):
            torch.cuda.synchronize()
            free.append(torch.cuda.mem_get_info()[0])
    return free


def test_steps_allocate_nothing(pool):
    (before, after), = pool.run(1, nothing_new_is_allocated)
    assert before == after
