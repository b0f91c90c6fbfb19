"""What DistributedDataParallel can do beside a plain step."""

import warnings

import models
import pytest
import torch
import torch.distributed as dist

import sluice


def train(model, ddp, steps, lr=0.1):
    for step in range(steps):
        model.zero_grad()
        models.loss_of(ddp, step).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
    return models.flat(model.parameters())


def weights(ddp_options, how, steps=4):
    """After some steps from the same weights."""
    model = models.small_model()
    ddp = models.wrapped(model, **ddp_options)
    sync = sluice.attach(ddp, density=0.05, plan="size=4k", **how)
    out = train(model, ddp, steps)
    assert models.same_on_all(out)
    assert sync.stats()["committed"] == steps
    sync.close()
    return out


OPTIONS = {
    "plain": {},
    "small buckets, which are rebuilt": {"bucket_cap_mb": 0.001},
    "views": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.01},
    "static graph": {"static_graph": True, "bucket_cap_mb": 0.01},
    "unused": {"find_unused_parameters": True, "bucket_cap_mb": 0.01},
}


def all_options():
    return {name: weights(o, {"collective": "allgather"}) for name, o in OPTIONS.items()}


def test_buckets_of_any_kind_change_no_bits(pool):
    for results in pool.run(3, all_options):
        for name, result in results.items():
            assert torch.equal(result, results["plain"]), name


def dense_against_ddp():
    model = models.small_model()
    plain = train(model, models.wrapped(model), 4)
    return plain, weights({}, {"sparsifier": "none"})


def test_sends_everything_as_ddp_does(pool):
    plain, ours = pool.run(2, dense_against_ddp)[0]
    # Two ranks: a sum of two numbers has one order.
    torch.testing.assert_close(ours, plain, rtol=1e-6, atol=1e-7)


def rounded_sums():
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, sparsifier="none", dense_collective="dense-bf16")
    bytes_sent = []
    for _ in range(2):
        model.zero_grad()
        models.loss_of(ddp, 0).backward()
        bytes_sent.append(sync.stats()["last"]["bytes_sent"])
    exact = models.summed(models.local_gradient(model, 0)) / dist.get_world_size()
    error = (models.gradients(model) - exact).abs().max() / exact.abs().max()
    sync.close()
    return error.item(), bytes_sent[-1] / models.flat(model.parameters()).numel()


def test_dense_sums_travel_in_bf16(pool):
    for error, bytes_per_value in pool.run(2, rounded_sums):
        assert 0 < error < 2**-6
        assert 2 <= bytes_per_value < 2.2


def warmed_up():
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, density=0.01, warmup="warmup:epochs=2", steps_per_epoch=2)
    out = []
    for step in range(6):
        model.zero_grad()
        models.loss_of(ddp, step).backward()
        last = sync.stats()["last"]
        sent = last["density"] * (last["sparse_elements"] + last["dense_elements"])
        out.append((sent - last["dense_elements"]) / last["sparse_elements"])
    sync.close()
    return out


def test_densities_warm_up_by_epochs(pool):
    # Equal factors from all to what was asked for, one per epoch of two steps.
    expected = [0.01 ** (epoch / 3) for epoch in (1, 1, 2, 2, 3, 3)]
    assert pool.run(2, warmed_up)[0] == pytest.approx(expected, rel=0.05)


def accumulate():
    model = models.small_model()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, sparsifier="none")
    with ddp.no_sync():
        models.loss_of(ddp, 0).backward()
    assert sync.stats()["step"] == 0
    models.loss_of(ddp, 1).backward()
    expected = models.summed(models.local_gradient(model, 0) + models.local_gradient(model, 1)) / 2
    torch.testing.assert_close(models.gradients(model), expected, rtol=1e-5, atol=1e-6)
    return sync.stats()["step"]


def test_no_sync_accumulates(pool):
    assert pool.run(2, accumulate) == [1, 1]


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.always = torch.nn.Linear(8, 8)
        self.sometimes = torch.nn.Linear(8, 8)
        self.to(models.DEVICE)

    def forward(self, x, both):
        y = self.always(x)
        return self.sometimes(y) if both else y


def unused():
    model = Branches()
    ddp = models.wrapped(model, find_unused_parameters=True)
    sync = sluice.attach(ddp, sparsifier="none")
    x = torch.ones(2, 8, device=models.DEVICE)
    # Only the first rank uses the second branch.
    ddp(x, dist.get_rank() == 0).square().mean().backward()
    assert models.same_on_all(models.gradients(model))
    assert model.sometimes.weight.grad.abs().sum() > 0
    return sync.stats()["committed"]


def test_parameters_that_one_rank_does_not_use(pool):
    assert pool.run(2, unused) == [1, 1]


def unused_by_all(views):
    """What is owed and handed out, per step: the second branch rests every other."""
    model = Branches()
    ddp = models.wrapped(model, find_unused_parameters=True, gradient_as_bucket_view=views)
    sync = sluice.attach(ddp, density=0.1)
    P, lost = dist.get_world_size(), []
    residual = torch.zeros(sum(p.numel() for p in model.parameters()), dtype=torch.double)
    for step in range(5):
        x = torch.randn(2, 8, generator=torch.Generator().manual_seed(10 * step + dist.get_rank())).to(models.DEVICE)
        used = step % 2 == 0
        inputs = list(model.parameters()) if used else list(model.always.parameters())
        grads = torch.autograd.grad(model(x, used).square().mean(), inputs)
        local = models.flat([g for g in grads] if used else [*grads, *map(torch.zeros_like, model.sometimes.parameters())])
        expected = models.summed(residual + local)
        ddp.zero_grad()
        ddp(x, used).square().mean().backward()
        means = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        residual = models.residual(sync).double()
        lost.append((models.summed(residual) + P * models.flat(means) - expected).abs().max().item())
    sync.close()
    return lost


@pytest.mark.parametrize("views", [False, True])
def test_nothing_is_lost_of_parameters_that_no_rank_uses(pool, views):
    for lost in pool.run(2, unused_by_all, views):
        assert max(lost) < 1e-5, lost


def subgroups():
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[rank // 2]
    model = models.small_model()
    ddp = models.wrapped(model, process_group=mine)
    sync = sluice.attach(ddp, density=0.1)
    ours = train(model, ddp, 3)
    other = models.small_model()
    second = sluice.attach(models.wrapped(other, process_group=mine), sparsifier="adtopk")
    # The user's own group works beside it.
    numbers = torch.tensor([float(rank)], device=models.DEVICE)
    dist.all_reduce(numbers, group=mine)
    return sync.world_size, second.world_size, ours, numbers.item()


def test_subgroups_are_apart(pool):
    answers = pool.run(4, subgroups)
    assert [a[0] for a in answers] == [2, 2, 2, 2]
    assert [a[3] for a in answers] == [1, 1, 5, 5]
    assert torch.equal(answers[0][2], answers[1][2])
    assert torch.equal(answers[2][2], answers[3][2])
    assert not torch.equal(answers[0][2], answers[2][2])


def channels_last():
    model = models.small_model().to(memory_format=torch.channels_last)
    ddp = models.wrapped(model)
    sluice.attach(ddp, density=0.05, plan="size=4k", collective="allgather")
    return train(model, ddp, 3), weights({}, {"collective": "allgather"}, 3)


def test_strides_do_not_matter(pool):
    ours, plain = pool.run(2, channels_last)[0]
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-6)


def half():
    model = models.small_model().bfloat16()
    ddp = models.wrapped(model)
    sync = sluice.attach(ddp, density=0.05)
    x = models.batch(0).bfloat16()
    ddp(x).square().mean().backward()
    assert models.same_on_all(models.gradients(model))
    return sync.stats()["committed"]


def test_parameters_of_half_precision(pool):
    assert pool.run(2, half) == [1, 1]


def compiled():
    model = models.small_model()
    ddp = models.wrapped(torch.compile(model, backend="eager"))
    sluice.attach(ddp, density=0.05, plan="size=4k", collective="allgather")
    return train(model, ddp, 2), weights({}, {"collective": "allgather"}, 2)


def test_compiled_modules(pool):
    ours, plain = pool.run(2, compiled)[0]
    assert torch.equal(ours, plain)


def by_pair():
    model = models.small_model()
    ddp = models.wrapped(model)
    ddp.register_comm_hook(sluice.HookState(ddp, density=0.05), sluice.comm_hook)
    return train(model, ddp, 2)


def test_the_pair_that_frameworks_take(pool):
    first, second = pool.run(2, by_pair)
    assert torch.equal(first, second)


def own_loop():
    P = dist.get_world_size()
    model = models.small_model()
    sync = sluice.GradientSync(model.named_parameters(), density=0.05)
    before = models.summed(models.local_gradient(model, 0))
    models.loss_of(model, 0).backward()
    assert sync.step()
    left = models.summed(models.residual(sync).double())
    torch.testing.assert_close(left + P * models.gradients(model), before, rtol=1e-5, atol=1e-7)
    return models.gradients(model)


@pytest.mark.parametrize("size", [1, 3])
def test_a_loop_of_ones_own(pool, size):
    results = pool.run(size, own_loop)
    assert all(torch.equal(r, results[0]) for r in results)


def uneven(how, find_unused):
    """Rank r has 2 + r batches; weights after all of them."""
    torch.manual_seed(0)
    model = Branches() if find_unused else models.small_model()
    ddp = models.wrapped(model, find_unused_parameters=find_unused)
    sync = how and sluice.attach(ddp, **how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ddp.join():
        for step in range(2 + dist.get_rank()):
            optimizer.zero_grad()
            if find_unused:
                x = torch.full((4, 8), 1.0 + step, device=models.DEVICE)
                ddp(x, step % 2 == 0).square().mean().backward()
            else:
                models.loss_of(ddp, step).backward()
            optimizer.step()
    if how:
        assert sync.stats()["committed"] == 1 + dist.get_world_size()
    # Ranks that have no more data take over the weights of one that has.
    return models.flat(model.parameters())


@pytest.mark.parametrize("find_unused", [False, True])
def test_join_takes_uneven_inputs(pool, find_unused):
    plain = pool.run(2, uneven, None, find_unused)
    dense = pool.run(2, uneven, {"sparsifier": "none"}, find_unused)
    sparse = pool.run(2, uneven, {"density": 0.1, "plan": "fixed"}, find_unused)
    for rank in range(2):
        assert torch.equal(dense[rank], plain[rank])
        assert torch.equal(sparse[rank], sparse[0]) and not torch.equal(sparse[rank], plain[rank])


def attached_again():
    model = models.small_model()
    ddp = models.wrapped(model)
    how = {"density": 0.1, "plan": "fixed"}
    first = sluice.attach(ddp, **how)
    models.loss_of(ddp, 0).backward()
    kept = models.residual(first)
    # A trainer that begins once more, with a scaler of its own.
    scaler = torch.amp.GradScaler(models.DEVICE, enabled=False)
    same = sluice.attach(ddp, scaler=scaler, **how) is first, torch.equal(models.residual(first), kept)
    first.close()
    second = sluice.attach(ddp, density=0.5, plan="fixed")
    ddp.zero_grad()
    models.loss_of(ddp, 1).backward()
    third = sluice.attach(ddp, density=0.5, plan="fixed")
    return same, third is second, second is not first, second.stats()["step"], models.same_on_all(models.gradients(model))


def test_a_model_may_be_attached_again(pool):
    assert pool.run(2, attached_again) == [((True, True), True, True, 1, True)] * 2


def dense_by_json():
    said = []
    for sparsifier in ("none", '{"name": "none"}'):
        ddp = models.wrapped(models.small_model(), bucket_cap_mb=0.01)
        sync = sluice.attach(ddp, sparsifier=sparsifier)
        for step in range(4):
            ddp.zero_grad()
            models.loss_of(ddp, step).backward()
        stats = sync.stats()["last"]
        adam = torch.optim.Adam(ddp.parameters())
        said.append((len(sync.plan["buckets"]), stats["density"], sync.momentum_advice(adam), models.gradients(ddp)))
        sync.close()
    return said


def test_dense_is_dense_however_it_is_spelled(pool):
    for plain, by_json in pool.run(2, dense_by_json):
        assert plain[:3] == by_json[:3] and plain[1:3] == (1, "") and plain[0] > 1
        assert torch.equal(plain[3], by_json[3])


def last_quarter(total):
    model = torch.nn.Linear(200, 100, bias=False).to(models.DEVICE)
    how = {"sparsifier": "adtopk-threshold:warm=4", "density": 0.01, "plan": "fixed", "total_steps": total}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sync = sluice.GradientSync(model.named_parameters(), **how)
    warned = any("does not know without total_steps" in str(w.message) for w in caught)
    assert warned == (total == 0 and sync.rank == 0)
    by_rows = []
    for step in range(80):
        torch.manual_seed(100 * dist.get_rank() + step)
        model.weight.grad = torch.randn(100, 200).to(models.DEVICE)
        sync.step()
        by_rows.append(sync.stats()["last"]["selected_per_budget"] == 1)
    sync.close()
    return by_rows[1::2]


def test_rules_know_how_far_the_training_is(pool):
    for without, known in zip(pool.run(2, last_quarter, 0), pool.run(2, last_quarter, 80)):
        assert without[:30] == known[:30], "the same until three quarters"
        assert sum(known[30:]) > sum(without[30:]), "turns by rows send as much as was asked for"


def reduced_by_python():
    torch._dynamo.config.optimize_ddp = "python_reducer"
    try:
        ddp = models.wrapped(models.small_model())
        sync = sluice.attach(ddp)
        compiled = torch.compile(ddp, backend="eager")
        with torch._dynamo.config.patch(optimize_ddp="python_reducer"), pytest.raises(RuntimeError) as error:
            models.loss_of(compiled, 0).backward()
        sync.close()
        return str(error.value)
    finally:
        torch._dynamo.config.optimize_ddp = True


def test_the_python_reducer_is_refused(pool):
    for text in pool.run(2, reduced_by_python):
        assert "optimize_ddp" in text and "leave it at True" in text
