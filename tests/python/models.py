"""Small models and their gradients, as the ranks of a test see them. Models are on
the device of the tests, what is compared is on the CPU."""

import torch
import torch.distributed as dist
from pool import ON_GPUS
from torch.nn.parallel import DistributedDataParallel

DEVICE = "cuda" if ON_GPUS else "cpu"


def small_model():
    """The same on every rank: matrices, a convolution, and vectors."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 6 * 6, 40),
        torch.nn.ReLU(),
        torch.nn.Linear(40, 10),
    ).to(DEVICE)


def batch(step, rank=None):
    rank = dist.get_rank() if rank is None else rank
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(4, 1, 8, 8, generator=generator).to(DEVICE)


def loss_of(model, step, rank=None):
    return model(batch(step, rank)).square().mean()


def local_gradient(model, step):
    """What this rank's backward would give, flat; leaves the model as it was."""
    grads = torch.autograd.grad(loss_of(model, step), list(model.parameters()))
    return flat(grads)


def flat(tensors):
    return torch.cat([t.detach().double().flatten().cpu() for t in tensors])


def gradients(model):
    return flat([p.grad for p in model.parameters()])


def wrapped(model, **how):
    return DistributedDataParallel(model, **how)


def same_on_all(tensor):
    mine = tensor.to(DEVICE)
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    return all(torch.equal(t, all_of_them[0]) for t in all_of_them)


def summed(tensor):
    out = tensor.to(DEVICE, copy=True)
    dist.all_reduce(out)
    return out.cpu()


def residual(sync):
    return sync.state_dict()[f"rank{sync.rank}"]["residual"]
