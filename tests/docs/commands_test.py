#!/usr/bin/env python3
"""Every command of README.md, docs/ and the help is run, scaled down (scaled.py), so that none can rot.

What needs hosts, Slurm, containers or a GPU has a comment before its block, `<!-- needs: hosts -->`, and is checked
only: `sluice train` with --check, others by their options.

Run as: python3 tests/docs/commands_test.py PATH_TO_SLUICE [unittest options]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))

from harness import SLUICE, main, sluice, unittest  # noqa: E402
from scaled import blocks, png, scale, split, value_of  # noqa: E402

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
             *sorted((ROOT / "examples").glob("**/README.md"))]
NEEDS = {"hosts", "slurm", "containers", "gpu"}
# Where `sluice` is what another program starts.
BEFORE = re.compile(r"^(mpirun|srun|taskset|docker|tools/netlab run|tools/slurmlab run)\b.*\s((\S*/)?sluice)\s+(?=\w)")
# What a line must be marked with.
MARKS = (("gpu", r"--device cuda"), ("containers", r"^docker "), ("slurm", r"^(srun|sbatch) "),
         ("hosts", r"^mpirun .*--hostfile|^sluice train .*--hostfile|--nnodes"))
# Not ours, or the shell's: nothing to check.
OTHERS = {"pip", "docker", "export", "cd", "for", "done", "do", "ssh", "ssh-keygen", "bible"}
TEXT = "In the beginning God created the heaven and the earth. And the earth was without form, and void; "


class Failed(Exception):
    pass


def call(words, folder, out=None):
    done = subprocess.run([SLUICE, *map(str, words)], cwd=folder, text=True, capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL, env=os.environ | {"HOME": str(folder.parent), "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise Failed(f"sluice {' '.join(map(str, words))}\n{done.stderr}")
    if out:
        (folder / out).write_text(done.stdout)
    return done.stdout


def prepare(folder):
    """What the commands of a document find: data, files of earlier steps, two runs."""
    for name in ("book.txt", "more.txt", "kjv.txt", "books/a.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("".join(
            f"{TEXT}\nAnd {who} said unto {whom}, O that Ishmael might live before thee {day} days.\n"
            for day in range(40) for who, whom in (("Abraham", "God"), ("Sarah", "Abraham"))))
    for part in ("train", "val"):
        for shade, kind in ((0, "daisy"), (255, "rose")):
            place = folder / "data/flowers" / part / kind
            place.mkdir(parents=True)
            for i in range(4):
                (place / f"{i}.png").write_bytes(png(40, 40, shade))
    for place in ("cifar", "cifar-10-batches-bin", "shared/cifar-10-batches-bin"):
        (folder / place).mkdir(parents=True)
        for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
            (folder / place / name).touch()
            os.truncate(folder / place / name, 10000 * 3073)  # a hole: all black, of class 0
    # Where tools/make_images puts them.
    (folder / "build").mkdir()
    (folder / "build/cifar").symlink_to("../cifar")
    (folder / "build/icons").symlink_to("../data/flowers")
    (folder / "HOSTS").write_text("localhost slots=8\n")
    for name in ("examples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    call(["plan", "profile", "--model", "resnet50", "--forward", "0.09", "--backward", "0.12"], folder)
    call(["probe", "--engine", "simulated", "--net", "50us,1Gbit", "--workers", "2"], folder)
    call(["plan", "make", "--net", "50us,1Gbit", "--workers", "4"], folder)
    call(["compare", "--out", "runs/cmp", "--methods", "dense", "--", "--model", "mlp:widths=8", "--dataset",
          "synthetic:train=32,test=8", "--workers", 1, "--engine", "threads", "--max-steps", 1, "--batch-size", 8], folder)


def walk_help(path=()):
    """Examples of every command."""
    text = sluice(*path, "--help").stdout
    for line in text.split("\nExamples:\n")[1].strip().splitlines():
        yield line.strip()
    if "\nSubcommands:\n" in text:
        for line in text.split("\nSubcommands:\n")[1].split("\n\n")[0].splitlines():
            if found := re.match(r"  (\S+)", line):
                yield from walk_help((*path, found[1]))


def options_in(words):
    return [word.split("=")[0] for word in words if re.match(r"--[a-z]", word)]


def check_tool(words):
    """A script of ours: it is there, and knows its options."""
    path = ROOT / words[0]
    if not path.is_file():
        raise Failed(f"there is no {words[0]}")
    known = path.read_text()
    for option in options_in(words[:words.index("--")] if "--" in words else words[1:]):
        if option not in known:
            raise Failed(f"{words[0]} knows no {option}")


def check_ctest(words):
    """The test that is asked for exists, by its name in the sources of the tests."""
    name = words[words.index("-R") + 1] if "-R" in words else ""
    part = name.split("_", 1)[1] if name.startswith("cli_") else name
    texts = (path.read_text() for path in (ROOT / "tests").rglob("*") if path.suffix in (".cpp", ".txt"))
    if not any(re.search(rf"\b{part}|{part}\b", text) for text in texts):
        raise Failed(f"there is no test {name}")


def check_cmake(words):
    presets = {one["name"] for one in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    for i, word in enumerate(words):
        if word == "--preset" and words[i + 1] not in presets:
            raise Failed(f"there is no preset {words[i + 1]}")


def run_line(line, needs, folder, done, later):
    """Runs a line of a document, unless another has it and none of the lines after it need what it makes."""
    line = re.sub(r"^sbatch \S+", "sluice train", line)
    wrapped = BEFORE.match(line)
    words, out = split("sluice " + line[wrapped.end():] if wrapped else line)
    words = [word for word in words if word != "..."]
    if not words:
        return
    program = words[0].rsplit("/", 1)[-1]
    if program == "sluice":
        scaled = scale(words[1:], bool(needs) or bool(wrapped))
        made = value_of(scaled, "--out")
        same = tuple(word for word in scaled if word != made)
        if same in done and not out and not (made and any(made in other for other in later)):
            return
        done.add(same)
        call(scaled, folder, out)
    elif program == "make_questions":
        subprocess.run([ROOT / words[0], *words[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    elif words[0].startswith(("tools/", "tests/")):
        check_tool(words)
    elif program in ("python", "python3", "torchrun"):
        check_tool([word for i, word in enumerate(words) if i >= min(
            at for at, one in enumerate(words) if one.endswith(".py"))])
    elif program == "cmake":
        check_cmake(words)
    elif program == "ctest":
        check_ctest(words)
    elif program not in OTHERS:
        raise Failed(f"the test must know what to do about '{words[0]}'")


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = Path(tempfile.mkdtemp(prefix="sluice-docs-"))
        cls.addClassCleanup(shutil.rmtree, cls.base, ignore_errors=True)
        (cls.base / "fresh").mkdir()
        prepare(cls.base / "fresh")

    def folder(self, name):
        folder = self.base / name
        shutil.copytree(self.base / "fresh", folder, symlinks=True)
        return folder

    def run_lines(self, name, lines, done):
        """What failed, in words."""
        folder, failures = self.folder(name), []
        for i, (needs, line) in enumerate(lines):
            later = [other for _, other in lines[i + 1:]]
            for part in line.split(" && "):
                try:
                    run_line(part.strip(), needs, folder, done, later)
                except (Failed, subprocess.CalledProcessError, ValueError) as error:
                    failures.append(f"{name}: {part}\n  {error}")
        return failures

    def test_of_documents_work(self):
        jobs, done = [], set()
        for path in DOCUMENTS:
            text = path.read_text()
            lines = [(needs, line) for needs, block in blocks(text) for line in block]
            if path.name == "claims.md":
                lines += [("", line) for row in re.findall(r"^\|[^|]*\|([^|]*)\|", text, re.MULTILINE)
                          for line in re.findall(r"`([^`]+)`", row)]
            for needs, line in lines:
                self.assertIn(needs, NEEDS | {""}, f"{path}: {needs}")
                for mark, sign in MARKS:
                    self.assertTrue(needs == mark or not re.search(sign, line),
                                    f"{path}: <!-- needs: {mark} --> must stand before the block of\n  {line}")
            if any(re.search(r"\bsluice |tools/|cmake ", line) for _, line in lines):
                jobs.append((path.name, [(n, line) for n, line in lines if looks_typed(line)]))
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda job: self.run_lines(*job, done), jobs))
        failures = [failure for some in results for failure in some]
        self.assertFalse(failures, "\n" + "\n".join(failures))
        self.assertGreater(len(done), 50)

    def test_of_the_help_work(self):
        lines = ["sluice train --workers 2 --out runs/b", "sluice train --preset lstm-kjv-small --out runs/lstm",
                 "sluice export runs/b --to model.safetensors", *walk_help()]
        lines = [line.replace("--model resnet50 --dataset imagefolder --data-dir /data/flowers",
                              "--model mlp --dataset fashion-mnist") for line in lines]
        done = set()
        failures = self.run_lines("help", [("", line) for line in lines], done)
        self.assertFalse(failures, "\n" + "\n".join(failures))
        self.assertGreater(len(done), 30)


def looks_typed(line):
    """Whether a line of a block is a command, and not what one prints."""
    return bool(re.match(r"(\S*/)?(sluice|python3?) \w|(\S*/)?python \S+\.py|tools/|tests/\S+/run\b|mpirun |srun |taskset |torchrun |"
                         r"cmake |ctest |pip |docker |sbatch ", line))


if __name__ == "__main__":
    main()
