"""Training on the GPU: the losses of a small GPT are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from cuda_models import Gpt, compiled
from torch.nn import functional as F


def _losses(backend: str | None, steps: int) -> list[float]:
    torch.manual_seed(0)
    model = Gpt().cuda()
    run = model if backend is None else compiled(model, backend=backend)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    generator = torch.Generator("cuda").manual_seed(1)
    text = torch.randint(0, 100, (64,), device="cuda", generator=generator).repeat(8)
    losses = []
    for step in range(steps):
        starts = [(step * 37 + i * 61) % 300 for i in range(4)]
        batch = torch.stack([text[s : s + 33] for s in starts])
        logits = run(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex", "npugraphs"])
def test_losses_of_20_steps(backend: str, record_property: Callable[[str, object], None]) -> None:
    want = _losses(None, 20)
    got = _losses(backend, 20)
    record_property("losses", [round(loss, 4) for loss in got[::5]])
    record_property("largest difference", max(abs(a - b) for a, b in zip(got, want)))
    assert want[-1] < 0.8 * want[0], want
    torch.testing.assert_close(torch.tensor(got), torch.tensor(want), rtol=5e-3, atol=5e-3)


def test_saved_tensors_are_released() -> None:
    torch.manual_seed(0)
    model = Gpt(layers=4).cuda()
    run = compiled(model)
    ids = torch.randint(0, 100, (4, 128), device="cuda")

    def peak() -> int:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        run(ids).square().mean().backward()
        model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()

    for _ in range(3):
        peak()
    before = torch.cuda.memory_allocated()
    peaks = [peak() for _ in range(5)]
    assert torch.cuda.memory_allocated() <= before
    assert max(peaks) == min(peaks), peaks
