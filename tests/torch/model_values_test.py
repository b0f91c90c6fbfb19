#!/usr/bin/env python3
"""Compares models with the same networks built from torch.nn in Python.

usage: model_values_test.py MODEL_VALUES

MODEL_VALUES writes weights, samples, and what a step makes of them; here they go
into the network of model_reference.py, which must have tensors of the same
names and shapes, and give the same logits, loss, gradients and running
statistics. All in float64, so that the bounds can be tight.

Exits with 77, with a reason, where the package torch is not installed.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as error:
    print(f"[model_values_test] skipped: no torch package ({error})")
    sys.exit(77)

import model_jobs
import model_reference

CASES = [
    ("resnet20", "images", (3, 32, 32, 10)),
    ("resnet18", "images", (3, 32, 32, 10)),
    ("resnet18:form=imagenet", "images", (3, 48, 64, 7)),
    ("resnet50:form=imagenet", "images", (1, 48, 48, 10)),
    ("vgg16", "images", (3, 32, 32, 10)),
    ("vgg19:widths=40-24,dropout=0", "images", (3, 32, 32, 10)),
    ("vgg16:form=imagenet,widths=16-12,dropout=0", "images", (3, 64, 32, 10)),
    ("vgg19:form=imagenet,bn=true,widths=16,dropout=0", "images", (3, 32, 64, 10)),
    ("alexnet:widths=32-24,dropout=0", "images", (3, 64, 96, 10)),
    ("vit-tiny", "images", (3, 32, 32, 10)),
    ("vit-tiny:patch=16", "images", (3, 32, 48, 11)),
    ("lstm:hidden=24,dropout=0", "tokens", (50, 13)),
    ("lstm:hidden=20,embed=12,layers=3,dropout=0", "tokens", (31, 9)),
    ("transformer:layers=2,width=30,heads=3,dropout=0", "tokens", (41, 11)),
    ("transformer:layers=3,width=16,ffn=40,heads=2,dropout=0", "tokens", (29, 17)),
    ("gpt2:layers=3,width=24,heads=3,context=16,dropout=0", "tokens", (53, 16)),
    ("gpt2-xl:layers=2,width=32,heads=4,dropout=0", "tokens", (37, 7)),
    ("bert-base:layers=2,width=24,heads=3,positions=20,dropout=0", "tokens", (45, 19)),
    (
        "bert-large:layers=3,width=16,heads=2,ffn=40,eps=1e-5,multiple=1,dropout=0",
        "tokens",
        (27, 12),
    ),
    ("deepspeech:width=24,layers=3,context=4", "spectra", (33, 12, 60)),
    ("deepspeech:width=16,layers=1,context=0", "spectra", (161, 29, 35)),
]
BATCH = 3
# Gradients travel as float32, which rounds by 6e-8.
BOUNDS = {"gradient": 2e-7, "after": 1e-12}
BOUND = 1e-10
# A bias before a normalisation has a gradient of 0 but for rounding.
SMALL = 1e-6


def read_checkpoint(path):
    """The tensors of a file as sluice/run/checkpoint.h describes it."""
    data = bytearray(path.read_bytes())
    magic, _, _, json_size, _ = struct.unpack_from("<8sIIQQ", data)
    assert magic == b"SLUICECK", magic
    begin = struct.calcsize("<8sIIQQ")
    tensors = {}
    for item in json.loads(data[begin : begin + json_size])["tensors"]:
        dtype = getattr(torch, item["dtype"])
        count = torch.Size(item["dims"]).numel()
        offset = begin + json_size + item["offset"]
        tensor = torch.frombuffer(data, dtype=dtype, count=count, offset=offset)
        tensors[item["name"]] = tensor.reshape(item["dims"])
    return tensors


def below(tensors, prefix):
    start = prefix + "/"
    return {
        name[len(start) :]: tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }


def relative_error(got, wanted):
    got, wanted = got.detach().double(), wanted.detach().double()
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    scale = wanted.abs().max().item()
    return (got - wanted).abs().max().item() / max(scale, SMALL)


def values_of(network, tensors):
    """What Python makes of them, by the names of the file."""
    state = below(tensors, "parameter") | below(tensors, "buffer")
    network.load_state_dict(state, strict=True)
    network.double()
    samples = below(tensors, "sample")
    logits = model_jobs.scores_of(network, samples)
    loss = model_jobs.loss_of(network, logits, samples)
    loss.backward()
    values = {"logits": logits, "loss": loss}
    for name, parameter in network.named_parameters():
        values[f"gradient/{name}"] = parameter.grad
    for name, buffer in network.named_buffers():
        values[f"after/{name}"] = buffer
    network.eval()
    values["evaluated"] = model_jobs.scores_of(network, samples)
    return values


def check(program, folder, model, kind, sizes):
    path = folder / "values"
    numbers = (*sizes, BATCH)
    subprocess.run([program, model, kind, *map(str, numbers), path], check=True)
    tensors = read_checkpoint(path)
    path.unlink()
    network = model_reference.make(model, kind, numbers)
    # The order too: buckets follow it.
    names = [name for name, _ in network.named_parameters()]
    assert list(below(tensors, "parameter")) == names, model
    values = values_of(network, tensors)
    worst = 0
    for name, wanted in values.items():
        error = relative_error(tensors[name], wanted)
        bound = BOUNDS.get(name.split("/")[0], BOUND)
        assert error <= bound, f"{model}: {name} is off by {error}"
        worst = max(worst, error)
    print(f"{model}: {len(values)} tensors agree within {worst:.1e}")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            check(program, pathlib.Path(folder), *case)
    print("[model_values_test] passed")


if __name__ == "__main__":
    main()
