#!/usr/bin/env python3
"""The loop of Hugging Face's examples: Accelerate prepares, Sluice is attached.

    torchrun --nproc-per-node 2 examples/python/with_accelerate.py

Accelerate's DistributedDataParallelKwargs takes options of DDP, but of hooks only
those that it has names for. The prepared model is a DistributedDataParallel,
which is all that sluice.attach wants.
"""

import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from fashion_mnist import DATA, make_model, read_split
from torch.utils.data import DataLoader, TensorDataset

import sluice


def prepare(accelerator, options):
    """Model, optimizer, loaders and what exchanges the gradients."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    train = TensorDataset(*read_split(options.data, "train", options.limit))
    test = TensorDataset(*read_split(options.data, "t10k"))
    model, optimizer, train_loader, test_loader = accelerator.prepare(
        model,
        optimizer,
        DataLoader(train, options.batch_size, shuffle=True, drop_last=True),
        DataLoader(test, 500),
    )
    sync = sluice.attach(
        model,
        sparsifier=options.sparsifier,
        density=options.density,
        scaler=accelerator.scaler,  # None unless mixed_precision="fp16"
    )
    # With the states of all ranks, of which save_state() writes one file.
    accelerator.register_for_checkpointing(sync.all_ranks)
    return model, optimizer, train_loader, test_loader, sync


def train(accelerator, model, optimizer, loader):
    model.train()
    for images, labels in loader:
        # All but the last of gradient_accumulation_steps are under no_sync().
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    right = []
    for images, labels in loader:
        guesses, labels = accelerator.gather_for_metrics((model(images).argmax(1), labels))
        right.append(guesses == labels)
    return torch.cat(right).float().mean().item()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA, help="folder of the IDX files (%(default)s)")
    parser.add_argument("--limit", type=int, default=20000, help="train with the first so many images (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="per rank (%(default)s)")
    parser.add_argument("--accumulate", type=int, default=2, help="backward passes per step (%(default)s)")
    parser.add_argument("--state", help="folder to go on from, if it is there, and to write at the end")
    parser.add_argument("--mixed-precision", default="no", choices=["no", "bf16", "fp16"], help="(%(default)s)")
    parser.add_argument("--sparsifier", default="adtopk", help="a name of sluice.list() (%(default)s)")
    parser.add_argument("--density", type=float, default=0.01, help="share that is sent (%(default)s)")
    parser.add_argument("--lr", type=float, default=0.5, help="learning rate (%(default)s)")
    return parser.parse_args()


def main():
    options = parse()
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),  # without it, ranks on CPUs would be jobs of one
        gradient_accumulation_steps=options.accumulate,
        mixed_precision=options.mixed_precision,
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    if accelerator.num_processes < 2:
        raise SystemExit("[with_accelerate] a job must have 2 ranks or more, got 1; start it with torchrun")
    model, optimizer, train_loader, test_loader, sync = prepare(accelerator, options)
    if options.state and os.path.exists(options.state):
        accelerator.load_state(options.state)
    train(accelerator, model, optimizer, train_loader)
    if options.state:
        accelerator.save_state(options.state)
    accuracy = evaluate(accelerator, model, test_loader)
    stats = sync.stats()
    accelerator.print(
        f"accuracy {accuracy:.2%} after {stats['step']} steps, "
        f"sent {stats['total']['bytes_sent'] / (stats['committed'] + stats['skipped']) / 1e6:.3f} MB per step and rank"
    )
    # Before the group: torch may hang where DDP is the last to let go of it.
    model, optimizer = accelerator.free_memory(model, optimizer)
    accelerator.end_training()


if __name__ == "__main__":
    main()
