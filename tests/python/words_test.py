"""Gradients that a user does not want: paused(), tentative() and discard(), and the
warning where exchanged gradients are thrown away."""

import time
import warnings

import models
import pytest
import torch
import torch.distributed as dist
from pool import ON_GPUS

import sluice


def attached(hook, **how):
    """A model, what its forward pass goes through, and a sync of it."""
    model = models.small_model()
    how = {"density": 0.05, "plan": "size=4k", "collective": "balanced", **how}
    if not hook:
        return model, model, sluice.GradientSync(model.named_parameters(), **how)
    ddp = models.wrapped(model, bucket_cap_mb=0.01)
    return model, ddp, sluice.attach(ddp, **how)


def backward(model, net, sync, step, scale=1.0):
    """One backward pass, and the exchange where the loop does it."""
    model.zero_grad()
    (models.loss_of(net, step) * scale).backward()
    if net is model:
        sync.step()


def kept(sync):
    """All that goes from step to step, but the number of steps."""
    entry = sync.state_dict()[f"rank{sync.rank}"]
    return {key: value for key, value in entry.items() if key != "info"}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def same_memories(a, b):
    """Of different runs: of what collectives learn, some are times that they took."""
    return all(torch.equal(a[key], b[key]) for key in ("residual", "momentum", "rules"))


def quiet_tentative():
    warnings.filterwarnings("ignore", r"\[tentative\]")


def paused(hook, scaled):
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=1024.0) if scaled else None
    model, net, sync = attached(hook, scaler=scaler)
    backward(model, net, sync, 0)
    before, stats = kept(sync), sync.stats()
    with sync.paused():
        backward(model, net, sync, 1)
    expected = models.local_gradient(model, 1)
    torch.testing.assert_close(models.gradients(model), expected, rtol=1e-5, atol=1e-7)
    after = sync.stats()
    assert same(before, kept(sync))
    assert after["paused"] == 1 and after["step"] == stats["step"] and after["total"] == stats["total"]
    backward(model, net, sync, 2)
    return models.gradients(model), models.residual(sync)


def not_paused(hook, scaled):
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=1024.0) if scaled else None
    model, net, sync = attached(hook, scaler=scaler)
    for step in (0, 2):
        backward(model, net, sync, step)
    return models.gradients(model), models.residual(sync)


@pytest.mark.parametrize("hook, scaled", [(True, False), (False, False), (True, True)])
def test_a_paused_pass_exchanges_and_leaves_nothing(pool, hook, scaled):
    with_pause = pool.run(2, paused, hook, scaled)
    without = pool.run(2, not_paused, hook, scaled)
    for ours, plain in zip(with_pause, without):
        assert torch.equal(ours[0], plain[0]) and torch.equal(ours[1], plain[1])


def paused_beside_no_sync():
    """Under both, and accumulated: what a later pass exchanges is the sum."""
    model, ddp, sync = attached(True, sparsifier="none", plan="auto", collective="auto")
    with sync.paused():
        with ddp.no_sync():
            models.loss_of(ddp, 0).backward()
        models.loss_of(ddp, 1).backward()
    assert sync.stats()["step"] == 0
    models.loss_of(ddp, 2).backward()
    expected = models.summed(sum(models.local_gradient(model, i) for i in range(3))) / dist.get_world_size()
    torch.testing.assert_close(models.gradients(model), expected, rtol=1e-5, atol=1e-6)
    return sync.stats()["step"], sync.stats()["paused"]


def test_paused_passes_accumulate_as_under_no_sync(pool):
    assert pool.run(2, paused_beside_no_sync) == [(1, 1), (1, 1)]


def paused_unevenly(pauses, collective):
    how = {"collective": collective} if collective != "none" else {"sparsifier": "none", "collective": "auto"}
    model, net, sync = attached(True, timeout=3.0, **how)
    backward(model, net, sync, 0)
    for _ in range(pauses[dist.get_rank()]):
        with sync.paused():
            backward(model, net, sync, 1)
    start = time.monotonic()
    try:
        for step in range(2, 4):
            backward(model, net, sync, step)
    except sluice.CommError as e:
        took = time.monotonic() - start
        model.zero_grad()
        sync.recover()
        sync.close()
        return str(e), took
    return "nothing", 0


# With nothing sparse, gradients go by gloo's own sum, which waits for the deadline.
@pytest.mark.parametrize(
    "pauses, collective", [((1, 0), "balanced"), ((0, 1), "allgather"), ((2, 1), "balanced"), ((1, 0), "none")]
)
def test_ranks_that_pause_different_passes_find_out(pool, pauses, collective):
    for rank, answer in enumerate(pool.run(2, paused_unevenly, pauses, collective)):
        text, took = answer
        if pauses[rank] > 0:
            rule = "all ranks must pause the same backward passes, but before step 2 rank"
            assert f"[paused] {rule} {rank} paused {pauses[rank]}" in text, text
        elif collective == "none":
            # gloo's sum does not say whom it waits for.
            assert "waited" in text and "for all others in step 2" in text, text
            continue
        else:
            assert "a call between steps" in text or "[paused]" in text, text
        assert "rank 0" in text and "rank 1" in text, text
        # Not the end of the program, and no step of different batches.
        assert took < 10, rank


def discarded(hook, feedback, sparsifier, steps):
    """The same run with a spike that is taken back, and without."""
    quiet_tentative()
    results = []
    for spike in (True, False):
        model, net, sync = attached(hook, feedback=feedback, sparsifier=sparsifier)
        for step in range(3):
            backward(model, net, sync, step)
        before = kept(sync)
        if spike:
            with sync.tentative():
                for i in range(steps):
                    backward(model, net, sync, 100 + i, scale=1e3)
            assert not same(before, kept(sync))
            sync.discard()
            assert same(before, kept(sync))
        assert sync.stats()["discarded"] == int(spike)
        if sparsifier != "randomk":  # which draws by the number of the step
            for step in range(3, 6):
                backward(model, net, sync, step)
        results.append((models.gradients(model), kept(sync)))
        sync.close()
    (with_spike, state), (without, plain) = results
    if sparsifier != "randomk":
        assert torch.equal(with_spike, without)
    return same_memories(state, plain)


@pytest.mark.parametrize(
    "hook, feedback, sparsifier, steps",
    [
        (True, "residual", "topk", 1),
        (False, "residual", "topk", 2),
        (True, "dgc:momentum=0.9", "topk", 1),
        (True, "residual", "adtopk", 3),
        (True, "residual", "sidco-e", 1),
        (False, "residual", "randomk", 1),
    ],
)
def test_what_is_discarded_leaves_no_bit(pool, hook, feedback, sparsifier, steps):
    assert pool.run(3, discarded, hook, feedback, sparsifier, steps) == [True] * 3


def momentum_from_nothing():
    """Discards the very first step, which has made the momenta."""
    quiet_tentative()
    model, net, sync = attached(True, feedback="dgc:momentum=0.9")
    with sync.tentative():
        backward(model, net, sync, 0)
        sync.discard()
    entry = kept(sync)
    return bool((entry["residual"] == 0).all() and (entry["momentum"] == 0).all())


def test_the_first_step_can_be_discarded(pool):
    assert pool.run(2, momentum_from_nothing) == [True, True]


def not_discarded():
    quiet_tentative()
    model, net, sync = attached(True)
    with sync.tentative():
        backward(model, net, sync, 0)
    backward(model, net, sync, 1)
    plain, plain_net, plain_sync = attached(True)
    for step in range(2):
        backward(plain, plain_net, plain_sync, step)
    return same_memories(kept(sync), kept(plain_sync))


def test_tentative_alone_changes_nothing(pool):
    assert pool.run(2, not_discarded) == [True, True]


def refused_words():
    quiet_tentative()
    model, net, sync = attached(True)
    said = []

    def refused(call):
        try:
            call()
            said.append("nothing")
        except RuntimeError as e:
            said.append(str(e))

    refused(sync.discard)
    backward(model, net, sync, 0)
    refused(sync.discard)
    with sync.tentative():
        backward(model, net, sync, 1)
        refused(lambda: sync.tentative().__enter__())
        sync.discard()
        refused(sync.discard)
    with sync.tentative():
        backward(model, net, sync, 2)
    backward(model, net, sync, 3)
    refused(sync.discard)  # too late
    with sync.tentative():
        backward(model, net, sync, 4)
        sync.load_state_dict(sync.state_dict()) if dist.get_world_size() == 1 else None
    if dist.get_world_size() == 1:
        refused(sync.discard)  # of another state
    sync.close()
    refused(lambda: sync.paused().__enter__())
    refused(lambda: sync.tentative().__enter__())
    refused(sync.discard)
    return said


@pytest.mark.parametrize("size", [1, 2])
def test_words_at_the_wrong_time_are_refused(pool, size):
    nothing = "[discard] there must be something to take back"
    expected = [nothing, nothing, "a block must end before", nothing, nothing]
    expected += [nothing] * (size == 1) + ["it was closed"] * 3
    for said in pool.run(size, refused_words):
        assert len(said) == len(expected)
        for text, message in zip(expected, said):
            assert text in message, message


def discard_in_other_blocks():
    """Rank 1 would go back to another step."""
    quiet_tentative()
    model, net, sync = attached(True)
    first = dist.get_rank() == 0
    if first:
        with sync.tentative():
            backward(model, net, sync, 0)
            backward(model, net, sync, 1)
    else:
        backward(model, net, sync, 0)
        with sync.tentative():
            backward(model, net, sync, 1)
    before = kept(sync)
    try:
        sync.discard()
        return "nothing"
    except ValueError as e:
        assert same(before, kept(sync))
        backward(model, net, sync, 2)
        return str(e)


def test_all_ranks_discard_the_same_steps_or_none(pool):
    for said in pool.run(2, discard_in_other_blocks):
        assert "all ranks must have the same value of the step to go back to" in said, said
        assert "rank 1 has 2 and rank 0 has 1" in said


def discard_on_one_rank_only():
    """Rank 1 goes on with its next step instead."""
    quiet_tentative()
    model, net, sync = attached(True, timeout=4.0)
    backward(model, net, sync, 0)
    before = kept(sync)
    with sync.tentative():
        backward(model, net, sync, 1)
    after = kept(sync)
    text = ""
    try:
        if dist.get_rank() == 0:
            sync.discard()
        else:
            backward(model, net, sync, 2)
    except sluice.CommError as e:
        text = str(e)
    again = ""
    try:
        backward(model, net, sync, 2)
    except (RuntimeError, sluice.CommError) as e:
        again = str(e)
    model.zero_grad()
    sync.recover()
    none = same(after, kept(sync)) if dist.get_rank() == 0 else not same(before, kept(sync))
    return text, again, none, sync.stats()["discarded"]


def test_a_discard_that_fails_discards_on_no_rank(pool):
    for text, again, none, discards in pool.run(2, discard_on_one_rank_only):
        assert "rank 0" in text and "rank 1" in text, text
        assert "call recover()" in again, again
        assert none and discards == 0


def discarded_behind(what):
    """A step that is skipped or fails in a block, and is discarded with the others."""
    quiet_tentative()
    model, net, sync = attached(True, timeout=3.0)
    for step in range(2):
        backward(model, net, sync, step)
    before = kept(sync)
    with sync.tentative():
        backward(model, net, sync, 2)
        if what == "skipped":
            backward(model, net, sync, 3, scale=float("inf") if dist.get_rank() == 1 else 1.0)
            assert sync.skipped
        else:
            try:
                if dist.get_rank() == 1:
                    time.sleep(4.5)
                backward(model, net, sync, 3)
            except sluice.CommError:
                pass
            try:
                sync.discard()
                return "nothing"
            except RuntimeError as e:
                assert "call recover() on all ranks" in str(e), e
            sync.recover()
        assert not same(before, kept(sync))
        sync.discard()
    return same(before, kept(sync))


@pytest.mark.parametrize("what", ["skipped", "failed"])
def test_steps_that_were_not_made_are_discarded_as_well(pool, what):
    if what == "failed" and ON_GPUS:
        pytest.skip("DDP does not go on behind a backward pass that failed in NCCL")
    assert pool.run(2, discarded_behind, what) == [True, True]


def discarded_across_plans():
    """A live plan is decided in the block: residuals are those from before it."""
    quiet_tentative()
    model, net, sync = attached(True, plan="auto", network="5ms,10Mbit")
    step = 0
    while sync.stats()["step"] < 19:
        backward(model, net, sync, step)
        step += 1
    first = sync.plan
    before = kept(sync)
    with sync.tentative():
        for _ in range(6):
            backward(model, net, sync, step)
            step += 1
    decided = sync.stats()["plan"]["since"] > 0
    sync.discard()
    after = kept(sync)
    backward(model, net, sync, step)
    residuals = torch.equal(before["residual"], after["residual"]) and torch.equal(before["momentum"], after["momentum"])
    return decided, first != sync.plan, residuals, models.same_on_all(models.gradients(model))


def test_a_plan_that_was_decided_meanwhile_stays(pool):
    answers = pool.run(2, discarded_across_plans)
    assert answers[0] == answers[1]
    decided, _, residuals, alike = answers[0]
    assert decided and residuals and alike


def cost_of_tentative():
    model, net, sync = attached(True, feedback="dgc:momentum=0.9")
    from sluice import momentum

    momentum._said.clear()
    bytes_before = sync.stats()["memory_bytes"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2):
            with sync.tentative():
                backward(model, net, sync, step)
    elements = sum(p.numel() for p in model.parameters())
    grown = sync.stats()["memory_bytes"] - bytes_before
    return [str(w.message) for w in caught if "[tentative]" in str(w.message)], elements, grown


def test_the_memory_is_said_once(pool):
    first, second = pool.run(2, cost_of_tentative)
    said, elements, grown = first
    assert len(said) == 1 and f"({2 * elements} floats)" in said[0]
    assert second[0] == []
    assert grown >= 2 * 4 * elements


# Loops, and how often each warns on rank 0.


def warned(loop, hook=True, steps=4, **how):
    model, net, sync = attached(hook, **how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(steps):
            loop(model, net, sync, optimizer, step)
    return [str(w.message) for w in caught if "before any optimizer used them" in str(w.message)]


def grads(model, net, sync, step):
    models.loss_of(net, step).backward()
    if net is model:
        sync.step()


def drops_a_step(model, net, sync, optimizer, step):
    grads(model, net, sync, step)
    if step != 1:
        optimizer.step()
    optimizer.zero_grad()


def drops_in_place(model, net, sync, optimizer, step):
    grads(model, net, sync, step)
    if step != 1:
        optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def zeroes_late(model, net, sync, optimizer, step):
    loss = models.loss_of(net, step)
    optimizer.zero_grad()
    loss.backward()
    if net is model:
        sync.step()
    if step % 2 == 0:
        optimizer.step()


def replaces(model, net, sync, optimizer, step):
    grads(model, net, sync, step)
    if step == 1:
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        return
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("hook", [True, False])
@pytest.mark.parametrize("loop", [drops_a_step, drops_in_place, zeroes_late, replaces])
def test_warns_once_of_gradients_that_nobody_used(pool, loop, hook):
    first, second = pool.run(2, warned, loop, hook, 6)
    assert len(first) == 1 and second == []
    assert ("replaced" if loop is replaces else "zeroed") in first[0]
    assert "with sync.paused():" in first[0] and "sync.discard()" in first[0]


def plain_loop(model, net, sync, optimizer, step):
    optimizer.zero_grad()
    grads(model, net, sync, step)
    optimizer.step()


def zeroes_twice(model, net, sync, optimizer, step):
    optimizer.zero_grad()
    model.zero_grad()
    grads(model, net, sync, step)
    optimizer.step()
    optimizer.zero_grad()


def accumulates(model, net, sync, optimizer, step):
    """Without no_sync(): each pass exchanges what has come together."""
    grads(model, net, sync, step)
    if step % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()


def accumulates_without_exchange(model, net, sync, optimizer, step):
    if step % 3 != 2:
        with net.no_sync():
            models.loss_of(net, step).backward()
        return
    models.loss_of(net, step).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=step == 2)


def clips(model, net, sync, optimizer, step):
    grads(model, net, sync, step)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def two_optimizers(model, net, sync, optimizer, step):
    """One of them has half of the parameters, and they take turns."""
    parameters = list(model.parameters())
    half = torch.optim.SGD(parameters[step % 2 :: 2], lr=0.01)
    grads(model, net, sync, step)
    half.step()
    model.zero_grad()


def own_update(model, net, sync, optimizer, step):
    grads(model, net, sync, step)
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
    model.zero_grad()


def with_closure(model, net, sync, optimizer, step):
    def closure():
        optimizer.zero_grad()
        grads(model, net, sync, step)
        optimizer.zero_grad()
        grads(model, net, sync, step)
        return 0.0

    optimizer.step(closure)


def pauses(model, net, sync, optimizer, step):
    optimizer.zero_grad()
    grads(model, net, sync, step)
    optimizer.step()
    optimizer.zero_grad()
    with sync.paused():
        grads(model, net, sync, step)


def discards(model, net, sync, optimizer, step):
    with sync.tentative():
        grads(model, net, sync, step)
    if step == 2:
        sync.discard()
    else:
        optimizer.step()
    optimizer.zero_grad()


def skips_what_is_not_finite(model, net, sync, optimizer, step):
    (models.loss_of(net, step) * (float("nan") if step == 2 else 1.0)).backward()
    if net is model:
        sync.step()
    if not sync.skipped:
        optimizer.step()
    optimizer.zero_grad()


LEGITIMATE = [
    plain_loop,
    zeroes_twice,
    accumulates,
    accumulates_without_exchange,
    clips,
    two_optimizers,
    own_update,
    with_closure,
    pauses,
    discards,
    skips_what_is_not_finite,
]


@pytest.mark.parametrize("views", [False, True])
def test_says_nothing_of_legitimate_loops(pool, views):
    assert pool.run(2, all_legitimate, views) == [{}, {}]


def all_legitimate(views):
    said = {}
    for loop in LEGITIMATE:
        for hook in (True, False):
            if loop is accumulates_without_exchange and not hook:
                continue
            texts = warned_with_views(loop, views) if hook else warned(loop, hook, 7)
            if texts:
                said[loop.__name__, hook] = texts
    return said


def warned_with_views(loop, views):
    model = models.small_model()
    ddp = models.wrapped(model, bucket_cap_mb=0.01, gradient_as_bucket_view=views)
    sync = sluice.attach(ddp, density=0.05, plan="size=4k")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(7):
            loop(model, ddp, sync, optimizer, step)
    sync.close()
    return [str(w.message) for w in caught if "before any optimizer used them" in str(w.message)]


def scaler_skips():
    """An overflow of one rank: all scalers skip the step, and gradients are zeroed."""
    model, net, _ = attached(True)
    ddp = models.wrapped(model)
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=1024.0)
    sync = sluice.attach(ddp, density=0.05, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(6):
            spoil = float("inf") if step in (2, 3) and dist.get_rank() == 1 else 1.0
            scaler.scale(models.loss_of(ddp, step) * spoil).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return sync.stats()["skipped"], [str(w.message) for w in caught if "before any optimizer" in str(w.message)]


def test_says_nothing_where_a_scaler_skips_a_step(pool):
    assert pool.run(2, scaler_skips) == [(2, []), (2, [])]


def gan(paused_pass):
    """As everybody writes it: the generator's loss goes through D's hook."""
    torch.manual_seed(0)
    make = lambda: models.wrapped(torch.nn.Linear(8, 8, device=models.DEVICE))  # noqa: E731
    g, d = make(), make()
    syncs = [sluice.attach(net, density=0.1) for net in (g, d)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in (g, d)]
    x = torch.ones(2, 8, device=models.DEVICE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            d.zero_grad()
            (d(x).square().mean() - d(g(x).detach()).square().mean()).backward()
            optimizers[1].step()
            g.zero_grad()
            loss = d(g(x)).square().mean()
            if paused_pass:
                with syncs[1].paused():
                    loss.backward()
            else:
                loss.backward()
            optimizers[0].step()
    return len([w for w in caught if "before any optimizer" in str(w.message)])


def test_warns_of_a_gan_unless_its_pass_is_paused(pool):
    assert pool.run(2, gan, False) == [1, 0]
    assert pool.run(2, gan, True) == [0, 0]


OPTIONS = [
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"find_unused_parameters": True},
]


def with_options(options, words):
    """Residuals and weights of a run, with passes that leave nothing in between."""
    quiet_tentative()
    model = models.small_model()
    ddp = models.wrapped(model, bucket_cap_mb=0.01, **options)
    scaler = torch.amp.GradScaler(models.DEVICE, init_scale=1024.0)
    sync = sluice.attach(ddp, density=0.05, plan="size=4k", scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(step):
        # The first of two passes is under no_sync().
        optimizer.zero_grad()
        if not options.get("static_graph"):
            with ddp.no_sync():
                scaler.scale(models.loss_of(ddp, 100 + step)).backward()
        scaler.scale(models.loss_of(ddp, step)).backward()

    for step in range(5):
        train(step)
        scaler.step(optimizer)
        scaler.update()
        if words and step > 0:
            with sync.paused():
                train(50 + step)
        if words and step > 1:
            try:
                with sync.tentative():
                    train(70 + step)
                    raise ArithmeticError("of the user's own")
            except ArithmeticError:
                sync.discard()
    return models.flat(model.parameters()), models.residual(sync)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: next(iter(o), "plain"))
def test_words_go_with_what_ddp_can_do(pool, options):
    plain = pool.run(2, with_options, options, False)
    for ours, expected in zip(pool.run(2, with_options, options, True), plain):
        assert torch.equal(ours[0], expected[0]) and torch.equal(ours[1], expected[1])
