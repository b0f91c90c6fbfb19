"""Processes of a run as the system sees them; for tests and for tools/soak."""

import os
import socket
from pathlib import Path


def children(pid):
    """Processes that a process has started, by its main thread or another."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def rank_of(pid):
    """The rank that mpirun or srun gave to a process; None where it has none."""
    for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        for name in (b"OMPI_COMM_WORLD_RANK=", b"PMIX_RANK="):
            if entry.startswith(name):
                return int(entry.removeprefix(name))
    return None


def ranks_of(run):
    """By rank, of the job that a launcher has started."""
    found = {}
    for mpirun in children(run.pid):
        for pid in children(mpirun):
            rank = rank_of(pid)
            if rank is not None:
                found[rank] = pid
    return [found[r] for r in sorted(found)]


def listening(pid):
    """Addresses and ports on which a process waits for TCP connections, as ("127.0.0.1", 1234)."""
    try:
        files = [os.readlink(x) for x in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []  # it has just ended
    sockets = {x[len("socket:["):-1] for x in files if x.startswith("socket:[")}
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] != "0A" or fields[9] not in sockets:  # TCP_LISTEN
                continue
            address, port = fields[1].split(":")
            words = bytes.fromhex(address)
            words = b"".join(words[i:i + 4][::-1] for i in range(0, len(words), 4))
            found.append((socket.inet_ntop(family, words), int(port, 16)))
    return found


def marked(text):
    """Processes that live and have the text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
        except OSError:
            continue  # it has just ended, or is not ours to look at
        if text.encode() in told and alive(entry.name):
            found.append(int(entry.name))
    return found


def send(pid, number):
    """Whether there was somebody to get the signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
