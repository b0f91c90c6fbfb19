"""PyTorch's own tests of DistributedDataParallel, with Sluice attached to every model.

`tools/test --full` runs this file; two ranks on CPUs, over gloo. Most of the tests
are written for GPUs, so each rank of a test takes the CPU for every GPU. A test
counts if it passes that way without Sluice.
"""

import contextlib
import functools
import inspect
import os
import tempfile
import unittest

import pytest

# PyTorch's tests read these when they are imported.
os.environ.update(WORLD_SIZE="2", BACKEND="gloo", INIT_METHOD="tcp://127.0.0.1:0", TEMP_DIR=tempfile.mkdtemp())

import torch  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

# How Sluice is attached. All entries are sent, so that gradients are those of DDP.
HOWS = {"none": {"sparsifier": "none"}, "topk": {"sparsifier": "topk", "density": 1.0}}
# Tests that pass without Sluice and must fail with it: how it is attached, part of
# the message, and why.
EXPLAINED = {
    "test_ddp_comm_hook_logging": (
        ("none", "topk"),
        "comm_hook is not None",
        "asserts that DDP's log names no communication hook, and Sluice is one",
    ),
    "test_skip_all_reduce_unused_parameters": (
        ("none", "topk"),
        "a backward pass must bring all gradients that sluice was attached to",
        "skip_all_reduce_unused_params=True leaves out buckets, and Sluice waits for all of them",
    ),
    "test_ddp_grad_div_uneven_inputs": (
        ("none", "topk"),
        "Tensor-likes are not close",
        "join(divide_by_initial_world_size=False) divides by the ranks that have inputs left, and hooks, "
        "PyTorch's own too, by all",
    ),
    "test_ddp_profiling_torch_profiler": (
        ("topk",),
        "AssertionError",
        "counts the all-reduces in a profile, and sparse gradients travel by other collectives",
    ),
}
# Fewer tests than this that pass would mean that the file has come to test little:
# of the 98 tests of DDP there are 8 that PyTorch skips everywhere, about 20 that need
# a GPU, and 10 that register a hook of their own.
LEAST = 55


def on_cpu(device):
    """The CPU for a GPU, however it is named; anything else as it is."""
    if isinstance(device, int) and not isinstance(device, bool):
        return torch.device("cpu")
    if isinstance(device, (str, torch.device)) and str(device).startswith("cuda"):
        return torch.device("cpu")
    return device


class CpuForGpu(TorchFunctionMode):
    """For functions with device=, such as torch.ones."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        return func(*args, **kwargs)


def moving_to_cpu(to):
    def moved(self, *args, **kwargs):
        return to(self, *map(on_cpu, args), **{k: on_cpu(v) if k == "device" else v for k, v in kwargs.items()})

    return moved


def take_cpu_for_gpu():
    CpuForGpu().__enter__()
    for cls in (torch.Tensor, torch.nn.Module):
        cls.to = moving_to_cpu(cls.to)
        cls.cuda = lambda self, *_, **__: self
    # A function each: torch.compile tells functions apart by identity.
    for name in ("set_device", "synchronize", "manual_seed"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.cuda.device_count = lambda: int(os.environ["WORLD_SIZE"])
    torch.cuda.current_device = lambda: 0
    torch.cuda.device = lambda _: contextlib.nullcontext()


def skip(reason):
    """Ends this rank's process so that the test counts as skipped."""
    os.write(2, f"[torch_ddp] {reason}\n".encode())
    os._exit(common_distributed.TEST_SKIPS["generic"].exit_code)


def attach_in_init(how):
    """DistributedDataParallel without device_ids, and with Sluice if `how` is given."""
    init, register = DistributedDataParallel.__init__, DistributedDataParallel.register_comm_hook

    def __init__(self, module, device_ids=None, output_device=None, *args, **kwargs):
        init(self, module, None, None, *args, **kwargs)
        if how is None:
            return
        import sluice

        if self._comm_hooks:
            skip("DistributedDataParallel registers a hook of its own, and a model has one")
        sluice.attach(self, **how)

    def register_comm_hook(self, state, hook):
        if how is not None and self._comm_hooks:
            skip("the test registers a hook of its own, and a model has one")
        register(self, state, hook)

    DistributedDataParallel.__init__ = __init__
    DistributedDataParallel.register_comm_hook = register_comm_hook


def speaks_of_ddp(test):
    source = inspect.getsource(inspect.unwrap(test)).lower()
    return "ddp" in source or "distributeddataparallel" in source


def without_conditions(test):
    """A test without the decorators that skip it where there are no GPUs."""
    raw = inspect.unwrap(test)

    @functools.wraps(raw)
    def call(self):
        return raw(self)

    return call


@functools.cache
def own_tests():
    """A class with PyTorch's tests of DDP, and their names."""

    # Ranks are forked: importing torch again for each test would take most of the time.
    class OwnTests(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        how = None

        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, *args, **kwargs):
            take_cpu_for_gpu()
            attach_in_init(cls.how)
            super()._run(*args, **kwargs)

    names = []
    for name, test in inspect.getmembers(OwnTests, callable):
        # Those that PyTorch skips everywhere are known to fail now and then.
        if not name.startswith("test_") or not speaks_of_ddp(test) or getattr(test, "__unittest_skip__", False):
            continue
        names.append(name)
        setattr(OwnTests, name, without_conditions(test))
    OwnTests.setUpClass()
    return OwnTests, names


def outcome(name, how):
    """("passed" or "skipped" or "failed", why)."""
    tests, _ = own_tests()
    tests.how = how
    result = unittest.TestResult()
    unittest.TestSuite([tests(name)]).run(result)
    for verdict, found in (("skipped", result.skipped), ("failed", result.failures + result.errors)):
        if found:
            return verdict, found[0][1]
    return "passed", ""


@functools.cache
def outcome_without_sluice(name):
    return outcome(name, None)


passed = {how: set() for how in HOWS}


@pytest.mark.parametrize("name", own_tests()[1])
@pytest.mark.parametrize("how", HOWS)
def test_passes_as_without_sluice(how, name):
    verdict, why = outcome_without_sluice(name)
    if verdict != "passed":
        errors = [line for line in why.splitlines() if "Error" in line]
        pytest.skip(f"without Sluice: {errors[-1] if errors else why}")
    verdict, why = outcome(name, HOWS[how])
    if verdict == "skipped":
        pytest.skip("a model has one hook, and the test's own is another")
    hows, message, reason = EXPLAINED.get(name, ((), "", ""))
    if how in hows:
        assert verdict == "failed" and message in why, f"expected to fail ({reason}), {verdict}: {why}"
        return
    assert verdict == "passed", why
    passed[how].add(name)


@pytest.mark.parametrize("how", HOWS)
def test_most_tests_count(how, request):
    """Of a whole run."""
    if len(request.session.items) == len(HOWS) * (len(own_tests()[1]) + 1):
        assert len(passed[how]) >= LEAST
