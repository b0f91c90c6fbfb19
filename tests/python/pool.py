"""Processes that are the ranks of one test after another.

Importing torch takes seconds, so they are started once; a rank that a test has
killed is started again. With SLUICE_TEST_DEVICE=cuda they are ranks of nccl, each
on a GPU of its own or, where NCCL may share one (NCCL_MULTI_RANK_GPU_ENABLE=1), on
any.
"""

import multiprocessing
import os
import tempfile
import time
import traceback

import pytest

ON_GPUS = os.environ.get("SLUICE_TEST_DEVICE", "cpu") == "cuda"


class RankError(Exception):
    """What a rank raised: `name` is the type, `text` the message."""

    def __init__(self, rank, name, text, trace):
        super().__init__(f"rank {rank}: {name}: {text}\n{trace}")
        self.rank, self.name, self.text = rank, name, text


class Raised:
    """In place of a result, where a test expects ranks to raise."""

    def __init__(self, error, trace):
        self.name = type(error).__name__
        self.text = str(error)
        self.trace = trace


def _serve(pipe):
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if ON_GPUS:
        # Gradients that are computed twice must be the same.
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False
    while True:
        try:
            function, rank, size, path, arguments = pipe.recv()
        except EOFError:
            return
        if ON_GPUS:
            torch.cuda.set_device(rank % torch.cuda.device_count())
        backend = "nccl" if ON_GPUS else "gloo"
        dist.init_process_group(backend, store=dist.FileStore(path, size), rank=rank, world_size=size)
        try:
            answer = function(*arguments)
        except BaseException as e:  # whatever it is, the test is to see it
            answer = Raised(e, traceback.format_exc())
        # First, as the end of a group may wait for a rank that does not answer.
        pipe.send(answer)
        if dist.is_initialized():
            # torch hangs if gloo's threads let go of a tensor of Python's meanwhile.
            time.sleep(0.02)
            dist.destroy_process_group()


class Pool:
    def __init__(self):
        self._context = multiprocessing.get_context("spawn")
        self._ranks = []

    def _start(self):
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    @staticmethod
    def _need_gpus(size):
        import torch

        if size > torch.cuda.device_count() and os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") != "1":
            pytest.skip(f"needs {size} GPUs, or an NCCL (>= 2.30.3) with NCCL_MULTI_RANK_GPU_ENABLE=1")

    def _grow(self, size):
        if ON_GPUS:
            self._need_gpus(size)
        self._ranks = [r if r[0].is_alive() else self._start() for r in self._ranks]
        while len(self._ranks) < size:
            self._ranks.append(self._start())

    def start(self, size, function, *arguments):
        """Begins to run a function of a module on so many ranks; their processes."""
        self._grow(size)
        with tempfile.NamedTemporaryFile(delete=False) as store:
            path = store.name
        os.unlink(path)
        for rank in range(size):
            self._ranks[rank][1].send((function, rank, size, path, arguments))
        return [process for process, _ in self._ranks[:size]]

    def answer_of(self, rank, timeout=120):
        """None if it has died. Kills one that does not answer."""
        process, pipe = self._ranks[rank]
        try:
            if not pipe.poll(timeout):
                process.kill()
                process.join()
                raise TimeoutError(f"rank {rank} did not answer within {timeout} s")
            return pipe.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            return None

    def answers(self, size):
        """By rank."""
        return [self.answer_of(rank) for rank in range(size)]

    def run(self, size, function, *arguments):
        """The results by rank. Raises RankError for the first that raised."""
        self.start(size, function, *arguments)
        answers = self.answers(size)
        for rank, answer in enumerate(answers):
            if isinstance(answer, Raised):
                raise RankError(rank, answer.name, answer.text, answer.trace)
        return answers

    def forget_group(self):
        """Behind a test that has lost a rank: NCCL does not let go of a group then."""
        if not ON_GPUS:
            return
        for process, _ in self._ranks:
            process.kill()
            process.join()

    def close(self):
        for process, pipe in self._ranks:
            pipe.close()
        for process, _ in self._ranks:
            process.join(10)
            if process.is_alive():
                process.kill()
