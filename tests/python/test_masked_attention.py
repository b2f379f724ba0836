"""Gradients of attention where the mask hides every key from a query, as left padding does."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import gex

BATCH, HEADS, LENGTH, HEAD = 2, 3, 7, 8
# The padded places of each sequence: queries there see no key under a causal mask.
PADDING = (0, 4)
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def visible(length: int, form: str) -> torch.Tensor:
    """True where a query sees a key."""
    padded = torch.arange(length)[None, :] >= torch.tensor(PADDING)[:, None]
    seen = padded[:, None, None, :]
    if form == "keys":  # the whole of the last sequence is hidden
        seen = (seen & torch.tensor([True, False]).view(2, 1, 1, 1)).expand(-1, 1, length, -1)
    else:
        seen = seen & torch.ones(length, length, dtype=torch.bool).tril()
    assert (~seen).all(-1).any(), "some query sees nothing"
    return seen


def mask_of(kind: str, dtype: torch.dtype, length: int, form: str) -> torch.Tensor:
    seen = visible(length, form)
    if kind == "bool":
        return seen
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, float("-inf"))


def operands(dtype: torch.dtype, length: int, group: int = 1) -> list[torch.Tensor]:
    """Queries, keys, values; each key-value head serves `group` query heads."""
    generator = torch.Generator().manual_seed(length)
    return [
        torch.randn(BATCH, heads, length, HEAD, generator=generator).to(dtype).requires_grad_()
        for heads in (HEADS * group, HEADS, HEADS)
    ]


def gradients(fn, dtype: torch.dtype, length: int, mask: torch.Tensor, group: int = 1) -> list:
    q, k, v = operands(dtype, length, group)
    result = fn(q, k, v, mask)
    weights = torch.linspace(0.5, 1.5, result.numel()).view(result.shape).to(dtype)
    return [result.detach(), *torch.autograd.grad((result * weights).sum(), (q, k, v))]


def compare(actual: list, expected: list, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    for a, e in zip(actual, expected, strict=True):
        assert e.isfinite().all()
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("form", ["causal", "keys"])
@pytest.mark.parametrize("kind", ["bool", "additive"])
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_a_query_without_keys_has_zero_gradients(
    dtype: torch.dtype, kind: str, form: str, dynamic: bool
) -> None:
    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    compiled = torch.compile(attend, backend="gex", dynamic=dynamic)
    for length in (LENGTH, 19) if dynamic else (LENGTH,):
        mask = mask_of(kind, dtype, length, form)
        expected = gradients(attend, dtype, length, mask)
        actual = gradients(compiled, dtype, length, mask)
        compare(actual, expected, dtype)
        hidden = (~visible(length, form)).all(-1).expand(BATCH, HEADS, length)
        assert not actual[1][hidden].any()


@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_grouped_heads(kind: str) -> None:
    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    mask = mask_of(kind, torch.float32, LENGTH, "causal")
    expected = gradients(attend, torch.float32, LENGTH, mask, 2)
    actual = gradients(torch.compile(attend, backend="gex"), torch.float32, LENGTH, mask, 2)
    compare(actual, expected, torch.float32)


@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_a_mask_of_less_than_full_rank(kind: str) -> None:
    """The second query of every sequence and head sees nothing."""

    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    seen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    seen[1] = False
    mask = seen if kind == "bool" else torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))
    expected = gradients(attend, torch.float32, LENGTH, mask)
    actual = gradients(torch.compile(attend, backend="gex"), torch.float32, LENGTH, mask)
    compare(actual, expected, torch.float32)


@pytest.mark.parametrize("masked", [False, True])
def test_heads_whose_elements_are_apart_are_attention(masked: bool) -> None:
    """PyTorch composes this attention of operations, as images of [channel, pixel] need it."""

    def attend(x, mask):
        q, k, v = x.unflatten(1, (3, HEADS, HEAD)).transpose(-1, -2).unbind(1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(-1, -2)

    x = torch.randn(BATCH, 3 * HEADS * HEAD, LENGTH)
    seen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    seen[1] = False
    mask = torch.zeros(seen.shape).masked_fill(~seen, float("-inf")) if masked else None
    with torch.no_grad(), gex.collect() as graphs:
        actual = torch.compile(attend, backend="gex", fullgraph=True)(x, mask)
        torch.testing.assert_close(actual, attend(x, mask), rtol=1e-5, atol=1e-5)
    names = [step["name"] for steps in graphs[0].runner.steps for step in steps]
    assert "attention" in names and not any("matmul" in name for name in names), names


def test_a_mask_that_is_trained() -> None:
    """PyTorch composes this attention of a product, a softmax and a product."""

    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    compiled = torch.compile(attend, backend="gex")
    found = []
    for fn in (attend, compiled):
        mask = mask_of("additive", torch.float32, LENGTH, "causal").requires_grad_()
        q, k, v = operands(torch.float32, LENGTH)
        found.append(torch.autograd.grad(fn(q, k, v, mask).sum(), (q, k, v, mask)))
    compare(found[1], found[0], torch.float32)


def llama_losses(backend: str | None, kind: str, steps: int = 3) -> list[float]:
    transformers = pytest.importorskip("transformers")
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaForCausalLM(config)
    ids = torch.randint(0, 97, (2, 12))
    padding = torch.arange(12)[None, :] >= torch.tensor([[0], [5]])
    labels = ids.masked_fill(~padding, -100)
    seen = padding[:, None, None, :] & torch.ones(12, 12, dtype=torch.bool).tril()
    mask = {
        "padding": padding.long(),
        "bool": seen,
        "additive": torch.zeros(seen.shape).masked_fill(~seen, float("-inf")),
    }[kind]
    run = model if backend is None else torch.compile(model, backend=backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = run(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kind", ["padding", "bool", "additive"])
def test_left_padded_llama_learns_as_in_eager(kind: str) -> None:
    expected = llama_losses(None, kind)
    assert expected[-1] < expected[0]
    assert llama_losses("gex", kind) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
def test_a_mask_of_another_float_type(backend: str) -> None:
    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    q, k, v = (torch.randn(2, 3, 5, 8, dtype=torch.float64) for _ in range(3))
    mask = torch.randn(5, 5)
    torch.testing.assert_close(
        torch.compile(fn, backend=backend)(q, k, v, mask), fn(q, k, v, mask), rtol=1e-6, atol=1e-6
    )
