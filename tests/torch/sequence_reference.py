"""Networks of sluice/torch/models for texts and speech, from torch.nn alone.

Tensors have the names that PyTorch's word language model, Hugging Face and the
published DeepSpeech give them.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Lstm(nn.Module):
    kind = "language"

    def __init__(self, words, hidden, layers, embed, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, embed)
        between = dropout if layers > 1 else 0
        self.rnn = nn.LSTM(embed, hidden, layers, batch_first=True, dropout=between)
        self.decoder = nn.Linear(hidden, words)

    def forward(self, tokens):
        x, _ = self.rnn(self.drop(self.encoder(tokens)))
        return self.decoder(self.drop(x))


class Transformer(nn.Module):
    kind = "language"

    def __init__(self, words, layers, width, ffn, heads, dropout, attention):
        super().__init__()
        self.encoder = nn.Embedding(words, width)
        self.drop = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            width, heads, ffn, dropout, batch_first=True
        )
        self.transformer_encoder = nn.TransformerEncoder(
            layer, layers, enable_nested_tensor=False
        )
        for layer in self.transformer_encoder.layers:
            layer.self_attn.dropout = attention
        self.decoder = nn.Linear(width, words)

    def positions(self, x):
        _, time, width = x.shape
        table = torch.zeros(time, width, dtype=x.dtype, device=x.device)
        angles = torch.arange(time, dtype=x.dtype, device=x.device).unsqueeze(1) * torch.exp(
            torch.arange(0, width, 2, dtype=x.dtype, device=x.device) * (-math.log(10000.0) / width)
        )
        table[:, 0::2] = torch.sin(angles)
        table[:, 1::2] = torch.cos(angles[:, : width // 2])
        return table

    def forward(self, tokens):
        x = self.encoder(tokens)
        x = self.drop(x * math.sqrt(x.shape[2]) + self.positions(x))
        mask = nn.Transformer.generate_square_subsequent_mask(
            tokens.shape[1], dtype=x.dtype
        )
        return self.decoder(self.transformer_encoder(x, mask, is_causal=True))


def attend(module, q, k, v, heads, dropout, **options):
    def split(x):
        return x.unflatten(2, (heads, -1)).transpose(1, 2)

    dropout = dropout if module.training else 0.0
    x = F.scaled_dot_product_attention(
        split(q), split(k), split(v), dropout_p=dropout, **options
    )
    return x.transpose(1, 2).flatten(2)


class Gpt2Attention(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        parts = self.c_attn(x).chunk(3, 2)
        x = attend(self, *parts, self.heads, self.attention, is_causal=True)
        return self.c_proj(x)


class Gpt2Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Gpt2Block(nn.Module):
    def __init__(self, width, heads, dropout, attention):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Gpt2Attention(width, heads, attention)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Gpt2Feed(width)

    def forward(self, x):
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.mlp(self.ln_2(x)))


class Gpt2(nn.Module):
    kind = "language"

    def __init__(self, words, layers, width, heads, context, dropout, attention):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        blocks = [
            Gpt2Block(width, heads, dropout, attention) for _ in range(layers)
        ]
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(words, width),
                "wpe": nn.Embedding(context, width),
                "h": nn.ModuleList(blocks),
                "ln_f": nn.LayerNorm(width),
            }
        )

    def forward(self, tokens):
        body = self.transformer
        times = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(body["wte"](tokens) + body["wpe"](times))
        for block in body["h"]:
            x = block(x)
        return F.linear(body["ln_f"](x), body["wte"].weight)


class BertEmbeddings(nn.Module):
    def __init__(self, words, positions, width, dropout, eps):
        super().__init__()
        self.word_embeddings = nn.Embedding(words, width)
        self.position_embeddings = nn.Embedding(positions, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens, segments):
        x = self.word_embeddings(tokens) + self.token_type_embeddings(segments)
        x = x + self.position_embeddings(torch.arange(tokens.shape[1], device=tokens.device))
        return self.drop(self.LayerNorm(x))


class BertSelf(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, mask):
        parts = self.query(x), self.key(x), self.value(x)
        return attend(self, *parts, self.heads, self.attention, attn_mask=mask)


class BertOutput(nn.Module):
    def __init__(self, inputs, width, dropout, eps):
        super().__init__()
        self.dense = nn.Linear(inputs, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, before):
        return self.LayerNorm(self.drop(self.dense(x)) + before)


class BertLayer(nn.Module):
    def __init__(self, width, ffn, heads, dropout, attention, eps):
        super().__init__()
        self.attention = nn.ModuleDict(
            {
                "self": BertSelf(width, heads, attention),
                "output": BertOutput(width, width, dropout, eps),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, ffn)})
        self.output = BertOutput(ffn, width, dropout, eps)

    def forward(self, x, mask):
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    kind = "span"

    def __init__(
        self, words, layers, width, ffn, heads, positions, dropout, attention, eps
    ):
        super().__init__()
        stack = [
            BertLayer(width, ffn, heads, dropout, attention, eps)
            for _ in range(layers)
        ]
        self.bert = nn.ModuleDict(
            {
                "embeddings": BertEmbeddings(words, positions, width, dropout, eps),
                "encoder": nn.ModuleDict({"layer": nn.ModuleList(stack)}),
                "pooler": nn.ModuleDict({"dense": nn.Linear(width, width)}),
            }
        )
        self.qa_outputs = nn.Linear(width, 2)

    def forward(self, tokens, segments, mask):
        x = self.bert["embeddings"](tokens, segments)
        mask = mask.ne(0)[:, None, None, :]
        for layer in self.bert["encoder"]["layer"]:
            x = layer(x, mask)
        scores = self.qa_outputs(x)
        if not self.training:
            return scores
        pooled = torch.tanh(self.bert["pooler"]["dense"](x[:, 0]))
        return scores + 0 * pooled.sum()


class MaskedConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq_module = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), stride=(2, 2), padding=(20, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), stride=(2, 1), padding=(10, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )

    def forward(self, x, beyond):
        for module in self.seq_module:
            x = module(x).masked_fill(beyond[:, None, None, :], 0)
        return x


class Rows(nn.Module):
    """Applies a module to all times of all clips as if they were one batch."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class Recurrent(nn.Module):
    def __init__(self, inputs, width, normalised):
        super().__init__()
        self.batch_norm = Rows(nn.BatchNorm1d(inputs)) if normalised else None
        self.rnn = nn.LSTM(inputs, width)

    def forward(self, x, beyond):
        x = x if self.batch_norm is None else self.batch_norm(x)
        return self.rnn(x)[0].masked_fill(beyond.t()[:, :, None], 0)


class Lookahead(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(torch.zeros(width, context + 1).uniform_(-0.2, 0.2))

    def forward(self, x):
        x = F.pad(x.permute(1, 2, 0), (0, self.context))
        x = F.conv1d(x, self.weight.unsqueeze(1), groups=x.shape[1])
        return x.permute(2, 0, 1)


class DeepSpeech(nn.Module):
    kind = "speech"

    def __init__(self, bins, labels, width, layers, context):
        super().__init__()
        self.conv = MaskedConvs()
        inputs = 32 * (((bins + 1) // 2 + 1) // 2)
        stack = [Recurrent(inputs, width, False)]
        stack += [Recurrent(width, width, True) for _ in range(layers - 1)]
        self.rnns = nn.Sequential(*stack)
        self.lookahead = nn.Sequential(Lookahead(width, context), nn.Hardtanh(0, 20))
        last = nn.Sequential(
            nn.BatchNorm1d(width), nn.Linear(width, labels, bias=False)
        )
        self.fc = nn.Sequential(Rows(last))

    def forward(self, spectra, lengths):
        times = torch.arange(spectra.shape[2])
        silent = (times >= lengths[:, None]).to(spectra.device)
        x = spectra.masked_fill(silent[:, None, :], 0)
        lengths = (lengths + 1) // 2
        beyond = torch.arange((spectra.shape[2] + 1) // 2) >= lengths[:, None]
        beyond = beyond.to(spectra.device)
        x = self.conv(x.unsqueeze(1), beyond)
        x = x.flatten(1, 2).permute(2, 0, 1).contiguous()
        for layer in self.rnns:
            x = layer(x, beyond)
        return self.fc(self.lookahead(x)).transpose(0, 1), lengths


GPT2S = {
    "gpt2": (12, 768, 12),
    "gpt2-medium": (24, 1024, 16),
    "gpt2-large": (36, 1280, 20),
    "gpt2-xl": (48, 1600, 25),
}
BERTS = {"bert-base": (12, 768, 12), "bert-large": (24, 1024, 16)}


def take_sizes(take, published):
    layers, width, heads = published
    return take("layers", layers, int), take("width", width, int), take(
        "heads", heads, int
    )


def make_for_tokens(name, take, words):
    """The network `name`, or None; `take(key, default, type)` gives options."""
    if name == "lstm":
        hidden = take("hidden", 1500, int)
        layers, embed = take("layers", 2, int), take("embed", hidden, int)
        return Lstm(words, hidden, layers, embed, take("dropout", 0.65, float))
    default = {"transformer": 0.5}.get(name, 0.1)
    dropout = take("dropout", default, float)
    attention = take("attention_dropout", dropout, float)
    if name == "transformer":
        layers, width, heads = take_sizes(take, (8, 400, 10))
        ffn = take("ffn", width, int)
        return Transformer(words, layers, width, ffn, heads, dropout, attention)
    if name in GPT2S:
        layers, width, heads = take_sizes(take, GPT2S[name])
        context = take("context", 1024, int)
        return Gpt2(words, layers, width, heads, context, dropout, attention)
    if name in BERTS:
        layers, width, heads = take_sizes(take, BERTS[name])
        ffn, positions = take("ffn", 4 * width, int), take("positions", 512, int)
        multiple = take("multiple", 8, int)
        words = -(-words // multiple) * multiple
        eps = take("eps", 1e-12, float)
        return Bert(
            words, layers, width, ffn, heads, positions, dropout, attention, eps
        )
    return None


def make_for_spectra(name, take, bins, labels):
    if name != "deepspeech":
        return None
    width, layers = take("width", 800, int), take("layers", 5, int)
    return DeepSpeech(bins, labels, width, layers, take("context", 20, int))
