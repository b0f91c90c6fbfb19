"""Networks of sluice/torch/models, built anew from torch.nn alone.

`make(model, kind, numbers)` takes the text that the option --model takes, and
kind and numbers of samples as in model_job.h; those of texts and speech are in
sequence_reference.py. Tensors have the names that torchvision and timm give them.
"""

import torch
from torch import nn
from torch.nn import functional as F

import sequence_reference


class Residual(nn.Module):
    """A block of a ResNet: sizes are those of its kernels, widths of outputs."""

    def __init__(self, inputs, kernels, widths, stride):
        super().__init__()
        self.count = len(kernels)
        outputs = widths[-1]
        strided = kernels.index(3)
        channels = inputs
        for i, (kernel, width) in enumerate(zip(kernels, widths)):
            conv = nn.Conv2d(
                channels,
                width,
                kernel,
                stride=stride if i == strided else 1,
                padding=kernel // 2,
                bias=False,
            )
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(width))
            channels = width
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = self.relu(y)
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class Resnet(nn.Module):
    def __init__(self, blocks, bottleneck, imagenet, channels, classes):
        super().__init__()
        size, stride, padding = (7, 2, 3) if imagenet else (3, 1, 1)
        self.conv1 = nn.Conv2d(
            channels, 64, size, stride=stride, padding=padding, bias=False
        )
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if imagenet else nn.Identity()
        inputs = 64
        for stage, count in enumerate(blocks):
            width = 64 << stage
            if bottleneck:
                kernels, widths = (1, 3, 1), (width, width, 4 * width)
            else:
                kernels, widths = (3, 3), (width, width)
            layers = []
            for i in range(count):
                down = 2 if stage > 0 and i == 0 else 1
                layers.append(Residual(inputs, kernels, widths, down))
                inputs = widths[-1]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class SmallBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.new = outputs - inputs
        stride = 2 if self.new else 1
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.new:
            half = self.new // 2
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, half))
        return F.relu(y + x)


class SmallResnet(nn.Module):
    def __init__(self, blocks, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        layers, inputs = [], 16
        for width in (16, 32, 64):
            for _ in range(blocks):
                layers.append(SmallBlock(inputs, width))
                inputs = width
        self.blocks = nn.Sequential(*layers)
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


class Vgg(nn.Module):
    def __init__(self, stages, imagenet, bn, widths, dropout, channels, classes):
        super().__init__()
        layers = []
        for width, count in zip((64, 128, 256, 512, 512), stages):
            for _ in range(count):
                layers.append(nn.Conv2d(channels, width, 3, padding=1))
                if bn:
                    layers.append(nn.BatchNorm2d(width))
                layers.append(nn.ReLU(inplace=True))
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7) if imagenet else nn.Identity()
        inputs = 512 * 49 if imagenet else 512
        if not widths:
            self.fc = nn.Linear(inputs, classes)
            self.last = lambda x: self.fc(x)
            return
        layers = []
        for width in widths:
            layers += [nn.Linear(inputs, width), nn.ReLU(True)]
            layers += [nn.Dropout(dropout)]
            inputs = width
        self.classifier = nn.Sequential(*layers, nn.Linear(inputs, classes))
        self.last = lambda x: self.classifier(x)

    def forward(self, x):
        return self.last(torch.flatten(self.avgpool(self.features(x)), 1))


class Alexnet(nn.Module):
    def __init__(self, widths, dropout, channels, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        layers, inputs = [], 256 * 36
        for width in widths:
            layers += [nn.Dropout(dropout), nn.Linear(inputs, width)]
            layers += [nn.ReLU(inplace=True)]
            inputs = width
        self.classifier = nn.Sequential(*layers, nn.Linear(inputs, classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, size, patch, channels, height, width, classes):
        super().__init__()
        dim, depth, heads = size
        tokens = 1 + (height // patch) * (width // patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, dim))
        self.patch_embed = nn.ModuleDict(
            {"proj": nn.Conv2d(channels, dim, patch, stride=patch)}
        )
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        return self.head(self.norm(self.blocks(x + self.pos_embed))[:, 0])


RESNETS = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
    "resnet152": ((3, 8, 36, 3), True),
}
SMALL_RESNETS = {"resnet20": 3, "resnet56": 9, "resnet110": 18}
VGGS = {"vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
VITS = {
    "vit-tiny": (192, 12, 3),
    "vit-small": (384, 12, 6),
    "vit-base": (768, 12, 12),
    "vit-large": (1024, 24, 16),
}


def make_for_images(name, take, channels, height, width, classes):
    def take_widths(default):
        return take(
            "widths", default, lambda text: [int(w) for w in text.split("-") if w]
        )

    large = height >= 64 or width >= 64
    shape = (channels, classes)
    if name in SMALL_RESNETS:
        return SmallResnet(SMALL_RESNETS[name], *shape)
    if name in RESNETS:
        imagenet = take("form", large, lambda text: text == "imagenet")
        return Resnet(*RESNETS[name], imagenet, *shape)
    if name in VGGS:
        imagenet = take("form", large, lambda text: text == "imagenet")
        bn = take("bn", not imagenet, lambda text: text == "true")
        widths = take_widths([4096, 4096] if imagenet else [])
        dropout = take("dropout", 0.5, float)
        return Vgg(VGGS[name], imagenet, bn, widths, dropout, *shape)
    if name == "alexnet":
        widths = take_widths([4096, 4096])
        return Alexnet(widths, take("dropout", 0.5, float), *shape)
    if name in VITS:
        patch = take("patch", 16 if large else 4, int)
        return Vit(VITS[name], patch, channels, height, width, classes)
    return None


def make(model, kind, numbers):
    name, _, rest = model.partition(":")
    options = dict(item.split("=") for item in rest.split(",") if item)

    def take(key, default, convert=str):
        text = options.pop(key, "auto")
        return default if text == "auto" else convert(text)

    if kind == "images":
        network = make_for_images(name, take, *numbers[:4])
    elif kind == "tokens":
        network = sequence_reference.make_for_tokens(name, take, numbers[0])
    else:
        network = sequence_reference.make_for_spectra(name, take, *numbers[:2])
    if network is None:
        raise ValueError(f"[model_reference] no model '{name}' of {kind}")
    assert not options, options
    return network
