"""Copies and pickles of a model that sluice is attached to."""

import copy
import io
import os
import pickle
import tempfile

import models
import pytest
import torch
from torch.optim.swa_utils import AveragedModel

import sluice


def saved(ddp):
    buffer = io.BytesIO()
    torch.save(ddp, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


WAYS = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda ddp: pickle.loads(pickle.dumps(ddp)),
    "save": saved,
    "average": lambda ddp: AveragedModel(ddp).module,
}


def copied(way):
    model = models.small_model()
    ddp = models.wrapped(model)
    scaler = torch.amp.GradScaler(models.DEVICE, enabled=False)
    sync = sluice.attach(ddp, density=0.05, timeout=20, scaler=scaler)
    models.loss_of(ddp, 0).backward()
    twin = WAYS[way](ddp)
    assert torch.equal(models.flat(twin.module.parameters()), models.flat(model.parameters()))

    # The copy exchanges as DistributedDataParallel does by itself, dense.
    twin.zero_grad()
    models.loss_of(twin, 1).backward()
    mean = models.summed(models.local_gradient(model, 1)) / 2
    torch.testing.assert_close(models.gradients(twin.module), mean, rtol=1e-5, atol=1e-6)
    assert sync.stats()["step"] == 1

    # The original is still attached, and the copy takes an attachment of its own.
    ddp.zero_grad()
    models.loss_of(ddp, 1).backward()
    assert sync.stats()["step"] == 2 and not sync.skipped
    second = sluice.attach(twin, density=0.05, timeout=20)
    twin.zero_grad()
    models.loss_of(twin, 2).backward()
    return second.stats()["step"], models.same_on_all(models.gradients(twin.module))


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_the_model_is_a_plain_one(pool, way):
    assert pool.run(2, copied, way) == [(1, True), (1, True)]


def copied_sync():
    model = models.small_model()
    sync = sluice.GradientSync(model.named_parameters(), timeout=20)
    twins = [copy.deepcopy(sync), copy.copy(sync), pickle.loads(pickle.dumps(sync))]
    said = []
    for twin in twins:
        assert twin.names == sync.names
        with pytest.raises(RuntimeError) as e:
            twin.step()
        said.append(str(e.value))
        assert "names=" not in repr(twin)
        twin.close()
    models.loss_of(model, 0).backward()
    assert sync.step()
    return said


def test_a_copy_of_a_sync_is_closed(pool):
    for said in pool.run(2, copied_sync):
        assert all("was closed" in text and "attach again" in text for text in said)


def averaged():
    model = models.small_model()
    ddp = models.wrapped(model)
    sluice.attach(ddp, density=0.5, timeout=20)
    average = AveragedModel(ddp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(3):
        optimizer.zero_grad()
        models.loss_of(ddp, step).backward()
        optimizer.step()
        average.update_parameters(ddp)
        seen.append(models.flat(model.parameters()))
    out = models.flat(average.module.module.parameters())
    torch.testing.assert_close(out, torch.stack(seen).mean(0), rtol=1e-5, atol=1e-6)
    return models.same_on_all(out)


def test_averages_of_weights_are_kept_beside_it(pool):
    assert pool.run(2, averaged) == [True, True]


def written(path):
    ddp = models.wrapped(models.small_model())
    sluice.attach(ddp, timeout=20)
    if os.environ.get("RANK", "0") == "0":
        torch.save(ddp, path)
    return True


def test_a_file_of_the_model_loads_without_the_group_of_the_writer(pool):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.pt"
        assert pool.run(1, written, path) == [True]
        assert pool.run(1, read, path) == [True]


def read(path):
    ddp = torch.load(path, weights_only=False)
    models.loss_of(ddp, 0).backward()
    return all(p.grad is not None for p in ddp.parameters())
