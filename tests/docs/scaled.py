"""Commands of the documentation, made so small that a test can run them."""

import re
import shlex
import struct
import zlib

# Options that make a command small, by the command. They take the place of those that are given.
SMALL = {
    ("bench", "select"): {"--n": "20k", "--steps": 1},
    ("bench", "wire"): {"--n": "20k", "--steps": 1},
    ("bench", "collective"): {"--n": "20k", "--steps": 1, "--warmup": 0, "--workers": 2},
    ("bench", "data"): {"--images": 2, "--width": 32, "--height": 32, "--batch-size": 1, "--rounds": 1},
    ("bench", "text"): {"--file": "book.txt", "--size": 300, "--rounds": 1},
    ("bench", "audio"): {"--minutes": 0.1, "--clip": 1, "--rounds": 1},
    ("data", "vocab"): {"--size": 400},
    ("probe",): {"--workers": 2, "--engine": "threads"},
    ("train",): {"--workers": 2, "--threads": 1, "--batch-size": 2, "--max-steps": 2, "--eval-every": 0,
                 "--log-every": 1},
    # It runs nothing: tests/cli/compare_test.py does.
    ("compare",): {"--seeds": 1},
}
# Models that take minutes, and what stands for them.
MODELS = {"resnet50": "lenet", "vgg16": "lenet"}
# In place of a text of 4 MB.
BOOKS = ("--dataset", "text", "--data-dir", "books")
PATHS = {"/data/": "data/", "/shared/": "shared/", "~/": ""}


def put(words, option, value):
    """Gives an option another value, or adds it."""
    for i, word in enumerate(words):
        if word == option:
            words[i + 1] = str(value)
            return
    end = words.index("--") if "--" in words else len(words)
    words[end:end] = [option, str(value)]


def value_of(words, option):
    return words[words.index(option) + 1] if option in words else None


def name_of(words):
    return tuple(words[:2]) if tuple(words[:2]) in SMALL else tuple(words[:1])


def scale_training(words, checked):
    model = value_of(words, "--model")
    preset = value_of(words, "--preset") or ""
    if model in MODELS:
        put(words, "--model", MODELS[model])
    if preset.startswith("vgg16") or value_of(words, "--config"):
        words += ["--model", "lenet"]
    if preset.endswith("kjv-small"):
        words += [*BOOKS, "--length", "8"]
    if value_of(words, "--epochs"):  # of which a schedule knows that they are more than its warm-up
        words += ["--lr-schedule", "constant"]
    if value_of(words, "--dataset") == "imagefolder":
        put(words, "--dataset", "imagefolder:size=32,resize=36")
    if "--profile" in words:  # it takes eight steps, after the first five
        put(words, "--profile", 10)
        put(words, "--max-steps", 20)
    if "--device" in words:
        put(words, "--device", "cpu")
    if checked or "--check" in words:
        words.append("--check")
    elif not {"--on-failure", "--hostfile"} & set(words):
        put(words, "--engine", "threads")
    if "--out" in words and "--resume" not in words:
        words.append("--overwrite")
    # The last one of each wins, as it does for everybody.


def scale_comparison(words):
    flags, job = (words[:words.index("--")], words[words.index("--"):]) if "--" in words else (words, [])
    if "--report-only" in flags:
        return
    methods = [i + 1 for i, word in enumerate(flags) if word == "--methods"]
    flags[methods[0]] = ",".join(flags[methods[0]].split(",")[:2])
    for i in reversed(methods[2:]):
        del flags[i - 1:i + 1]
    if "--device" in job:
        put(job, "--device", "cpu")
    words[:] = [*flags, "--check", *job]


def scale_study(words):
    """Few steps of a small job; the last of an option's values wins."""
    put(words, "--every", 1)
    words += ["--overwrite"] if "--" not in words else []
    if "--" in words:
        words.insert(words.index("--"), "--overwrite")
        words += ["--dataset", "synthetic:train=64,test=8", "--workers", "2", "--engine", "threads", "--threads", "1",
                  "--batch-size", "2", "--max-steps", "3", "--eval-every", "0"]


def scale(words, checked=False):
    """The words after `sluice`, for a test. `checked`: what cannot be run here is only looked at."""
    words = list(words)
    for i, word in enumerate(words):
        for path, here in PATHS.items():
            if word.startswith(path):
                words[i] = here + word[len(path):]
    name = name_of(words)
    for option, value in SMALL.get(name, {}).items():
        if not (option == "--n" and "--model" in words):
            put(words, option, value)
    if name == ("bench", "select") and "--model" in words:
        put(words, "--sparsifier", "topk")
        put(words, "--densities", 0.01)
    if name == ("bench", "collective"):
        put(words, "--engine", "simulated" if "--net" in words else "threads")
    if name == ("train",):
        scale_training(words, checked)
    if name == ("compare",):
        scale_comparison(words)
    if words[:2] in (["study", "gradients"], ["study", "convergence"]) and "--npy" not in words:
        scale_study(words)
    if name == ("evaluate",) and value_of(words, "--dataset") == "kjv":
        put(words, "--dataset", "text")
        put(words, "--data-dir", "books")
    if name in (("probe",), ("bench", "collective")) and "--hostfile" in words:
        at = words.index("--hostfile")
        del words[at:at + 2]
    return words


FENCE = re.compile(r"^(<!-- needs: ([\w ,]+) -->\n)?( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks(text):
    """(needs, lines) of every block of commands: with `$ ` before them where there is output, else all lines."""
    for found in FENCE.finditer(text):
        needs, language, body = found[2], found[4], found[5]
        if language not in ("", "sh", "console"):
            continue
        lines = re.sub(r"\\\n\s*", " ", body).splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")]
        yield needs or "", typed or lines


def split(line):
    """Words of a line, its file for standard output (or None)."""
    words = shlex.split(line, comments=True)
    if ">" in words:
        at = words.index(">")
        return words[:at], words[at + 1]
    return words, None


def png(width, height, shade):
    """A grey picture."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + bytes([shade] * 3 * width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
