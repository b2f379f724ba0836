"""Jobs of the suite over sequences that are built of less usual parts: cross attention, scans,
masks, windows, experts, caches, samplers."""

from __future__ import annotations

import torch
from jobs import Block, Job
from suite_sequences import Encoder, Language, ids
from torch import nn
from torch.nn import functional


class Cross(nn.Module):
    """A decoder layer: causal attention, attention over an encoder's results, two products."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.back = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def heads_of(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.heads_of(p) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        q = self.heads_of(self.q(self.norms[1](x)))
        k, v = (self.heads_of(p) for p in self.kv(memory).chunk(2, -1))
        y = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.back(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norms[2](x))))


class Translate(nn.Module):
    def __init__(self, width: int = 256, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(8000, width)
        self.encoder = Encoder(width, heads, layers)
        self.decoder = nn.ModuleList(Cross(width, heads) for _ in range(layers))

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, x = self.encoder(self.words(source)), self.words(target)
        for layer in self.decoder:
            x = layer(x, memory)
        return x @ self.words.weight.T


def translate_b4() -> Job:
    return Translate().eval(), [(ids(4, 60), ids(4, 40))], {}


class SelectiveScan(nn.Module):
    """Mamba's layer: a short depthwise convolution, then a recurrence whose factors depend on the
    input, as products and sums along the length."""

    def __init__(self, width: int = 192, state: int = 8) -> None:
        super().__init__()
        inner = 2 * width
        self.norm = nn.RMSNorm(width)
        self.enter, self.leave = nn.Linear(width, 2 * inner), nn.Linear(inner, width)
        self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.parts, self.step = nn.Linear(inner, 16 + 2 * state), nn.Linear(16, inner)
        self.rates = nn.Parameter(torch.rand(inner, state))
        self.state = state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, gate = self.enter(self.norm(x)).chunk(2, -1)
        y = self.conv(y.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        y = functional.silu(y)
        low, write, read = self.parts(y).split([16, self.state, self.state], -1)
        step = functional.softplus(self.step(low))
        decay = (-step.unsqueeze(-1) * self.rates).cumsum(1)
        added = (step * y).unsqueeze(-1) * write.unsqueeze(2)
        states = (added * torch.exp(-decay.clamp_min(-30))).cumsum(1) * torch.exp(decay)
        y = (states * read.unsqueeze(2)).sum(-1) * functional.silu(gate)
        return x + self.leave(y)


def selective_scan() -> Job:
    model = nn.Sequential(SelectiveScan(), SelectiveScan())
    return model.eval(), [(torch.randn(1, 96, 192),)], {}


class LinearAttention(nn.Module):
    """Attention by kernels of queries and keys: products of d x d instead of n x n."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        total = q @ (k.transpose(-1, -2) @ v)
        y = total / (q * k.sum(2, keepdim=True)).sum(-1, keepdim=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def linear_attention() -> Job:
    model = nn.Sequential(*(LinearAttention() for _ in range(3)))
    return model.eval(), [(torch.randn(2, 512, 256),)], {}


class Window(nn.Module):
    """Causal attention of which each position sees the last 128."""

    def __init__(self, width: int = 256, heads: int = 4, window: int = 128) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.norm, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        at = torch.arange(x.shape[1], device=x.device)
        far = at[:, None] - at[None, :]
        seen = (far >= 0) & (far < self.window)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


def window_768() -> Job:
    return nn.Sequential(Window(), Window()).eval(), [(torch.randn(1, 768, 256),)], {}


class Padded(nn.Module):
    """An encoder whose rows have different lengths: a mask of keys."""

    def __init__(self, width: int = 256, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(8000, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        hidden = torch.arange(words.shape[1], device=words.device) >= lengths[:, None]
        x = self.body(self.words(words), src_key_padding_mask=hidden)
        kept = (~hidden).unsqueeze(-1).to(x.dtype)
        return (x * kept).sum(1) / kept.sum(1)


def padded_b8() -> Job:
    lengths = torch.tensor([96, 90, 71, 64, 50, 33, 20, 7])
    return Padded().eval(), [(ids(8, 96), lengths)], {}


class Grouped(nn.Module):
    """One token over a long cache; four query heads share a head of keys and values."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * width, width, bias=False) for _ in range(layers))

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        for i, (q, out, up, down) in enumerate(zip(self.q, self.out, self.up, self.down)):
            heads = q(functional.rms_norm(x, x.shape[-1:])).unflatten(-1, (self.heads, -1))
            y = functional.scaled_dot_product_attention(
                heads.transpose(1, 2), keys[i], values[i], enable_gqa=True
            )
            x = x + out(y.transpose(1, 2).flatten(2))
            x = x + down(functional.silu(up(functional.rms_norm(x, x.shape[-1:]))))
        return x


def long_cache() -> Job:
    cache = torch.randn(3, 1, 2, 4096, 64)
    return Grouped().eval(), [(torch.randn(1, 1, 512), cache, cache.clone())], {}


def long_cache_b8_bf16() -> Job:
    cache = torch.randn(3, 8, 2, 1024, 64, dtype=torch.bfloat16)
    inputs = (torch.randn(8, 1, 512, dtype=torch.bfloat16), cache, cache.clone())
    return Grouped().eval().to(torch.bfloat16), [inputs], {}


class Collaborative(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users = nn.ModuleList([nn.Embedding(20_000, 32), nn.Embedding(20_000, 32)])
        self.items = nn.ModuleList([nn.Embedding(20_000, 32), nn.Embedding(20_000, 32)])
        self.layers = nn.Sequential(
            *(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 32)),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        product = self.users[0](user) * self.items[0](item)
        deep = self.layers(torch.cat([self.users[1](user), self.items[1](item)], -1))
        return torch.sigmoid(self.head(torch.cat([product, deep], -1)))


def collaborative_b256() -> Job:
    inputs = (torch.randint(0, 20_000, (256,)), torch.randint(0, 20_000, (256,)))
    return Collaborative().eval(), [inputs], {}


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(10_000, 32, mode="mean") for _ in range(6))
        self.user = nn.Sequential(nn.Linear(96, 256), nn.ReLU(), nn.Linear(256, 64))
        self.item = nn.Sequential(nn.Linear(96, 256), nn.ReLU(), nn.Linear(256, 64))

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        a = torch.cat([bag(user[:, k]) for k, bag in enumerate(self.bags[:3])], -1)
        b = torch.cat([bag(item[:, k]) for k, bag in enumerate(self.bags[3:])], -1)
        a, b = functional.normalize(self.user(a), dim=-1), functional.normalize(self.item(b))
        return torch.softmax(a @ b.T / 0.07, -1)


def two_towers_b64() -> Job:
    inputs = (torch.randint(0, 10_000, (64, 3, 20)), torch.randint(0, 10_000, (64, 3, 20)))
    return TwoTowers().eval(), [inputs], {}


class Crosses(nn.Module):
    """DCN v2 with a factorisation machine beside it."""

    def __init__(self, fields: int = 20, width: int = 16) -> None:
        super().__init__()
        self.table = nn.Embedding(50_000, width)
        inner = fields * width
        self.crosses = nn.ModuleList(nn.Linear(inner, inner) for _ in range(3))
        self.deep = nn.Sequential(nn.Linear(inner, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
        self.head = nn.Linear(inner + 128, 1)

    def forward(self, fields: torch.Tensor) -> torch.Tensor:
        rows = self.table(fields)
        machine = 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(-1, keepdim=True)
        first = x = rows.flatten(1)
        for cross in self.crosses:
            x = first * cross(x) + x
        return torch.sigmoid(machine + self.head(torch.cat([x, self.deep(first)], -1)))


def crosses_b128() -> Job:
    return Crosses().eval(), [(torch.randint(0, 50_000, (128, 20)),)], {}


class Transducer(nn.Module):
    """RNN-T: an LSTM over frames, one over labels, and a joint network over all pairs."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.frames = nn.LSTM(80, width, 2, batch_first=True)
        self.words, self.labels = nn.Embedding(64, width), nn.LSTM(width, width, batch_first=True)
        self.joint, self.head = nn.Linear(width, width), nn.Linear(width, 64)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        a, b = self.frames(x)[0], self.labels(self.words(labels))[0]
        pairs = torch.tanh(self.joint(a).unsqueeze(2) + self.joint(b).unsqueeze(1))
        return torch.log_softmax(self.head(pairs), -1)


def transducer() -> Job:
    return Transducer().eval(), [(torch.randn(1, 50, 80), torch.randint(0, 64, (1, 12)))], {}


class ConformerBlock(nn.Module):
    def __init__(self, width: int = 144, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.last = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depth = nn.Conv1d(width, width, 31, padding=15, groups=width)
        self.batch = nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.down[0](functional.silu(self.up[0](self.norms[0](x))))
        parts = self.qkv(self.norms[1](x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = functional.glu(self.first(self.norms[2](x).transpose(1, 2)), 1)
        y = self.last(functional.silu(self.batch(self.depth(y)))).transpose(1, 2)
        x = x + y
        x = x + 0.5 * self.down[1](functional.silu(self.up[1](self.norms[3](x))))
        return self.norms[4](x)


def conformer() -> Job:
    model = nn.Sequential(*(ConformerBlock() for _ in range(3)))
    return model.eval(), [(torch.randn(1, 200, 144),)], {}


class Experts(nn.Module):
    """Two of eight experts for each row; all are computed and weighted, as exported models do."""

    def __init__(self, width: int = 256, count: int = 8) -> None:
        super().__init__()
        self.norm, self.gate = nn.RMSNorm(width), nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(count, 2 * width, width) / width**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.norm(x).flatten(0, -2)
        weights, chosen = torch.topk(torch.softmax(self.gate(rows), -1), 2)
        weights = weights / weights.sum(-1, keepdim=True)
        every = torch.zeros(rows.shape[0], 8, device=x.device).scatter(1, chosen, weights)
        y = functional.silu(torch.einsum("nd,edf->enf", rows, self.up))
        y = torch.einsum("enf,efd->end", y, self.down)
        return x + (y * every.T.unsqueeze(-1)).sum(0).view_as(x)


def experts_64() -> Job:
    model = nn.Sequential(Block(256, 4), Experts(), Block(256, 4), Experts())
    return model.eval(), [(torch.randn(1, 64, 256),)], {}


class Sampler(nn.Module):
    """Scores to probabilities of the few best: temperature, top-k, top-p."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        best, order = torch.topk(scores / 0.8, 50)
        weights = torch.softmax(best, -1)
        kept = weights.cumsum(-1) - weights < 0.9
        weights = torch.where(kept, weights, 0.0)
        full = torch.zeros_like(scores).scatter(-1, order, weights)
        return full / full.sum(-1, keepdim=True)


def sampler_b4() -> Job:
    return Sampler(), [(torch.randn(4, 32_000),)], {}


class NucleusSampler(nn.Module):
    """Top-p over the whole vocabulary, sorted."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        ordered, order = torch.sort(scores, descending=True)
        sums = torch.softmax(ordered, -1).cumsum(-1)
        drop = sums > 0.95
        drop = torch.cat([torch.zeros_like(drop[:, :1]), drop[:, :-1]], -1)
        drop = torch.zeros_like(drop).scatter(1, order, drop)
        return torch.log_softmax(scores.masked_fill(drop, -1e4), -1)


def nucleus_b4() -> Job:
    return NucleusSampler(), [(torch.randn(4, 32_000),)], {}


class BeamStep(nn.Module):
    def forward(
        self, scores: torch.Tensor, sums: torch.Tensor, past: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        total = torch.log_softmax(scores, -1) + sums.unsqueeze(-1)
        best, place = torch.topk(total.flatten(1), 4)
        beam, word = place // scores.shape[-1], place % scores.shape[-1]
        rows = torch.gather(past, 1, beam.unsqueeze(-1).expand(-1, -1, past.shape[-1]))
        return best, torch.cat([rows, word.unsqueeze(-1)], -1), beam


def beam_step() -> Job:
    inputs = (torch.randn(2, 4, 8000), torch.randn(2, 4), torch.randint(0, 8000, (2, 4, 20)))
    return BeamStep(), [inputs], {}


def encoder_grow() -> Job:
    """A bidirectional encoder over changing lengths."""
    inputs = [(ids(2, n),) for n in range(20, 60, 4)]
    return Language(8000, 256, 4, 3, False).eval(), inputs, {"dynamic": True}


def encoder_bf16_b4() -> Job:
    model = Language(2000, 512, 8, 3, False).eval().to(torch.bfloat16)
    return model, [(ids(4, 128, words=2000),)], {}


def lstm_b1() -> Job:
    cells = nn.LSTM(64, 128, 1, batch_first=True, bidirectional=True)

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = cells, nn.Linear(256, 20)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(x)[0])

    return Tagger().eval(), [(torch.randn(1, 40, 64),)], {}


MODELS = (
    *(translate_b4, selective_scan, linear_attention, window_768, padded_b8, long_cache),
    *(long_cache_b8_bf16, collaborative_b256, two_towers_b64, crosses_b128, transducer, conformer),
    *(experts_64, sampler_b4, nucleus_b4, beam_step, encoder_grow, encoder_bf16_b4, lstm_b1),
)
