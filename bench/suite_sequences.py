"""Jobs of the suite over sequences and tables, and training jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jobs import Block, Job, Wrap
from suite_vision import conv, residual_net
from torch import nn
from torch.nn import functional


class Encoder(nn.Module):
    """Transformer blocks over vectors, with attention by PyTorch's function."""

    def __init__(
        self, width: int, heads: int, layers: int, causal: bool = False, grow: int = 4
    ) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1 = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.norm2 = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, grow * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(grow * width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layers = zip(self.norm1, self.norm2, self.qkv, self.out, self.up, self.down)
        for norm1, norm2, qkv, out, up, down in layers:
            parts = qkv(norm1(x)).chunk(3, -1)
            q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            x = x + out(y.transpose(1, 2).flatten(2))
            x = x + down(functional.gelu(up(norm2(x))))
        return x


class Vit(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, side: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        count = (side // 16) ** 2 + 1
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, count, width) * 0.02)
        self.body, self.head = Encoder(width, heads, layers), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.body(x)[:, 0])


def vit_small() -> Job:
    return Vit(384, 6, 6).eval(), [(torch.randn(1, 3, 224, 224),)], {}


def vit_tiny_b16() -> Job:
    return Vit(192, 3, 4, 96).eval(), [(torch.randn(16, 3, 96, 96),)], {}


class Mixer(nn.Module):
    def __init__(self, width: int = 256, places: int = 196, layers: int = 4) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.tokens = nn.ModuleList(
            nn.Sequential(nn.Linear(places, 128), nn.GELU(), nn.Linear(128, places))
            for _ in range(layers)
        )
        self.channels = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 1024), nn.GELU(), nn.Linear(1024, width))
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, (tokens, channels) in enumerate(zip(self.tokens, self.channels)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return x


def mixer_b4() -> Job:
    return Mixer().eval(), [(torch.randn(4, 196, 256),)], {}


class Speech(nn.Module):
    """Two convolutions over 3,000 frames, then attention over 1,500 positions."""

    def __init__(self, width: int = 384, layers: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, 2, 1)
        self.body = Encoder(width, 6, layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.second(functional.gelu(self.first(x))))
        return self.body(x.transpose(1, 2))


def speech_encoder() -> Job:
    return Speech().eval(), [(torch.randn(1, 80, 3000),)], {}


class Wave(nn.Module):
    """Gated dilated 1-d convolutions."""

    def __init__(self, width: int = 64, layers: int = 8) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(1, width, 1), nn.Conv1d(width, 64, 1)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, dilation=2 ** (k % 6), padding=2 ** (k % 6))
            for k in range(layers)
        )
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer, mix in zip(self.layers, self.mix):
            a, b = layer(x).chunk(2, 1)
            x = x + mix(torch.tanh(a) * torch.sigmoid(b))
        return self.last(x)


def wavenet_b2() -> Job:
    return Wave().eval(), [(torch.randn(2, 1, 4000),)], {}


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module], inner: int, width: int) -> None:
        super().__init__()
        self.cells = kind(inner, width, 2, batch_first=True)
        self.head = nn.Linear(width, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0])


def lstm_b8() -> Job:
    return Recurrent(nn.LSTM, 128, 256).eval(), [(torch.randn(8, 32, 128),)], {}


def gru_b1() -> Job:
    return Recurrent(nn.GRU, 64, 128).eval(), [(torch.randn(1, 48, 64),)], {}


class Language(nn.Module):
    def __init__(self, words: int, width: int, heads: int, layers: int, causal: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(4096, width)
        self.body, self.norm = Encoder(width, heads, layers, causal), nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.body(self.words(ids) + self.places(places)))
        return x @ self.words.weight.T


def ids(*shape: int, words: int = 8000) -> torch.Tensor:
    return torch.randint(0, words, shape)


def gpt_64() -> Job:
    return Language(8000, 384, 6, 6, True).eval(), [(ids(1, 64),)], {}


def gpt_1024() -> Job:
    """Long and causal: half of the scores need not be computed."""
    return Language(2000, 256, 4, 2, True).eval(), [(ids(1, 1024, words=2000),)], {}


def gpt_grow() -> Job:
    inputs = [(ids(1, n, words=2000),) for n in range(40, 56)]
    return Language(2000, 256, 4, 4, True).eval(), inputs, {"dynamic": True}


def gpt_bf16() -> Job:
    model = Language(8000, 512, 8, 4, True).eval().to(torch.bfloat16)
    return model, [(ids(1, 64),)], {}


def bert_b32() -> Job:
    return Language(8000, 256, 4, 3, False).eval(), [(ids(32, 32),)], {}


def encoder_layer_b8() -> Job:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    return model, [(torch.randn(8, 48, 256),)], {}


def t5_encoder() -> Job:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=8000, d_model=256, d_kv=64, d_ff=1024, num_layers=4, num_heads=4)
    model = Wrap(T5EncoderModel(config), lambda m, i: m(input_ids=i).last_hidden_state)
    return model.eval(), [(ids(2, 64),)], {}


class Decode(nn.Module):
    """One token of a causal model beside a cache of keys and values, bf16 weights."""

    def __init__(self, width: int = 1024, layers: int = 4, past: int = 256) -> None:
        super().__init__()
        self.past = past
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * width, width, bias=False) for _ in range(layers))

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        new_keys, new_values = [], []
        for i, (qkv, out, up, down) in enumerate(zip(self.qkv, self.out, self.up, self.down)):
            parts = qkv(functional.rms_norm(x, x.shape[-1:])).chunk(3, -1)
            q, k, v = (p.unflatten(-1, (16, -1)).transpose(1, 2) for p in parts)
            k, v = torch.cat([keys[i], k], 2), torch.cat([values[i], v], 2)
            y = functional.scaled_dot_product_attention(q, k, v)
            x = x + out(y.transpose(1, 2).flatten(2))
            x = x + down(functional.silu(up(functional.rms_norm(x, x.shape[-1:]))))
            new_keys.append(k)
            new_values.append(v)
        return x, torch.stack(new_keys), torch.stack(new_values)


def decode_cache_bf16() -> Job:
    cache = torch.randn(4, 1, 16, 256, 64, dtype=torch.bfloat16)
    inputs = (torch.randn(1, 1, 1024, dtype=torch.bfloat16), cache, cache.clone())
    return Decode().eval().to(torch.bfloat16), [inputs], {}


class ByteLinear(nn.Module):
    """Weights of eight bits with a scale for each output, or for groups of inputs."""

    def __init__(self, inner: int, outer: int, group: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Buffer(torch.randint(-127, 128, (outer, inner), dtype=torch.int8))
        shape = (outer, 1) if group is None else (outer, inner // group, 1)
        self.scale = nn.Buffer(torch.rand(shape) * 1e-2 / inner**0.5)
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.group is None:
            return x @ (self.weight.to(x.dtype) * self.scale.to(x.dtype)).T
        parts = self.weight.unflatten(1, (-1, self.group)).to(x.dtype)
        return x @ (parts * self.scale.to(x.dtype)).flatten(1).T


def byte_weights(rows: int, group: int | None) -> Job:
    layers: list[nn.Module] = []
    for inner, outer in itertools.pairwise([1024, 4096, 1024, 4096, 1024]):
        layers += [ByteLinear(inner, outer, group), nn.SiLU()]
    return nn.Sequential(*layers).eval(), [(torch.randn(rows, 1024),)], {}


def int8_weights() -> Job:
    return byte_weights(1, None)


def int8_groups() -> Job:
    return byte_weights(1, 128)


def int8_weights_b32() -> Job:
    return byte_weights(32, None)


class Dlrm(nn.Module):
    def __init__(self, fields: int = 16, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(5000, width, mode="sum") for _ in range(fields))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (fields + 1) * fields // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 1))
        self.at = nn.Buffer(torch.tril_indices(fields + 1, fields + 1, -1))

    def forward(self, numbers: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        rows = [dense] + [t(ids[:, i]) for i, t in enumerate(self.tables)]
        x = torch.stack(rows, 1)
        crosses = (x @ x.transpose(1, 2))[:, self.at[0], self.at[1]]
        return torch.sigmoid(self.top(torch.cat([dense, crosses], 1)))


def dlrm_b128() -> Job:
    inputs = (torch.randn(128, 13), torch.randint(0, 5000, (128, 16, 4)))
    return Dlrm().eval(), [inputs], {}


class Interest(nn.Module):
    """Attention of a candidate over a user's history: DIN."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.items = nn.Embedding(10_000, width)
        self.score = nn.Sequential(nn.Linear(4 * width, 80), nn.Sigmoid(), nn.Linear(80, 1))
        self.top = nn.Sequential(nn.Linear(2 * width, 200), nn.PReLU(), nn.Linear(200, 2))

    def forward(self, history: torch.Tensor, candidate: torch.Tensor) -> torch.Tensor:
        h, c = self.items(history), self.items(candidate).unsqueeze(1).expand(-1, 50, -1)
        weights = self.score(torch.cat([h, c, h - c, h * c], -1))
        user = (torch.where(history.unsqueeze(-1) > 0, weights, 0.0) * h).sum(1)
        return torch.softmax(self.top(torch.cat([user, c[:, 0]], -1)), -1)


def interest_b32() -> Job:
    inputs = (torch.randint(0, 10_000, (32, 50)), torch.randint(0, 10_000, (32,)))
    return Interest().eval(), [inputs], {}


def rows_grow() -> Job:
    """Layers over a changing number of rows."""
    model = nn.Sequential(Block(128, 4), Block(128, 4)).eval()
    return model, [(torch.randn(1, n, 128),) for n in range(10, 40, 3)], {"dynamic": True}


SEQUENCES = (
    *(vit_small, vit_tiny_b16, mixer_b4, speech_encoder, wavenet_b2, lstm_b8, gru_b1, gpt_64),
    *(gpt_1024, gpt_grow, gpt_bf16, bert_b32, encoder_layer_b8, t5_encoder, decode_cache_bf16),
    *(int8_weights, int8_groups, int8_weights_b32, dlrm_b128, interest_b32, rows_grow),
)


@dataclass
class Training:
    """A model with its data; the loss is cross entropy, the optimizer AdamW or SGD."""

    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    targets: torch.Tensor
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)


def train_mlp() -> Training:
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
    return Training(model, (torch.randn(32, 128),), torch.randint(0, 10, (32,)), adam)


class Flat(nn.Module):
    """Scores of all positions as rows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.model(*args).flatten(0, -2)


def train_gpt() -> Training:
    model = Flat(Language(1000, 128, 4, 2, True))
    return Training(model, (ids(4, 64, words=1000),), ids(256, words=1000), adam)


def train_conv_net() -> Training:
    layers = [conv(3, 32), conv(32, 64, 3, 2), conv(64, 64), conv(64, 128, 3, 2), conv(128, 128)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return Training(model, (torch.randn(16, 3, 32, 32),), torch.randint(0, 10, (16,)), sgd)


def train_resnet() -> Training:
    data = (torch.randn(4, 3, 64, 64),)
    return Training(residual_net(10), data, torch.randint(0, 10, (4,)), sgd)


def train_lstm() -> Training:
    model = Flat(Recurrent(nn.LSTM, 32, 64))
    return Training(model, (torch.randn(8, 16, 32),), torch.randint(0, 64, (128,)), adam)


def train_vit() -> Training:
    return Training(
        Vit(96, 3, 2, 64), (torch.randn(8, 3, 64, 64),), torch.randint(0, 1000, (8,)), adam
    )


TRAINING: dict[str, Callable[[], Training]] = {
    f.__name__: f
    for f in (train_mlp, train_gpt, train_conv_net, train_resnet, train_lstm, train_vit)
}
