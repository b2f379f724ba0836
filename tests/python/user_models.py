"""Models as users write them, of kinds that are neither in zoo/ nor in odd_programs.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Model:
    build: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]  # of a size
    trains: bool = True


MODELS: dict[str, Model] = {}


def model(inputs: Callable[[int], tuple[Any, ...]], **more: bool) -> Callable[[Any], Any]:
    def add(build: Any) -> Any:
        MODELS[build.__name__] = Model(build, inputs, **more)
        return build

    return add


def sequence(n: int) -> tuple[Tensor]:
    return (torch.randn(2, n, 16),)


class Coupling(nn.Module):
    """A step of an invertible flow."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.linalg.qr(torch.randn(8, 8))[0])
        self.net = nn.Conv1d(4, 8, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = F.conv1d(x, self.mix[:, :, None]).chunk(2, 1)
        log_scale, shift = self.net(a).chunk(2, 1)
        log_scale = log_scale.tanh()
        change = log_scale.sum((1, 2)) + x.shape[-1] * torch.linalg.slogdet(self.mix)[1]
        return torch.cat([a, b * log_scale.exp() + shift], 1), change

    def inverse(self, y: Tensor) -> Tensor:
        a, b = y.chunk(2, 1)
        log_scale, shift = self.net(a).chunk(2, 1)
        x = torch.cat([a, (b - shift) * (-log_scale.tanh()).exp()], 1)
        return F.conv1d(x, torch.inverse(self.mix)[:, :, None])


@model(lambda n: (torch.randn(2, 8 * n),))
class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = Coupling()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, change = self.step(x.unfold(1, 8, 8).permute(0, 2, 1))
        back = self.step.inverse(y).permute(0, 2, 1).reshape(x.shape[0], -1)
        return y, change, back


@model(sequence)
class Experts(nn.Module):
    """Each expert computes the rows that chose it: sizes depend on data."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 3)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        weight, choice = self.gate(rows).softmax(-1).topk(2, -1)
        out = torch.zeros_like(rows)
        for k, expert in enumerate(self.experts):
            row, nth = torch.where(choice == k)
            out.index_add_(0, row, F.gelu(expert(rows[row])) * weight[row, nth, None])
        return out.view_as(x)


def bags(n: int) -> tuple[Tensor, ...]:
    lengths = torch.randint(1, 4, (n,))
    total = int(lengths.sum())
    users, items = torch.randint(0, 40, (n,)), torch.randint(0, 50, (n,))
    return users, torch.randint(0, 50, (total,)), lengths.cumsum(0) - lengths, items


@model(bags)
class Recommender(nn.Module):
    """Pairwise ranking against drawn negatives."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(40, 8), nn.Embedding(50, 8, padding_idx=0)
        self.history = nn.EmbeddingBag(50, 8, mode="mean")

    def forward(self, users: Tensor, history: Tensor, offsets: Tensor, items: Tensor) -> Any:
        others = (items + torch.randint(1, 50, items.shape)) % 50
        user = self.user(users) + self.history(history, offsets)
        margin = (user * (self.item(items) - self.item(others))).sum(-1)
        return -F.logsigmoid(margin).mean() + 1e-3 * self.user.weight.norm() ** 2, margin


class LearnedStep(torch.autograd.Function):
    """Rounds to multiples of a scale that is trained."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(x, scale)
        return (x / scale).round().clamp(0, 15) * scale

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, scale = ctx.saved_tensors
        q = (x / scale).round()
        inside = (q >= 0) & (q <= 15)
        slope = torch.where(inside, q - x / scale, q.clamp(0, 15))
        return gradients[0] * inside, (gradients[0] * slope).sum()


@model(sequence)
class QuantisedTraining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 24), nn.Linear(24, 16)
        self.step = nn.Parameter(torch.tensor(0.05))
        self.register_buffer("largest", torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.largest.copy_(torch.maximum(self.largest * 0.9, x.abs().amax()))
        zero = torch.tensor(0, dtype=torch.int32)
        x = torch.fake_quantize_per_tensor_affine(x, self.largest / 127, zero, -128, 127)
        w = self.first.weight
        scales = w.detach().abs().amax(1) / 127
        zeros = torch.zeros(24, dtype=torch.int32)
        w = torch.fake_quantize_per_channel_affine(w, scales, zeros, 0, -128, 127)
        return self.second(LearnedStep.apply(F.relu6(F.linear(x, w, self.first.bias)), self.step))


@model(lambda n: (torch.randn(2, 4, n, 8),))
class TurnedPatches(nn.Module):
    """Rotary embedding of rows and columns, as complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Parameter(torch.randn(8, 8) * 0.4)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = torch.meshgrid(
            torch.arange(x.shape[1]).float(), torch.arange(x.shape[2]).float(), indexing="ij"
        )
        angles = torch.stack([rows, columns], -1)[..., None] * torch.tensor([1.0, 0.1])
        turn = torch.polar(torch.ones(()), angles).flatten(-2)
        q = torch.view_as_complex((x @ self.project).unflatten(-1, (-1, 2)).contiguous())
        turned = torch.view_as_real(q * turn).flatten(3).flatten(1, 2)
        return (turned @ turned.mT * 8**-0.5).softmax(-1) @ x.flatten(1, 2)


@model(lambda n: (torch.randint(0, 60, (n, 4)),))
class SparseGradients(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(60, 8, sparse=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.table(x).mean(1))


class Recurrent(nn.Module):
    """A language model whose embedding is also its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 16)
        self.cell = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.table.weight
        self.bias = nn.Parameter(torch.randn(30))

    def logits(self, ids: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y, state = self.cell(self.table(ids), state)
        return self.head(y) * 3 + self.bias, state


@model(lambda n: (torch.randint(0, 30, (n, 3)),), trains=False)
class BeamSearch(Recurrent):
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        batch, beams = ids.shape[0], 3
        logits, state = self.logits(ids)
        score, token = logits[:, -1].log_softmax(-1).topk(beams)
        state, found = state.repeat_interleave(beams, 1), token[..., None]
        for _ in range(2):
            logits, state = self.logits(token.reshape(-1, 1), state)
            step = logits[:, -1].log_softmax(-1).view(batch, beams, -1)
            score, flat = (score[..., None] + step).view(batch, -1).topk(beams)
            parent, token = flat // 30, flat % 30
            kept = found.gather(1, parent[..., None].expand_as(found))
            found = torch.cat([kept, token[..., None]], -1)
            state = state[:, (torch.arange(batch)[:, None] * beams + parent).view(-1)]
        return found, score


@model(lambda n: (torch.randint(0, 30, (1, n)), torch.randint(0, 30, (1, 4))), trains=False)
class Speculation(Recurrent):
    """Accepts a prefix of drafted tokens."""

    def forward(self, ids: Tensor, draft: Tensor) -> tuple[Tensor, ...]:
        everything = torch.cat([ids, draft], 1)
        p = self.logits(everything)[0][:, ids.shape[1] - 1 :].softmax(-1)
        share = p[:, :-1].gather(2, draft[..., None])[..., 0] * 30
        accepted = (torch.rand_like(share) < share).int().cumprod(1).sum(1)
        next_token = torch.multinomial(p[0, accepted], 1)
        tokens = torch.where(torch.arange(4)[None] < accepted[:, None], draft, next_token)
        return tokens, everything[:, : ids.shape[1] + accepted.item()]


@model(lambda n: (torch.randn(1, n, 16),), trains=False)
class SlidingCache(nn.Module):
    """Attention to the last 6 tokens, with a ring buffer and slopes by distance."""

    keys: Tensor
    values: Tensor
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)
        self.register_buffer("keys", torch.zeros(1, 2, 6, 8))
        self.register_buffer("values", torch.zeros(1, 2, 6, 8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        results = []
        slopes = torch.tensor([0.25, 0.0625])[:, None, None]
        for t in range(x.shape[1]):
            q, k, v = self.project(x[:, t]).view(1, 3, 2, 1, 8).unbind(1)
            at = self.seen % 6
            self.keys.index_copy_(2, at[None], k)
            self.values.index_copy_(2, at[None], v)
            self.seen += 1
            age = (at - torch.arange(6)) % 6
            bias = torch.where(age < self.seen.clamp(max=6), -slopes * age, -torch.inf)
            mask = bias[None]
            results.append(F.scaled_dot_product_attention(q, self.keys, self.values, mask))
        return torch.cat(results, 2)
