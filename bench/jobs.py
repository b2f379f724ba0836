"""The models that the comparison runs: module, input tuples, keyword arguments of torch.compile."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Job = tuple[nn.Module, list[tuple[torch.Tensor, ...]], dict[str, Any]]


class Wrap(nn.Module):
    """A Hugging Face model as a function of plain tensors."""

    def __init__(self, model: nn.Module, call: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.model = model
        self.call = call

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.call(self.model, *args)


class Pointwise(nn.Module):
    def forward(
        self, x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        z = nn.functional.gelu(x * y + 1.0) * torch.sigmoid(y) - x
        variance = z.pow(2).mean(-1, keepdim=True)
        z = z * torch.rsqrt(variance + 1e-6) * w + b
        return torch.softmax(z, -1)


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))))


class Mmoe(nn.Module):
    """Many small operators: the host is the limit."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(1000, 8) for _ in range(8)])
        self.experts = nn.ModuleList([Expert() for _ in range(8)])
        self.gates = nn.ModuleList([nn.Linear(64, 8) for _ in range(3)])
        self.towers = nn.ModuleList(
            [nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(3)]
        )

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.cat([e(ids[:, i]) for i, e in enumerate(self.embeddings)], 1)
        experts = torch.stack([e(x) for e in self.experts], 1)
        return tuple(
            torch.sigmoid(tower((torch.softmax(gate(x), -1).unsqueeze(-1) * experts).sum(1)))
            for gate, tower in zip(self.gates, self.towers)
        )


class WideDeep(nn.Module):
    """Criteo's shape: 26 fields of ids, 13 numbers; a linear part beside three wide layers."""

    def __init__(self, rows: int = 10_000, width: int = 16) -> None:
        super().__init__()
        self.wide = nn.ModuleList([nn.Embedding(rows, 1) for _ in range(26)])
        self.deep = nn.ModuleList([nn.Embedding(rows, width) for _ in range(26)])
        sizes = [26 * width + 13, 1024, 512, 256]
        layers: list[nn.Module] = []
        for inner, outer in itertools.pairwise(sizes):
            layers += [nn.Linear(inner, outer), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))
        self.numbers = nn.Linear(13, 1)

    def forward(self, ids: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        wide = torch.cat([e(ids[:, k]) for k, e in enumerate(self.wide)], 1).sum(1, keepdim=True)
        deep = torch.cat([e(ids[:, k]) for k, e in enumerate(self.deep)] + [numbers], 1)
        return torch.sigmoid(wide + self.numbers(numbers) + self.layers(deep))


def wide_deep() -> Job:
    return WideDeep().eval(), [(torch.randint(0, 10_000, (512, 26)), torch.randn(512, 13))], {}


class Chain(nn.Module):
    """A hundred operators with almost no work."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(25):
            x = torch.tanh(x * 1.01 + 0.5) - x
        return x


class Block(nn.Module):
    """A small transformer block, written out."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def mlp() -> Job:
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)).eval()
    return model, [(torch.randn(32, 128),)], {}


def resnet50() -> Job:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig())
    wrapped = Wrap(model, lambda m, x: m(pixel_values=x).logits).eval()
    return wrapped, [(torch.randn(1, 3, 224, 224),)], {}


def bert() -> Job:
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=6, attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False)
    ids = torch.randint(0, 30000, (1, 128))
    wrapped = Wrap(model, lambda m, i, a: m(input_ids=i, attention_mask=a).last_hidden_state)
    return wrapped.eval(), [(ids, torch.ones_like(ids))], {}


def _qwen(small: bool) -> nn.Module:
    import qwen3
    from transformers import Qwen3ForCausalLM

    config = (qwen3.small if small else qwen3.full)(tie_word_embeddings=True)
    config._attn_implementation = "eager"
    model = Qwen3ForCausalLM(config)
    return model if small else model.to(torch.bfloat16)


def _wrap_qwen(small: bool) -> nn.Module:
    return Wrap(_qwen(small), lambda m, i: m(input_ids=i, use_cache=False).logits).eval()


def qwen_tiny() -> Job:
    return _wrap_qwen(True), [(torch.randint(0, 4096, (1, 64)),)], {}


def qwen_decode() -> Job:
    """One token through the whole model: reading the weights is the limit."""
    return _wrap_qwen(False), [(torch.randint(0, 4096, (1, 1)),)], {}


def qwen_prefill() -> Job:
    """32 tokens at once: bf16 matmuls are the limit."""
    return _wrap_qwen(False), [(torch.randint(0, 4096, (1, 32)),)], {}


def qwen_grow() -> Job:
    inputs = [(torch.randint(0, 4096, (1, n)),) for n in range(24, 56)]
    return _wrap_qwen(True), inputs, {"dynamic": True}


def pointwise() -> Job:
    square = (2048, 2048)
    inputs = (torch.randn(square), torch.randn(square), torch.randn(2048), torch.randn(2048))
    return Pointwise(), [inputs], {}


def mmoe() -> Job:
    return Mmoe().eval(), [(torch.randint(0, 1000, (16, 8)),)], {}


def chain() -> Job:
    return Chain(), [(torch.randn(16),)], {}


def block() -> Job:
    return Block().eval(), [(torch.randn(1, 16, 64),)], {}


_FUNCTIONS = (
    *(mlp, resnet50, bert, qwen_tiny, qwen_decode, qwen_prefill, qwen_grow, pointwise, mmoe),
    *(wide_deep, chain, block),
)
JOBS: dict[str, Callable[[], Job]] = {f.__name__: f for f in _FUNCTIONS}
