#!/usr/bin/env python3
"""Checks who includes whom in sluice/: dependencies run one way."""

import argparse
import pathlib
import re
import sys
import tempfile

# Folder -> the other folders it may include.
MAY_USE = {
    "core": set(),
    "backend": {"core"},
    "sparsify": {"core", "backend"},
    "feedback": {"core", "backend", "sparsify"},
    "codec": {"core", "backend"},
    "comm": {"core", "backend"},
    "cost": {"core"},
    "collective": {"core", "backend", "codec", "comm", "cost"},
    "plan": {"core", "cost"},
}
MAY_USE["sync"] = set(MAY_USE)
MAY_USE["data"] = {"core"}
MAY_USE["text"] = {"core", "data"}
MAY_USE["audio"] = {"core", "data"}
MAY_USE["config"] = {"core", "sparsify", "collective", "feedback"}
MAY_USE["run"] = set(MAY_USE) - {"audio", "data", "text"}
MAY_USE["report"] = {"core", "config", "plan", "run"}
MAY_USE["weights"] = {"core", "run"}
MAY_USE["study"] = set(MAY_USE) - {"audio", "data", "text", "weights"}
MAY_USE["torch"] = set(MAY_USE)
MAY_USE["cli"] = set(MAY_USE)
MAY_USE["python"] = set(MAY_USE) - {"cli"}

# Headers of other libraries, and of a folder that others reach through an
# interface -> the folders below sluice/ that may use them.
CONFINED = [
    (r"mpi\.h", r"comm/mpi", "comm/mpi"),
    (r"nccl\.h", r"comm/nccl", "comm/nccl"),
    (r"(torch|c10|ATen)/.*", r"(torch|comm/c10d|python)", "torch, comm/c10d and python"),
    (r"pybind11/.*", r"python", "python"),
    (r"(cuda.*|cub/.*)", r"(.*/cuda|comm/nccl)", "*/cuda and comm/nccl"),
    (r"immintrin\.h", r"backend/cpu", "backend/cpu"),
    (r"sndfile\.h", r"audio", "audio"),
    (r"(jpeglib|jerror|png)\.h", r"data", "data"),
    (r"unicode/.*", r"text", "text"),
    (r"sluice/backend/cpu/.*", r"backend", "backend"),
]

# A device cannot call the host's functions: it compiles the rules' own.
RULES = "sluice/sparsify/rules.h"

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def confined_complaint(folder, header):
    for pattern, place, text in CONFINED:
        if re.fullmatch(pattern, header):
            if not re.fullmatch(rf"{place}(/.*)?", folder):
                return f"only {text} may"
    return None


def folder_complaint(folder, header):
    """`folder` is that of the including file, below sluice/."""
    user = folder.split("/")[0]
    if not header.startswith("sluice/"):
        return None  # a neighbour, such as "kernels_inl.h"
    used = header.split("/")[1] if header.count("/") > 1 else ""
    if header == RULES and user == "backend" and "/cuda" in folder:
        return None
    allowed = MAY_USE.get(user)
    if allowed is None:
        return f"{user} is not in the table of tools/check_includes.py"
    if used == user or used in allowed:
        return None
    arrow = f"{user} <- {used}: " if user in MAY_USE.get(used, ()) else ""
    return f"{arrow}{user} may use only {', '.join(sorted(allowed | {user}))}"


def complaints(root):
    for path in sorted((root / "sluice").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        name = path.relative_to(root)
        folder = name.parent.relative_to("sluice").as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match[2]
            # sluice/*.h, if any, is for users and may gather everything.
            why = confined_complaint(folder, header)
            if not why and folder != ".":
                why = folder_complaint(folder, header)
            if why:
                yield f"[lint] {name}:{number} may not include {header} ({why})"


def self_test():
    files = {
        "core/good.h": '#include <vector>\n#include "sluice/core/other.h"\n',
        "core/bad.h": '#pragma once\n#include "sluice/backend/backend.h"\n',
        "backend/cpu/good.cpp": '#include <immintrin.h>\n#include "inl.h"\n',
        "collective/bad.cpp": '#include "sluice/backend/cpu/wire.h"\n',
        "backend/cuda/good.cu": '#include <cub/cub.cuh>\n#include "sluice/sparsify/rules.h"\n',
        "backend/bad.cpp": '#include "sluice/sparsify/rules.h"\n',
        "comm/bad.cpp": '#include "sluice/codec/codec.h"\n',
        "comm/mpi/good.cpp": "#include <mpi.h>\n",
        "sync/bad.cpp": "#  include <torch/torch.h>\n#include <mpi.h>\n",
        "cli/good.cpp": '#include "sluice/torch/model.h"\n',
        "new/bad.cpp": '#include "sluice/core/good.h"\n',
    }
    expected = [
        "sluice/backend/bad.cpp:1 may not include sluice/sparsify/rules.h",
        "sluice/collective/bad.cpp:1 may not include sluice/backend/cpu/wire.h",
        "sluice/comm/bad.cpp:1 may not include sluice/codec/codec.h",
        "sluice/core/bad.h:2 may not include sluice/backend/backend.h",
        "sluice/new/bad.cpp:1 may not include sluice/core/good.h",
        "sluice/sync/bad.cpp:1 may not include torch/torch.h",
        "sluice/sync/bad.cpp:2 may not include mpi.h",
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / "sluice" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = list(complaints(root))
    brief = [line.removeprefix("[lint] ").split(" (")[0] for line in found]
    if brief != expected:
        sys.exit("[check_includes] self-test failed, found:\n" + "\n".join(found))
    print("[check_includes] self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--self-test", action="store_true", help="check the checker"
    )
    if parser.parse_args().self_test:
        return self_test()
    found = list(complaints(pathlib.Path(__file__).resolve().parent.parent))
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
