#!/usr/bin/env python3
"""Lightning's Trainer: its DDPStrategy with Sluice's hook.

    torchrun --nproc-per-node 2 examples/python/with_lightning.py

DDPStrategy(ddp_comm_state=..., ddp_comm_hook=sluice.comm_hook) wants a state
before there is a process group, and Lightning leaves hooks out on CPUs, without
a word. A strategy that attaches once the model is wrapped works on all devices.
"""

import argparse
import logging
import os
import warnings

import lightning
import torch
from fashion_mnist import DATA, make_model, read_split
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

import sluice


class SluiceStrategy(DDPStrategy):
    """DistributedDataParallel that exchanges sparse gradients; settings as of
    sluice.attach()."""

    def __init__(self, how, **options):
        super().__init__(**options)
        self.how = how

    def configure_ddp(self):
        super().configure_ddp()
        self.sync = sluice.attach(self.model, **self.how)

    def save_checkpoint(self, checkpoint, filepath, storage_options=None):
        # Lightning calls it on all ranks, and rank 0 writes the file.
        checkpoint["sluice"] = self.sync.state_dict(all_ranks=True)
        super().save_checkpoint(checkpoint, filepath, storage_options)

    def load_optimizer_state_dict(self, checkpoint):
        # Called behind configure_ddp(), as the model's own state is loaded before.
        super().load_optimizer_state_dict(checkpoint)
        self.sync.load_state_dict(checkpoint["sluice"])


class Classifier(lightning.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.network = make_model()
        self.lr = lr

    def training_step(self, batch, _):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.network(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        right = (self.network(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA, help="folder of the IDX files (%(default)s)")
    parser.add_argument("--limit", type=int, default=20000, help="train with the first so many images (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="per rank (%(default)s)")
    parser.add_argument("--epochs", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--checkpoint", help="file to go on from, if it is there, and to write at the end")
    parser.add_argument("--ranks", type=int, default=2, help="as torchrun starts them (%(default)s)")
    parser.add_argument("--sparsifier", default="adtopk", help="a name of sluice.list() (%(default)s)")
    parser.add_argument("--density", type=float, default=0.01, help="share that is sent (%(default)s)")
    parser.add_argument("--lr", type=float, default=0.5, help="learning rate (%(default)s)")
    return parser.parse_args()


def quiet():
    """Advice on loaders' processes and what hardware there is."""
    warnings.filterwarnings("ignore", module="lightning")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)


def main():
    options = parse()
    quiet()
    train = TensorDataset(*read_split(options.data, "train", options.limit))
    test = TensorDataset(*read_split(options.data, "t10k"))
    strategy = SluiceStrategy({"sparsifier": options.sparsifier, "density": options.density})
    trainer = lightning.Trainer(
        strategy=strategy,
        devices=options.ranks,
        accelerator="auto" if torch.cuda.device_count() >= options.ranks else "cpu",
        max_epochs=options.epochs,
        num_sanity_val_steps=0,
        **{"logger": False, "enable_checkpointing": False},
        **{"enable_progress_bar": False, "enable_model_summary": False},
    )
    loader = DataLoader(train, options.batch_size, shuffle=True, drop_last=True)
    known = options.checkpoint if options.checkpoint and os.path.exists(options.checkpoint) else None
    trainer.fit(Classifier(options.lr), loader, DataLoader(test, 500), ckpt_path=known)
    if options.checkpoint:
        trainer.save_checkpoint(options.checkpoint)
    if trainer.is_global_zero:
        stats = strategy.sync.stats()
        print(
            f"accuracy {trainer.callback_metrics['accuracy']:.2%} after {stats['step']} steps, "
            f"sent {stats['total']['bytes_sent'] / (stats['committed'] + stats['skipped']) / 1e6:.3f} MB per step and rank"
        )


if __name__ == "__main__":
    main()
