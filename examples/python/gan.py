#!/usr/bin/env python3
"""A generative adversarial network, both of whose models exchange sparse gradients.

    torchrun --nproc-per-node 2 examples/python/gan.py
    torchrun --nproc-per-node 2 examples/python/gan.py --unpaused    # what goes wrong

The generator's loss goes through the discriminator, whose gradients of that pass
nobody uses. Without sync.paused() they are exchanged, and what is not sent of them
stays in the residual and pushes the discriminator the wrong way later on.

The points to be learned lie around eight centres on a circle: no data set is needed.
"""

import argparse
import math

import torch
import torch.distributed as dist
from fashion_mnist import end_group, start_group
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import sluice

CENTRES, SPREAD, NOISE = 8, 0.05, 16


def real_points(count, generator):
    angle = torch.randint(CENTRES, (count,), generator=generator) * (2 * math.pi / CENTRES)
    return torch.stack([angle.cos(), angle.sin()], 1) + SPREAD * torch.randn(count, 2, generator=generator)


def make_model(inputs, outputs, seed, width):
    torch.manual_seed(seed)
    layers = [nn.Linear(inputs, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Gan:
    """Two models that are wrapped, with an optimizer and a sync each."""

    def __init__(self, options, device):
        how = {"sparsifier": options.sparsifier, "density": options.density}
        models = [make_model(NOISE, 2, 1, options.width), make_model(2, 1, 2, options.width)]
        self.g, self.d = (DistributedDataParallel(m.to(device)) for m in models)
        self.sync_g, self.sync_d = (sluice.attach(ddp, **how) for ddp in (self.g, self.d))
        self.for_g, self.for_d = (
            torch.optim.Adam(ddp.parameters(), lr=options.lr, betas=(0.0, 0.99)) for ddp in (self.g, self.d)
        )
        self.pauses = not options.unpaused

    def step(self, real, noise):
        """The share of points that the discriminator takes for what they are."""
        made = self.g(noise)
        self.for_d.zero_grad()
        scores = self.d(torch.cat([real, made.detach()]))
        are_real = torch.cat([torch.ones_like(scores[: len(real)]), torch.zeros_like(scores[len(real) :])])
        nn.functional.binary_cross_entropy_with_logits(scores, are_real).backward()
        self.for_d.step()

        self.for_g.zero_grad()
        loss = nn.functional.softplus(-self.d(made)).mean()
        if self.pauses:
            with self.sync_d.paused():  # the generator's own sync is not
                loss.backward()
        else:
            loss.backward()
        self.for_g.step()
        return ((scores > 0) == (are_real > 0)).float().mean().item()


def covered(points):
    """The share of points that are near a centre, and how many centres have some."""
    angle = torch.arange(CENTRES) * (2 * math.pi / CENTRES)
    distance, nearest = torch.cdist(points, torch.stack([angle.cos(), angle.sin()], 1)).min(1)
    near = distance < 4 * SPREAD
    return near.float().mean().item(), nearest[near].bincount(minlength=CENTRES).gt(len(points) / 100).sum().item()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=2000, help="train for so many steps (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=128, help="per rank (%(default)s)")
    parser.add_argument("--width", type=int, default=128, help="of the hidden layers (%(default)s)")
    parser.add_argument("--unpaused", action="store_true", help="exchange what is thrown away as well")
    parser.add_argument("--sparsifier", default="topk", help="a name of sluice.list() (%(default)s)")
    parser.add_argument("--density", type=float, default=0.05, help="share that is sent (%(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate (%(default)s)")
    return parser.parse_args()


def main():
    options = parse()
    device = start_group()
    gan = Gan(options, device)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    told_apart = 0.0
    for _ in range(options.limit):
        real = real_points(options.batch_size, generator).to(device)
        noise = torch.randn(options.batch_size, NOISE, generator=generator).to(device)
        told_apart += gan.step(real, noise) / options.limit
    with torch.no_grad():
        near, centres = covered(gan.g.module(torch.randn(4000, NOISE, generator=generator).to(device)).cpu())
    if dist.get_rank() == 0:
        steps = gan.sync_d.stats()
        print(f"{near:.1%} of the points are near one of {centres} centres, told apart {told_apart:.1%}")
        print(f"the discriminator has exchanged {steps['step']} steps and paused {steps['paused']}")
    del gan  # before its group
    end_group()


if __name__ == "__main__":
    main()
