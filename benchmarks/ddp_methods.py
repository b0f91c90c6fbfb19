"""What ddp_peers.py compares: ways to exchange gradients under DDP, by name, each
with the optimizer that is known to suit it."""

import os
import re

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.optim import PostLocalSGDOptimizer

PLAIN = re.compile(
    r"ddp|fp16|bf16-own|topk-naive@0?\.[0-9]+|powersgd-[1-9][0-9]*|batched-[1-9][0-9]*|postlocal-[1-9][0-9]*"
)
ATTACH = re.compile(r"attach-(none|bf16|[a-z][a-z0-9-]*@0?\.[0-9]+)")
EXACT_STEPS = 10  # before PowerSGD and local steps begin, all is exact


def known(method):
    return bool(PLAIN.fullmatch(method) or ATTACH.fullmatch(method))


def is_sparse(method):
    return "@" in method


def recipe(method):
    """(rate, momentum): where residuals are kept, momentum beside them costs
    accuracy, so that the rate is what it would come to."""
    return (0.5, 0.0) if is_sparse(method) else (0.05, 0.9)


def bf16_own(group, bucket):
    """PyTorch's refuses CPUs. Divided first, as there."""
    small = bucket.buffer().div(dist.get_world_size()).bfloat16()
    future = dist.all_reduce(small, group=group, async_op=True).get_future()
    return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))


class NaiveTopk:
    """The k largest of a bucket, by an all-gather of values and indices."""

    def __init__(self, density):
        self.density = density
        self.residuals = {}

    def hook(self, bucket):
        gradient = bucket.buffer()
        key = (bucket.index(), gradient.numel())  # DDP makes its buckets anew once
        residual = self.residuals.setdefault(key, torch.zeros_like(gradient))
        residual += gradient
        count = max(1, int(self.density * residual.numel()))
        indices = residual.abs().topk(count, sorted=False).indices
        values = residual[indices]
        residual[indices] = 0
        ranks = dist.get_world_size()
        all_values = [torch.empty_like(values) for _ in range(ranks)]
        all_indices = [torch.empty_like(indices) for _ in range(ranks)]
        dist.all_gather(all_values, values)
        dist.all_gather(all_indices, indices)
        gradient.zero_()
        gradient.index_add_(0, torch.cat(all_indices), torch.cat(all_values) / ranks)
        future = torch.futures.Future()
        future.set_result(gradient)
        return future


def naive_topk(state, bucket):
    return state.hook(bucket)


def attach(model, method):
    import sluice

    emulate = os.environ.get("DDP_PEERS_EMULATE", "")
    if not is_sparse(method):
        how = {"dense_collective": "dense-bf16"} if method == "attach-bf16" else {}
        return sluice.attach(model, sparsifier="none", emulate=emulate, **how)
    sparsifier, density = method.removeprefix("attach-").split("@")
    return sluice.attach(model, sparsifier=sparsifier, density=float(density), emulate=emulate)


def repair_batched():
    """In torch 2.13 batched_powerSGD_hook hands a matrix to what takes batches only."""
    original = powerSGD_hook._orthogonalize

    def orthogonalize(matrices, epsilon=0):
        original(matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)

    powerSGD_hook._orthogonalize = orthogonalize


def add_hook(model, method):
    """Returns what must live as long as the model, if anything."""
    name, _, number = method.partition("-")
    if method == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif method == "bf16-own":
        model.register_comm_hook(None, bf16_own)
    elif method.startswith("topk-naive"):
        model.register_comm_hook(NaiveTopk(float(method.split("@")[1])), naive_topk)
    elif name in ("powersgd", "batched"):
        state = powerSGD_hook.PowerSGDState(
            process_group=None,
            matrix_approximation_rank=int(number),
            start_powerSGD_iter=EXACT_STEPS,
        )
        if name == "batched":
            repair_batched()
            model.register_comm_hook(state, powerSGD_hook.batched_powerSGD_hook)
        else:
            model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name == "postlocal":
        state = post_localSGD_hook.PostLocalSGDState(
            None, None, EXACT_STEPS, post_local_gradient_allreduce=False
        )
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    elif name == "attach":
        return attach(model, method)
    return None


def make_optimizer(model, method):
    rate, momentum = recipe(method)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    if not method.startswith("postlocal"):
        return optimizer
    period = int(method.split("-")[1])
    averager = averagers.PeriodicModelAverager(period=period, warmup_steps=EXACT_STEPS)
    return PostLocalSGDOptimizer(optim=optimizer, averager=averager)


def settings_of_ddp(method):
    # powerSGD_hook over gloo aborts where there are several buckets.
    return {"bucket_cap_mb": 1000} if method.startswith(("powersgd", "batched")) else {}
