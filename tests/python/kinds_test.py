"""Parameters and gradients that are not sparsified: float64, complex, empty, sparse."""

import warnings

import models
import pytest
import torch
import torch.distributed as dist

import sluice


class Odd(torch.nn.Module):
    """One parameter of each kind, beside plain ones."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.plain = torch.nn.Linear(20, 20)
        self.wide = torch.nn.Parameter(torch.randn(5, 3, dtype=torch.float64))
        self.phase = torch.nn.Parameter(torch.randn(4, 2, dtype=torch.complex64))
        self.twist = torch.nn.Parameter(torch.randn(2, 5, dtype=torch.complex64))
        self.long_phase = torch.nn.Parameter(torch.randn(3, dtype=torch.complex128))
        self.empty = torch.nn.Parameter(torch.empty(0, 7))
        self.table = torch.nn.Embedding(30, 4, sparse=True)
        self.to(models.DEVICE)

    def forward(self, x, rows):
        y = self.plain(x).square().mean() + self.table(rows).square().sum() + self.empty.sum()
        y = y + (self.wide * x.double().mean() / 3).sin().sum()
        y = y + (self.twist * x[2, 2]).abs().square().sum()
        return y + (self.phase * x[0, 0]).abs().sum() + (self.long_phase * x[1, 1]).abs().square().sum()


class Plain64(torch.nn.Module):
    """Nothing that is sparsified."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 2)).double().to(models.DEVICE)

    def forward(self, x, rows):
        return self.layers(x[:, :6].double()).square().mean()


def loss_of(model, step, rank=None):
    rank = dist.get_rank() if rank is None else rank
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(4, 20, generator=generator)
    rows = torch.randint(30, (6,), generator=generator)
    return model(x.to(models.DEVICE), rows.to(models.DEVICE))


def mean_gradients(model, step):
    """By name, of all ranks."""
    size = dist.get_world_size()
    losses = [loss_of(model, step, rank) for rank in range(size)]
    named = dict(model.named_parameters())
    grads = [torch.autograd.grad(loss, list(named.values()), allow_unused=True) for loss in losses]
    out = {}
    for name, *each in zip(named, *grads):
        out[name] = sum(g.to_dense() if g.is_sparse else g for g in each) / size
    return out


def is_exact(name):
    return not name.startswith("plain")


def optimizers(model):
    """A sparse gradient wants an optimizer that takes it."""
    sparse = [p for n, p in model.named_parameters() if n.startswith("table")]
    dense = [p for n, p in model.named_parameters() if not n.startswith("table")]
    out = [torch.optim.SGD(dense, lr=0.1)]
    return out + [torch.optim.SparseAdam(sparse, lr=0.1)] if sparse else out


def trained(kind, way, views=False):
    """What is sent whole is the mean of each step; losses fall; weights stay alike."""
    model = {"odd": Odd, "float64": Plain64}[kind]()
    how = {"density": 0.1, "timeout": 30}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if way == "hook":
            ddp = models.wrapped(model, bucket_cap_mb=0.001, gradient_as_bucket_view=views)
            sync = sluice.attach(ddp, **how)
        else:
            ddp = model
            sync = sluice.GradientSync(model.named_parameters(), exceptions={"table*": "dense"} if kind == "odd" else {}, **how)
        steppers = optimizers(model)
        for step in range(4):
            for optimizer in steppers:
                optimizer.zero_grad()
            expected = mean_gradients(model, step)
            loss_of(ddp, step).backward()
            if way == "loop":
                assert sync.step()
            assert not sync.skipped
            for name, p in model.named_parameters():
                if not is_exact(name) or p.grad is None:
                    continue
                grad = p.grad
                if name.startswith("table"):
                    assert grad.is_sparse
                    grad = grad.to_dense()
                close = {"rtol": 1e-14, "atol": 1e-14} if p.dtype in (torch.float64, torch.complex128) else {}
                torch.testing.assert_close(grad, expected[name], **close)
            for optimizer in steppers:
                optimizer.step()
    weights = [torch.view_as_real(p) if p.is_complex() else p for p in model.parameters()]
    state = sync.state_dict()
    sync.load_state_dict(state)
    sync.close()
    texts = [str(w.message) for w in said]
    return models.same_on_all(models.flat(weights)), texts


@pytest.mark.parametrize("way, views", [("hook", False), ("hook", True), ("loop", False)])
@pytest.mark.parametrize("kind", ["odd", "float64"])
def test_what_is_not_sparsified_is_sent_whole(pool, kind, way, views):
    for same, _ in pool.run(3, trained, kind, way, views):
        assert same


def said():
    from sluice import momentum

    momentum._said.clear()
    texts = trained("odd", "hook")[1] + trained("odd", "loop")[1]
    return [sum("float64 and complex" in t for t in texts), sum("sparse gradients" in t for t in texts)]


def test_it_is_said_once_on_rank_0(pool):
    assert pool.run(2, said) == [[1, 1], [0, 0]]


def accumulated():
    model = Odd()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, density=0.1, timeout=30)
    expected = {n: g + mean_gradients(model, 1)[n] for n, g in mean_gradients(model, 0).items()}
    with ddp.no_sync():
        loss_of(ddp, 0).backward()
    loss_of(ddp, 1).backward()
    for name, p in model.named_parameters():
        if is_exact(name) and p.grad is not None:
            torch.testing.assert_close(p.grad.to_dense() if p.grad.is_sparse else p.grad, expected[name])
    return sync.stats()["step"]


def test_no_sync_accumulates_all_kinds(pool):
    assert pool.run(2, accumulated) == [1, 1]


def skipped(spoiled, way, scaled):
    """Rank 1 has NaN in one parameter: all gradients of all ranks are NaN."""
    model = Odd()
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=1024.0, enabled=scaled)
    how = {"density": 0.1, "timeout": 30, "scaler": scaler}
    ddp = models.wrapped(model) if way == "hook" else model
    sync = sluice.attach(ddp, **how) if way == "hook" else sluice.GradientSync(model.named_parameters(), **how)
    before = models.flat([model.plain.weight])
    loss = loss_of(ddp, 0)
    if dist.get_rank() == 1:
        bad = getattr(model, spoiled)
        bad = bad.weight if spoiled == "table" else bad
        bad.register_hook(lambda g: g * float("nan"))
    scaler.scale(loss).backward()
    if way == "loop":
        assert not sync.step()
    assert sync.skipped
    for p in model.parameters():
        grad = p.grad
        if grad is None or p.numel() == 0:
            continue
        grad = grad.to_dense() if grad.is_sparse else grad
        assert not torch.view_as_real(grad).isfinite().all() if p.is_complex() else not grad.isfinite().any()
    optimizer = torch.optim.SGD([p for p in model.parameters() if not p.is_complex()], lr=0.1)
    if scaled:
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(models.flat([model.plain.weight]), before)
        assert scaler.get_scale() == 512.0
    return True


@pytest.mark.parametrize("spoiled", ["wide", "phase", "table"])
@pytest.mark.parametrize("way, scaled", [("hook", False), ("loop", False), ("hook", True)])
def test_a_step_with_nan_is_skipped_whatever_the_kind(pool, spoiled, way, scaled):
    if scaled and spoiled == "phase":
        pytest.skip("torch's GradScaler does not unscale complex gradients")
    assert pool.run(2, skipped, spoiled, way, scaled) == [True, True]


def scaled_steps(enabled):
    model = Odd()
    ddp = models.wrapped(model)
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=1024.0, enabled=enabled)
    sync = sluice.attach(ddp, density=0.1, collective="allgather", timeout=30, scaler=scaler)
    # What a GradScaler can unscale.
    mine = [p for n, p in model.named_parameters() if not p.is_complex()]
    optimizer = torch.optim.SGD(mine, lr=0.1)
    for step in range(3):
        model.zero_grad()
        scaler.scale(loss_of(ddp, step)).backward()
        scaler.step(optimizer)
        scaler.update()
    sync.close()
    return models.flat(mine)


def test_scales_change_nothing(pool):
    for ours, plain in zip(pool.run(2, scaled_steps, True), pool.run(2, scaled_steps, False)):
        torch.testing.assert_close(ours, plain, rtol=1e-6, atol=1e-7)


def failing(way):
    """Rank 1 is late in step 2: gradients stay as they were, and both go on."""
    import time

    model = Odd()
    how = {"density": 0.1, "timeout": 3, "exceptions": {"table*": "dense"}}
    sync = sluice.GradientSync(model.named_parameters(), **how)
    loss_of(model, 0).backward()
    assert sync.step()
    model.zero_grad()
    loss_of(model, 1).backward()
    mine = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    if dist.get_rank() == 1:
        time.sleep(5)
    with pytest.raises(sluice.CommError):
        sync.step()
    assert not sync.recover()
    for name, p in model.named_parameters():
        if is_exact(name) and p.grad is not None:
            assert torch.equal(p.grad.to_dense(), mine[name].to_dense()), name
    model.zero_grad()
    expected = mean_gradients(model, 2)
    loss_of(model, 2).backward()
    assert sync.step()
    for name, p in model.named_parameters():
        if is_exact(name) and p.numel() > 0:
            torch.testing.assert_close(p.grad.to_dense(), expected[name])
    return sync.stats()["step"]


def test_a_step_that_fails_leaves_all_kinds_as_they_were(pool):
    assert pool.run(2, failing, "loop") == [2, 2]


def nothing_at_all():
    with pytest.raises(ValueError) as e:
        sluice.GradientSync([("none", torch.nn.Parameter(torch.empty(0, device=models.DEVICE)))], timeout=20)
    return str(e.value)


def test_a_model_without_elements_is_refused(pool):
    assert "must be a parameter that has elements" in pool.run(1, nothing_at_all)[0]
