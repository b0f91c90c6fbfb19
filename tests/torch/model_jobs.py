"""A step of training of the networks in model_reference.py, by kind of samples.

The counterpart of model_job.h: the same names for samples, the same numbers in
the same order, the same losses.
"""

import torch
from torch.nn import functional as F


def scores_of(network, samples):
    kind = getattr(network, "kind", "image")
    if kind == "image":
        return network(samples["images"])
    if kind == "language":
        return network(samples["tokens"])
    if kind == "span":
        return network(samples["tokens"], samples["segments"], samples["mask"])
    scores, samples["output_lengths"] = network(
        samples["spectra"], samples["lengths"]
    )
    return scores


def loss_of(network, scores, samples):
    kind = getattr(network, "kind", "image")
    if kind == "image":
        return F.cross_entropy(scores, samples["labels"])
    if kind == "language":
        return F.cross_entropy(scores.flatten(0, 1), samples["targets"].flatten())
    if kind == "span":
        ends = samples["ends"]
        return sum(F.cross_entropy(scores[:, :, i], ends[:, i]) for i in (0, 1)) / 2
    return F.ctc_loss(
        scores.log_softmax(2).transpose(0, 1),
        samples["targets"],
        samples["output_lengths"],
        samples["target_lengths"],
    )


def falling_lengths(count, longest):
    return longest - torch.arange(count) * max(1, longest // 8)


def draw_samples(network, numbers):
    """Of the shapes that the numbers say; for times, not for values."""
    kind = getattr(network, "kind", "image")
    if kind == "image":
        channels, height, width, classes, batch = numbers
        images = torch.randn(batch, channels, height, width)
        return {"images": images, "labels": torch.arange(batch) % classes}
    if kind == "speech":
        bins, labels, times, batch = numbers
        said = max(1, times // 16)
        return {
            "spectra": torch.randn(batch, bins, times),
            "lengths": falling_lengths(batch, times),
            "targets": torch.randint(1, labels, (batch, said)),
            "target_lengths": torch.full((batch,), said),
        }
    words, length, batch = numbers
    text = torch.randint(words, (batch, length + 1))
    if kind == "language":
        return {
            "tokens": text[:, :-1].contiguous(),
            "targets": text[:, 1:].contiguous(),
        }
    times = torch.arange(length)
    return {
        "tokens": text[:, 1:].contiguous(),
        "segments": (times >= length // 4).long().repeat(batch, 1),
        "mask": (times < falling_lengths(batch, length)[:, None]).long(),
        "ends": torch.randint(max(1, length // 2), (batch, 2)),
    }
