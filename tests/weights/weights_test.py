#!/usr/bin/env python3
"""Reads what torch and safetensors write, and the other way round.

usage: weights_test.py WEIGHTS_TOOL

Exits with 77, with a reason, where torch or safetensors is not installed.
"""

import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import safetensors.torch
    import torch
except ImportError as error:
    print(f"[weights_test] skipped: {error}; tools/setup installs it")
    sys.exit(77)

try:
    import transformers
except ImportError:
    transformers = None

TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Tool:
    def __init__(self, path):
        self.path = path

    def run(self, *args):
        return subprocess.run(
            [self.path, *map(str, args)], capture_output=True, text=True
        )

    def read(self, *args):
        done = self.run(*args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refusal(self, path):
        done = self.run("list", path)
        assert done.returncode == 1, (done.returncode, done.stdout)
        return done.stderr


def expect_tensors(listed, expected):
    assert set(listed) == set(expected), (set(listed), set(expected))
    for name, tensor in expected.items():
        found = listed[name]
        assert found["dtype"] == TYPES[tensor.dtype], (name, found["dtype"])
        assert found["shape"] == list(tensor.shape), (name, found["shape"])
        values = tensor.detach().flatten()
        wide = torch.int64 if not values.is_floating_point() else torch.float64
        again = torch.tensor(found["values"], dtype=wide)
        assert torch.equal(again, values.to(wide)), name


def tensors_of_all_types():
    torch.manual_seed(7)
    made = {}
    for dtype, name in TYPES.items():
        made[name] = (torch.randn(3, 4) * 10).to(dtype)
    made["scalar"] = torch.tensor(0.25)
    made["empty"] = torch.zeros(0, 5)
    made["ünï"] = torch.ones(2)
    return made


def test_safetensors(tool, folder):
    tensors = tensors_of_all_types()
    path = folder / "theirs.safetensors"
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    listed = tool.read("list", path)
    assert listed["metadata"] == {"format": "pt"}
    expect_tensors(listed["tensors"], tensors)

    ours = folder / "ours.safetensors"
    assert tool.run("copy", path, ours).returncode == 0
    again = safetensors.torch.load_file(ours)
    assert set(again) == set(tensors)
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype, name
        assert torch.equal(again[name], tensor), name
    with safetensors.safe_open(ours, "pt") as file:
        assert file.metadata() == {"format": "pt"}
    # The same bytes every time.
    digest = hashlib.sha256(ours.read_bytes()).hexdigest()
    assert tool.run("copy", ours, folder / "again").returncode == 0
    assert digest == hashlib.sha256((folder / "again").read_bytes()).hexdigest()


def strided():
    base = torch.arange(60.0).reshape(3, 4, 5)
    tied = torch.randn(4, 3)
    return collections.OrderedDict(
        whole=base,
        turned=base.permute(2, 0, 1),
        part=base[1:, ::2, 1:4],
        row=base[0, 1],
        tied=tied,
        twin=tied,
        parameter=torch.nn.Parameter(torch.randn(2, 2).t()),
        channels_last=torch.randn(2, 3, 4, 4).to(
            memory_format=torch.channels_last
        ),
        expanded=torch.arange(4).expand(1, 4),
    )


def test_torch_files(tool, folder):
    cases = {"types": tensors_of_all_types(), "strided": strided()}
    for name, tensors in cases.items():
        for protocol in (2, 4, 5):
            path = folder / f"{name}-{protocol}.pt"
            torch.save(tensors, path, pickle_protocol=protocol)
            listed = tool.read("list", path)
            assert listed["format"] == "torch.save"
            expect_tensors(listed["tensors"], tensors)


def test_modules(tool, folder):
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(2, 2)
    )
    path = folder / "module.pt"
    torch.save(module.state_dict(), path)
    expect_tensors(tool.read("list", path)["tensors"], module.state_dict())

    optimizer = torch.optim.Adam(module.parameters())
    module[2](torch.randn(1, 2)).sum().backward()
    optimizer.step()
    parallel = {f"module.{k}": v for k, v in module.state_dict().items()}
    checkpoint = {
        "epoch": 3,
        "best": 0.5,
        "optimizer": optimizer.state_dict(),
        "state_dict": parallel,
        "huge": 1 << 40,
        "list": [1, 2.5, None, True, ("a", "b")],
    }
    torch.save(checkpoint, path)
    listed = tool.read("list", path)
    expect_tensors(listed["tensors"], module.state_dict())
    assert listed["notes"] == [
        "took the tensors of its 'state_dict'",
        "took 'module.' off all names",
    ], listed["notes"]


class Evil:
    def __reduce__(self):
        return (print, ("called",))


def test_refusals(tool, folder):
    path = folder / "refused.pt"
    weights = {"a": torch.ones(2)}
    torch.save(weights, path, _use_new_zipfile_serialization=False)
    assert "is of torch.save before 1.6" in tool.refusal(path)
    torch.save({"a": Evil()}, path)
    assert "the pickle names '" in tool.refusal(path)
    assert "print', which is not of a state_dict and is never called" in (
        tool.refusal(path)
    )
    torch.save(torch.nn.Linear(2, 2), path)
    assert "which is not of a state_dict" in tool.refusal(path)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    assert "it is a TorchScript program" in tool.refusal(path)
    # One changed bit of a storage.
    torch.save({"a": torch.full((64,), 7.0)}, path)
    damaged = bytearray(path.read_bytes())
    at = damaged.find(torch.full((64,), 7.0).numpy().tobytes())
    assert at > 0
    damaged[at] ^= 1
    path.write_bytes(damaged)
    assert "is damaged: its CRC must be" in tool.refusal(path)


def test_shards(tool, folder):
    folder = folder / "sharded"
    folder.mkdir()
    parts = [{"a": torch.ones(2)}, {"b": torch.zeros(3), "c": torch.ones(1)}]
    places = {}
    for i, part in enumerate(parts, 1):
        name = f"model-{i:05}-of-00002.safetensors"
        safetensors.torch.save_file(part, folder / name)
        places |= {key: name for key in part}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 24}, "weight_map": places})
    )
    expect_tensors(tool.read("list", folder)["tensors"], parts[0] | parts[1])


def test_gpt2_computes_alike(tool, folder):
    """A layer of Hugging Face's Conv1D form and our Linear give the same."""
    torch.manual_seed(3)
    weight, bias = torch.randn(4, 12), torch.randn(12)
    path = folder / "gpt2.safetensors"
    safetensors.torch.save_file(
        {
            "wte.weight": torch.randn(5, 4),
            "h.0.attn.c_attn.weight": weight,
            "h.0.attn.c_attn.bias": bias,
            "h.0.attn.bias": torch.ones(1, 1, 3, 3),
        },
        path,
    )
    specs = folder / "specs.json"
    name = "transformer.h.0.attn.c_attn."
    specs.write_text(
        json.dumps(
            {
                "transformer.wte.weight": [8, 4],
                name + "weight": [12, 4],
                name + "bias": [12],
            }
        )
    )
    done = tool.read("import", "gpt2", path, specs)
    linear = torch.nn.Linear(4, 12)
    with torch.no_grad():
        ours = torch.tensor(done["tensors"][name + "weight"]).reshape(12, 4)
        linear.weight.copy_(ours)
        linear.bias.copy_(torch.tensor(done["tensors"][name + "bias"]))
    x = torch.randn(2, 4)
    assert torch.allclose(linear(x), x @ weight + bias, atol=1e-6)
    assert done["report"]["new"] == []
    assert done["report"]["notes"] == [
        "'transformer.wte.weight': 3 rows of zeros added behind 5"
    ]


def small_models():
    """Hugging Face's models, with the names and shapes of ours."""
    common = dict(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    bert = transformers.BertForQuestionAnswering(
        transformers.BertConfig(
            vocab_size=29, max_position_embeddings=16, **common
        )
    )
    specs = {k: list(v.shape) for k, v in bert.named_parameters()}
    specs["bert.embeddings.word_embeddings.weight"][0] = 32
    specs["bert.pooler.dense.weight"] = [8, 8]
    specs["bert.pooler.dense.bias"] = [8]
    yield "bert", bert, specs, dict(input_ids=torch.arange(12).reshape(2, 6))

    gpt2 = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=29, n_positions=16, n_embd=8, n_layer=2, n_head=2
        )
    )
    specs = {k: list(v.shape) for k, v in gpt2.named_parameters()}
    for name, shape in specs.items():
        if ".c_" in name:
            shape.reverse()
    yield "gpt2", gpt2, specs, dict(input_ids=torch.arange(12).reshape(2, 6))

    vit = transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=8, patch_size=4, num_labels=3, **common
        )
    )
    specs = {
        "cls_token": [1, 1, 8],
        "pos_embed": [1, 5, 8],
        "patch_embed.proj.weight": [8, 3, 4, 4],
        "patch_embed.proj.bias": [8],
    }
    layers = {"norm": [8], "head": [3, 8]}
    for i in range(2):
        layers[f"blocks.{i}.norm1"] = layers[f"blocks.{i}.norm2"] = [8]
        layers[f"blocks.{i}.attn.qkv"] = [24, 8]
        layers[f"blocks.{i}.attn.proj"] = [8, 8]
        layers[f"blocks.{i}.mlp.fc1"] = [32, 8]
        layers[f"blocks.{i}.mlp.fc2"] = [8, 32]
    for name, shape in layers.items():
        specs |= {name + ".weight": shape, name + ".bias": shape[:1]}
    yield "vit", vit, specs, dict(pixel_values=torch.randn(2, 3, 8, 8))


def test_hugging_face_models_compute_alike(tool, folder):
    """Through our names and back, a model computes what it did."""
    if transformers is None:
        print("[weights_test] without transformers: no models to try")
        return
    torch.manual_seed(11)
    for kind, model, specs, inputs in small_models():
        with torch.no_grad():
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.5)
        path, back = folder / kind, folder / f"{kind}-back"
        back.mkdir()
        model.eval().save_pretrained(path)
        names = folder / "specs.json"
        names.write_text(json.dumps(specs))
        report = tool.read("import", kind, path, names)["report"]
        expected = [n for n in specs if n.startswith("bert.pooler")]
        assert sorted(report["new"]) == sorted(expected), report["new"]
        assert report["unused"] == [] and report["unfit"] == [], report
        done = tool.run("round", kind, path, names, back)
        assert done.returncode == 0, done.stderr
        again = type(model).from_pretrained(back).eval()
        with torch.no_grad():
            before, after = model(**inputs), again(**inputs)
        for a, b in zip(before.to_tuple(), after.to_tuple()):
            if torch.is_tensor(a):
                assert torch.equal(a, b), kind


def main():
    tool = Tool(pathlib.Path(sys.argv[1]).resolve())
    tests = [value for name, value in globals().items() if name[:5] == "test_"]
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            test(tool, pathlib.Path(folder))
        print(f"[weights_test] {test.__name__}")


if __name__ == "__main__":
    main()
