"""The laws, over every sparsifier and collective: nothing is lost, and all ranks
have the same bits."""

import os

import models
import pytest
import torch
import torch.distributed as dist
from pool import ON_GPUS

import sluice

METHODS = sluice.list()
SPARSIFIERS = [row["name"] for row in METHODS["sparsifiers"]]
COLLECTIVES = [row["name"] for row in METHODS["collectives"]]


def laws(sparsifier, collectives, steps=3):
    """Per collective, what is wrong, if anything."""
    P = dist.get_world_size()
    wrong = []
    for collective in collectives:
        model = models.small_model()
        ddp = models.wrapped(model, bucket_cap_mb=0.01)
        how = {"collective": collective}
        if sparsifier == "none":
            how = {"dense_collective": collective}
        sync = sluice.attach(ddp, sparsifier=sparsifier, density=0.05, plan="size=4k", **how)
        residual = torch.zeros(sum(p.numel() for p in model.parameters()), dtype=torch.double)
        for step in range(steps):
            expected = models.summed(residual + models.local_gradient(model, step))
            model.zero_grad()
            models.loss_of(ddp, step).backward()
            mean = models.gradients(model)
            residual = models.residual(sync).double()
            error = (models.summed(residual) + P * mean - expected).abs().max().item()
            scale = expected.abs().max().item()
            if error > 1e-5 * scale:
                wrong.append(f"{collective}, step {step}: lost {error} of {scale}")
            if not models.same_on_all(mean):
                wrong.append(f"{collective}, step {step}: other bits on other ranks")
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
        sync.close()
    return wrong


# NCCL takes a while to connect ranks anew for every method; three of them are among the
# tests that are about GPUs alone. SLUICE_TEST_RANKS is for who runs them side by side.
SIZES = list(map(int, os.environ.get("SLUICE_TEST_RANKS", "1,2,4" if ON_GPUS else "1,2,3,4").split(",")))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sparsifier", SPARSIFIERS)
def test_nothing_is_lost_and_bits_are_the_same(pool, sparsifier, size):
    # Rounding to bf16 keeps no remainder for tensors that stay dense.
    chosen = ["dense"] if sparsifier == "none" else COLLECTIVES
    for wrong in pool.run(size, laws, sparsifier, chosen):
        assert wrong == []
