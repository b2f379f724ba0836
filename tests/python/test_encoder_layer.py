"""nn.TransformerEncoder in inference, which calls one fused operator for each layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from conftest import Compile, assert_same, last_report

MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"mask": torch.ones(7, 7).triu(1).bool()},
    "causal_floats": {"mask": nn.Transformer.generate_square_subsequent_mask(7)},
    "padding": {"src_key_padding_mask": torch.arange(7) >= torch.tensor([[7], [4], [6]])},
    "both": {
        "mask": torch.ones(7, 7).triu(1).bool(),
        "src_key_padding_mask": torch.arange(7) >= torch.tensor([[7], [4], [6]]),
    },
    "hidden_row": {"mask": torch.arange(7)[:, None].expand(7, 7) == 2},
}


def encoder(norm_first: bool, activation: str) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        32, 4, 64, batch_first=True, norm_first=norm_first, activation=activation
    )
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


def check(compiling: Compile, model: nn.Module, x: torch.Tensor, **masks: Any) -> None:
    tolerance = 1e-5 if x.dtype == torch.float32 else 5e-2
    with torch.no_grad():
        compiled = compiling(model)
        for scale in (1, 2):
            want = model(x * scale, **masks)
            torch.testing.assert_close(
                compiled(x * scale, **masks), want, rtol=tolerance, atol=tolerance, equal_nan=True
            )
    assert last_report().eager_reason is None
    assert last_report().calls == []


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masks", MASKS)
def test_encoder(compiling: Compile, norm_first: bool, activation: str, masks: str) -> None:
    check(compiling, encoder(norm_first, activation), torch.randn(3, 7, 32), **MASKS[masks])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_encoder_of_other_floats(compiling: Compile, dtype: torch.dtype) -> None:
    x = torch.randn(3, 7, 32, dtype=dtype)
    check(compiling, encoder(False, "relu").to(dtype), x, **MASKS["padding"])


def test_lengths_are_open() -> None:
    model = encoder(True, "gelu")
    compiled = torch.compile(model, backend="gex", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 9), (1, 4)):
            x = torch.randn(batch, length, 32)
            assert_same(compiled(x), model(x))
