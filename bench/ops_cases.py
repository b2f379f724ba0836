"""The operations that ops.py measures: elementwise functions and reductions.

Each at two sizes: small ones take some 10 to 50 us in eager mode, large ones 1 to 5 ms. Inputs are
written as words: `16x8` normal numbers, `16x8<100` integers below 100, and after a colon a dtype, a
layout (`last`: channels last) or a kind of values (the table KINDS)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "u8": torch.uint8}
KINDS: dict[str, Callable[[list[int]], torch.Tensor]] = {
    "mask": lambda shape: torch.rand(shape) < 0.5,
    "positive": lambda shape: torch.rand(shape) + 0.1,
    "permuted": lambda shape: torch.randperm(2 * math.prod(shape))[: math.prod(shape)],
    "sorted": lambda shape: torch.linspace(-3, 3, math.prod(shape)),
    "tens": lambda shape: torch.arange(0, 10 * math.prod(shape), 10),
    "definite": lambda shape: torch.eye(shape[-1]) * shape[-1] + torch.rand(shape) * 0.1,
}


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], Callable[..., Any]]  # a function or a module
    small: str
    large: str
    train: bool = False  # gradients of the floating-point inputs and of parameters, too


def tensor(word: str) -> torch.Tensor:
    body, *marks = word.split(":")
    sizes, _, high = body.partition("<")
    shape = [int(n) for n in sizes.split("x")]
    x = torch.randint(0, int(high), shape) if high else torch.randn(shape)
    for mark in marks:
        if mark == "last":
            layout = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
            x = x.contiguous(memory_format=layout)
        elif mark in DTYPES:
            x = x.to(DTYPES[mark])
        else:
            x = KINDS[mark](shape)
    return x


def tensors(words: str) -> tuple[torch.Tensor, ...]:
    return tuple(tensor(word) for word in words.split())


def function(
    name: str, fn: Callable[..., Any], small: str, large: str, train: bool = False
) -> Case:
    return Case(name, lambda: fn, small, large, train)


def module(
    name: str, make: Callable[[], nn.Module], small: str, large: str, train: bool = False
) -> Case:
    return Case(name, lambda: make().train(train), small, large, train)


# --- elementwise --------------------------------------------------------------------------------

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu by erf": lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865476)),
    "gelu by sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "gelu by tanh": lambda x: (
        0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    ),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "elu": F.elu,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "exp": torch.exp,
    "relu": torch.relu,
}
F32_FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "erf": torch.erf,
    "sin+cos": lambda x: torch.sin(x) + torch.cos(x),
    "selu": F.selu,
    "logsigmoid": F.logsigmoid,
    "expm1": torch.expm1,
    "atan": torch.atan,
    "round": lambda x: torch.round(x * 8),
    "clamp": lambda x: x.clamp(-1, 1),
    "add scalar": lambda x: x + 1.0,
    "pow 3": lambda x: x**3,
    "abs+sign": lambda x: x.abs() * x.sign(),
    "remainder": lambda x: torch.remainder(x, 0.7),
    "isnan any": lambda x: torch.isnan(x).any(),
    "nan_to_num": torch.nan_to_num,
}
POSITIVE: dict[str, Callable[..., torch.Tensor]] = {
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "pow 0.3": lambda x: x**0.3,
    "reciprocal": torch.reciprocal,
    "lgamma": torch.lgamma,
}


def elementwise() -> list[Case]:
    cases = []
    for mark in ("", ":bf16"):
        for name, fn in FUNCTIONS.items():
            cases.append(function(name + mark, fn, f"16x1024{mark}", f"1000x1024{mark}"))
    for name, fn in F32_FUNCTIONS.items():
        cases.append(function(name, fn, "16x1024", "1000x1024"))
    for name, fn in POSITIVE.items():
        cases.append(function(name, fn, "16x1024:positive", "1000x1024:positive"))
    for name in ("gelu", "sigmoid", "silu"):
        cases.append(function(f"{name}:f16", FUNCTIONS[name], "16x1024:f16", "1000x1024:f16"))
    two: dict[str, Callable[..., Any]] = {
        "add": torch.add,
        "mul+add": lambda x, y: x * y + y,
        "div": torch.div,
        "maximum": torch.maximum,
        "atan2": torch.atan2,
        "lt": torch.lt,
    }
    for name, fn in two.items():
        cases.append(function(name, fn, "16x1024 16x1024", "1000x1024 1000x1024"))
    for mark in (":bf16", ":f16"):
        small, large = f"16x1024{mark} 16x1024{mark}", f"2000x1024{mark} 2000x1024{mark}"
        cases.append(function(f"add{mark}", torch.add, small, large))
    integers: dict[str, Callable[..., Any]] = {
        "i64 mul+add": lambda x: x * 3 + 1,
        "i64 floordiv": lambda x: x // 7,
        "i64 mod": lambda x: x % 7,
        "i64 compare": lambda x: (x > 10) & (x < 50),
        "i64 to f32": lambda x: x.float() * 0.5,
    }
    for name, fn in integers.items():
        cases.append(function(name, fn, "16x1024<100", "1000x1024<100"))
    cases += [
        function("to bf16", lambda x: x.to(torch.bfloat16), "16x1024", "2000x1024"),
        function("from bf16", lambda x: x.float(), "16x1024:bf16", "2000x1024:bf16"),
        function(
            "u8 to f32 scaled",
            lambda x: x.float() / 255 - 0.5,
            "16x1024<255:u8",
            "1000x1024<255:u8",
        ),
        function(
            "where",
            torch.where,
            "16x1024:mask 16x1024 16x1024",
            "1000x1024:mask 1000x1024 1000x1024",
        ),
        function(
            "masked_fill",
            lambda x, m: x.masked_fill(m, -1e9),
            "16x1024 16x1024:mask",
            "1000x1024 1000x1024:mask",
        ),
        function("tril", torch.tril, "128x128", "16x256x256"),
        function("triu 1", lambda x: torch.triu(x, 1), "128x128", "16x256x256"),
        function("add column", lambda x, y: x + y, "64x256 64x1", "1000x1024 1000x1"),
        function("add channel", lambda x, y: x + y, "4x32x14x14 1x32x1x1", "8x64x56x56 1x64x1x1"),
        function("outer sum", lambda x, y: x[:, None] + y[None], "128 128", "1000 1000"),
        function(
            "add transposed", lambda x, y: x + y.t(), "128x128 128x128", "1000x1000 1000x1000"
        ),
        function("swiglu", lambda x: F.silu(x[..., :512]) * x[..., 512:], "16x1024", "1000x1024"),
        function("glu", lambda x: F.glu(x, 1), "16x64x16", "8x256x512"),
        function("prelu", F.prelu, "2x16x32x32 16", "8x64x56x56 64"),
    ]
    return cases


# --- reductions ---------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, d: x.sum(d),
    "mean": lambda x, d: x.mean(d),
    "amax": lambda x, d: x.amax(d),
    "max": lambda x, d: x.max(d),
    "argmax": lambda x, d: x.argmax(d),
    "var": lambda x, d: x.var(d),
    "norm": lambda x, d: torch.linalg.vector_norm(x, dim=d),
    "logsumexp": lambda x, d: x.logsumexp(d),
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "cumsum": lambda x, d: x.cumsum(d),
    "prod": lambda x, d: x.prod(d),
    "any": lambda x, d: (x > 2).any(d),
}
WITHOUT_AXIS: dict[str, Callable[..., Any]] = {
    "sum all": torch.sum,
    "norm all": torch.linalg.vector_norm,
    "max all": torch.max,
    "std_mean": lambda x: torch.std_mean(x, -1),
    "cumprod": lambda x: (1 + x * 0.01).cumprod(-1),
    "cummax": lambda x: x.cummax(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "norm 1": lambda x: torch.linalg.vector_norm(x, 1, dim=-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "sort": lambda x: x.sort(dim=-1, stable=True),
    "argsort": lambda x: x.argsort(dim=-1, stable=True),
    "topk 8": lambda x: x.topk(8, -1),
    "kthvalue": lambda x: x.kthvalue(9, -1),
    "median": lambda x: x.median(-1),
    "count_nonzero": lambda x: (x > 0).sum(-1),
    "diff": lambda x: torch.diff(x, dim=-1),
}


def reductions() -> list[Case]:
    cases = []
    for name, fn in REDUCTIONS.items():
        for axis, where in ((0, "first"), (1, "middle"), (-1, "last")):

            def reduce(x: torch.Tensor, f: Any = fn, d: int = axis) -> Any:
                return f(x, d)

            cases.append(function(f"{name} {where}", reduce, "16x24x40", "64x128x120"))
    for name, fn in WITHOUT_AXIS.items():
        cases.append(function(name, fn, "16x500", "500x1000"))
    for name in ("sum", "softmax"):
        last = REDUCTIONS[name]
        cases.append(
            function(f"{name}:bf16", lambda x, f=last: f(x, -1), "64x256:bf16", "1000x1024:bf16")
        )
    cases += [
        function("mean of planes", lambda x: x.mean((2, 3)), "2x32x14x14", "8x256x28x28"),
        function(
            "mean of planes, channels_last",
            lambda x: x.mean((2, 3)),
            "2x32x14x14:last",
            "8x256x28x28:last",
        ),
        function("sum of i64", lambda x: x.sum(-1), "16x1000<9", "1000x1000<9"),
        function("argmax of 50000", lambda x: x.argmax(-1), "1x50000", "20x50000"),
        function("topk of 50000", lambda x: x.topk(50, -1), "1x50000", "8x50000"),
        function("softmax of 50000", lambda x: x.softmax(-1), "1x50000", "20x50000"),
        function("unique", torch.unique, "1000<50", "20000<500"),
    ]
    return cases
