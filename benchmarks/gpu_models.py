#!/usr/bin/env python3
"""Samples/s of training a network from torch.nn on a GPU, as a PyTorch user would.

usage: gpu_models.py MODEL [--precision fp32|bf16] [--batch 64] [--steps 60]

The same network, loss and optimizer as `sluice train --device cuda --sparsifier none`,
with what makes it fast in Python: TF32, channels-last, cudnn's search, autocast, fused
SGD, gradients set to None, nothing read back. The batch is on the GPU already, so
nothing is loaded or copied; sluice does both in its number. Prints samples/s.
"""

import argparse
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "torch"))
import model_reference  # noqa: E402

SHAPE = (3, 224, 224)
CLASSES = 1000
WARM_UP = 20  # cudnn's search, and the first allocations


class Training:
    def __init__(self, model, batch, precision, device):
        self.bf16 = precision == "bf16"
        self.device = device
        network = model_reference.make(model, "images", (*SHAPE, CLASSES))
        self.network = network.to(device, memory_format=torch.channels_last)
        self.images = torch.randn(batch, *SHAPE, device=device).to(
            memory_format=torch.channels_last
        )
        self.labels = torch.arange(batch, device=device) % CLASSES
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=1e-3, momentum=0.9, fused=True
        )

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            scores = self.network(self.images)
            loss = torch.nn.functional.cross_entropy(scores, self.labels)
        loss.backward()
        self.optimizer.step()

    def run(self, count):
        for _ in range(count):
            self.step()
        if self.device == "cuda":
            torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="as in `sluice list models`")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=WARM_UP)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("[gpu_models] torch sees no GPU; --device cpu shows that it works")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    training = Training(
        arguments.model, arguments.batch, arguments.precision, arguments.device
    )
    training.run(arguments.warm_up)
    start = time.perf_counter()
    training.run(arguments.steps)
    seconds = time.perf_counter() - start
    print(f"{arguments.batch * arguments.steps / seconds:.1f}")


if __name__ == "__main__":
    main()
