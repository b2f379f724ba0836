"""Training whole models: eager's loss curve, batch statistics, checkpointed regions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import gex

WIDTH, HEADS, VOCABULARY, LENGTH = 32, 4, 61, 24
# Relative difference of losses from eager's: sums are taken in another order, and each step
# carries the difference of those before it on.
TOLERANCE = 1e-3


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(dropout)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads.unbind(0), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, dropout: float = 0.0, checkpointed: bool = False) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.checkpointed = checkpointed

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x))


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.body = nn.Sequential(
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
        )
        self.short = nn.Conv2d(8, 16, 1, stride=2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        x = F.relu(self.body(x) + self.short(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def losses_of(
    make: Callable[[], nn.Module], x: torch.Tensor, y: torch.Tensor, steps: int, backend: str | None
) -> tuple[torch.Tensor, nn.Module]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = make()
    run = model if backend is None else torch.compile(model, backend=backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(run(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), model


def check_curve(
    make: Callable[[], nn.Module], x: torch.Tensor, y: torch.Tensor, steps: int
) -> tuple[nn.Module, nn.Module]:
    expected, eager = losses_of(make, x, y, steps, None)
    got, compiled = losses_of(make, x, y, steps, "gex")
    torch.testing.assert_close(got, expected, rtol=TOLERANCE, atol=0)
    assert expected[-1] < 0.8 * expected[0], "nothing was learnt: the curve says nothing"
    return eager, compiled


def text() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(0, VOCABULARY, (4, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    return ids[:, :-1], ids[:, 1:]


def test_gpt_has_eagers_loss_curve() -> None:
    with gex.report.collect() as graphs:
        check_curve(Gpt, *text(), steps=60)
    assert len(graphs) == 2, "one graph forward, one backward"
    assert not any(g.calls for g in graphs)


def test_residual_net_has_eagers_loss_curve_and_batch_statistics() -> None:
    x = torch.randn(8, 3, 24, 24, generator=torch.Generator().manual_seed(2))
    eager, compiled = check_curve(ResidualNet, x, torch.arange(8) % 5, steps=30)
    for (name, expected), got in zip(eager.named_buffers(), compiled.buffers(), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-3, msg=lambda m, n=name: n + m)


def test_checkpointed_regions_draw_the_same_mask_again() -> None:
    check_curve(lambda: Gpt(dropout=0.3, checkpointed=True), *text(), steps=20)


def test_checkpointing_saves_less_for_the_backward() -> None:
    def saved_bytes(checkpointed: bool) -> int:
        torch._dynamo.reset()
        model = torch.compile(Gpt(checkpointed=checkpointed), backend="gex")
        sizes: dict[int, int] = {}

        def pack(t: torch.Tensor) -> torch.Tensor:
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            model(text()[0])
        return sum(sizes.values())

    assert saved_bytes(True) < 0.7 * saved_bytes(False)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(6, 6, 3, padding=1, groups=6),
        nn.Conv2d(6, 12, 7, padding=3, groups=6),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2),
        nn.Conv2d(6, 6, 5, stride=2, padding=2, groups=6),
        nn.Conv1d(6, 6, 4, padding=3, groups=6),
        nn.Conv1d(32, 32, 16, padding=8, groups=4),
    ],
    ids=["depthwise", "7x7", "dilated", "stepping", "mamba", "many taps"],
)
def test_gradients_of_thin_groups_are_native(conv: nn.Module) -> None:
    axes = len(conv.kernel_size)  # type: ignore[arg-type]
    results = []
    for fn in (conv, torch.compile(conv, backend="gex", fullgraph=True, options={"strict": True})):
        torch.manual_seed(0)
        x = torch.randn(2, conv.in_channels, *[19, 17][:axes], requires_grad=True)
        conv.zero_grad()
        fn(x).square().sum().backward()
        results.append([x.grad, *(p.grad.clone() for p in conv.parameters())])
    for want, got in zip(*results):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4 * float(want.abs().max()))
