"""The operations that ops.py measures: pools, convolutions, attention, recurrence, products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from ops_cases import DTYPES, Case, function, module
from torch import nn

# --- pools and resampling -----------------------------------------------------------------------

POOLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "max_pool2d k2": lambda x: F.max_pool2d(x, 2),
    "max_pool2d k3 s2 p1": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d k5 s1 p2": lambda x: F.max_pool2d(x, 5, 1, 2),
    "max_pool2d with indices": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "avg_pool2d k3 s2 p1": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "adaptive_avg_pool2d 7": lambda x: F.adaptive_avg_pool2d(x, 7),
    "adaptive_max_pool2d 5": lambda x: F.adaptive_max_pool2d(x, 5),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2, 2),
    "interpolate nearest": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "interpolate bilinear corners": lambda x: F.interpolate(
        x, scale_factor=1.5, mode="bilinear", align_corners=True
    ),
}


def pools() -> list[Case]:
    cases = []
    for name, fn in POOLS.items():
        small, large = "2x16x16x16", "4x64x48x48"
        cases.append(function(name, fn, small, large))
        cases.append(function(f"{name}, channels_last", fn, f"{small}:last", f"{large}:last"))
    line = "4x16x128", "16x64x1000"
    solid = "1x8x8x12x12", "2x32x16x28x28"
    image = "2x16x16x16", "4x64x48x48"
    cases += [
        function("max_pool1d k2", lambda x: F.max_pool1d(x, 2), *line),
        function("max_pool1d k4 s4", lambda x: F.max_pool1d(x, 4, 4), *line),
        function("max_pool1d k3 s1", lambda x: F.max_pool1d(x, 3, 1, 1), *line),
        function("avg_pool1d k4", lambda x: F.avg_pool1d(x, 4), *line),
        function("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 10), *line),
        function("max_pool3d", lambda x: F.max_pool3d(x, 2), *solid),
        function("max_pool3d k3 s2", lambda x: F.max_pool3d(x, 3, 2, 1), *solid),
        function("avg_pool3d", lambda x: F.avg_pool3d(x, 2), *solid),
        function("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, 4), *solid),
        function(
            "max_pool2d bf16", lambda x: F.max_pool2d(x, 2), "2x16x16x16:bf16", "4x64x48x48:bf16"
        ),
        function(
            "interpolate linear", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), *line
        ),
        function(
            "interpolate bicubic",
            lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
            *image,
        ),
        function(
            "interpolate trilinear",
            lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
            *solid,
        ),
        function(
            "interpolate area", lambda x: F.interpolate(x, scale_factor=0.5, mode="area"), *image
        ),
        function(
            "interpolate antialias",
            lambda x: F.interpolate(x, size=(12, 12), mode="bilinear", antialias=True),
            *image,
        ),
        function(
            "interpolate nearest-exact",
            lambda x: F.interpolate(x, size=(31, 31), mode="nearest-exact"),
            *image,
        ),
        function(
            "grid_sample",
            lambda x, g: F.grid_sample(x, g.clamp(-1, 1), align_corners=False),
            "1x8x16x16 1x16x16x2",
            "2x32x48x48 2x64x64x2",
        ),
        function(
            "grid_sample nearest",
            lambda x, g: F.grid_sample(x, g.clamp(-1, 1), "nearest", align_corners=False),
            "1x8x16x16 1x16x16x2",
            "2x32x48x48 2x64x64x2",
        ),
        function("max_pool2d", lambda x: F.max_pool2d(x, 2), *image, True),
        function("max_pool2d k3 s2 p1", lambda x: F.max_pool2d(x, 3, 2, 1), *image, True),
        function("avg_pool2d", lambda x: F.avg_pool2d(x, 2), *image, True),
        function("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), *image, True),
        function("interpolate bilinear", POOLS["interpolate bilinear"], *image, True),
        function("pad reflect", lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), *image, True),
        function(
            "embedding",
            lambda w, i: F.embedding(i, w),
            "1000x64 200<1000",
            "5000x64 8000<5000",
            True,
        ),
        function(
            "gather", lambda x, i: x.gather(1, i), "64x100 64x50<100", "500x1000 500x500<1000", True
        ),
    ]
    return cases


# --- convolutions -------------------------------------------------------------------------------


CONVOLUTIONS: dict[tuple[int, bool], Any] = {
    (1, False): nn.Conv1d,
    (2, False): nn.Conv2d,
    (3, False): nn.Conv3d,
    (1, True): nn.ConvTranspose1d,
    (2, True): nn.ConvTranspose2d,
    (3, True): nn.ConvTranspose3d,
}


def conv(
    name: str,
    channels: tuple[int, int],
    kernel: int,
    small: int,
    large: int,
    batch: int = 1,
    axes: int = 2,
    mark: str = "",
    transposed: bool = False,
    train: bool = False,
    **options: Any,
) -> Case:
    """With images of `small` and of `large` elements along each axis."""

    def image(size: int) -> str:
        return "x".join(map(str, (batch, channels[0], *[size] * axes))) + mark

    kind, dtype = CONVOLUTIONS[axes, transposed], DTYPES.get(mark[1:], torch.float32)

    def make() -> nn.Module:
        return kind(*channels, kernel, **options).to(dtype)

    return module(name, make, image(small), image(large), train)


def convolutions() -> list[Case]:
    return [
        conv("conv2d 3x3", (64, 64), 3, 7, 56, padding=1),
        conv("conv2d 3x3 s2", (64, 128), 3, 8, 56, padding=1, stride=2),
        conv("conv2d 3x3 batch 8", (32, 32), 3, 7, 28, batch=8, padding=1),
        conv("conv2d 3x3 channels_last", (64, 64), 3, 7, 56, padding=1, mark=":last"),
        conv("conv2d 3x3 bf16", (64, 64), 3, 7, 56, padding=1, mark=":bf16"),
        conv("conv2d 1x1", (64, 128), 1, 7, 56),
        conv("conv2d 1x1 s2", (64, 128), 1, 14, 56, stride=2),
        conv("conv2d 1x1 batch 8", (96, 24), 1, 7, 28, batch=8),
        conv("conv2d 1x1 channels_last", (64, 128), 1, 7, 56, mark=":last"),
        conv("conv2d 1x1 bf16", (64, 128), 1, 7, 56, mark=":bf16"),
        conv("conv2d 7x7 s2 of 3", (3, 64), 7, 32, 112, padding=3, stride=2),
        conv("conv2d 4x4 s4 of 3", (3, 96), 4, 32, 224, stride=4),
        conv("conv2d 16x16 s16 of 3", (3, 192), 16, 32, 224, stride=16),
        conv("conv2d 3x3 of 1", (1, 32), 3, 28, 112, padding=1),
        conv("conv2d 3x3 to 1", (32, 1), 3, 28, 112, padding=1),
        conv("conv2d 5x5", (32, 48), 5, 8, 28, padding=2),
        conv("conv2d 9x9", (16, 16), 9, 14, 56, padding=4),
        conv("conv2d odd channels", (13, 29), 3, 14, 56, padding=1),
        conv("conv2d groups 4", (64, 64), 3, 14, 56, padding=1, groups=4),
        conv("conv2d groups 32", (128, 128), 3, 7, 28, padding=1, groups=32),
        conv("conv2d depthwise 3x3", (64, 64), 3, 14, 112, padding=1, groups=64),
        conv("conv2d depthwise 3x3 s2", (64, 64), 3, 14, 112, padding=1, groups=64, stride=2),
        conv("conv2d depthwise 5x5", (96, 96), 5, 7, 56, padding=2, groups=96),
        conv("conv2d depthwise 7x7", (96, 96), 7, 7, 56, padding=3, groups=96),
        conv("conv2d depthwise 31x31", (16, 16), 31, 14, 28, padding=15, groups=16),
        conv(
            "conv2d depthwise channels_last",
            (64, 64),
            3,
            14,
            112,
            padding=1,
            groups=64,
            mark=":last",
        ),
        conv("conv2d depthwise bf16", (64, 64), 3, 14, 112, padding=1, groups=64, mark=":bf16"),
        conv("conv2d depthwise x2", (32, 64), 3, 14, 56, padding=1, groups=32),
        conv("conv2d dilation 2", (64, 64), 3, 14, 28, padding=2, dilation=2),
        conv("conv2d dilation 4", (32, 32), 3, 14, 56, padding=4, dilation=4),
        conv("conv2d dilation 12", (64, 64), 3, 14, 28, padding=12, dilation=12),
        conv(
            "conv2d dilation 12, depthwise", (64, 64), 3, 14, 56, padding=12, dilation=12, groups=64
        ),
        conv("conv2d circular", (32, 32), 3, 14, 56, padding=1, padding_mode="circular"),
        conv("conv2d reflect", (32, 32), 3, 14, 56, padding=1, padding_mode="reflect"),
        conv("conv1d k3", (128, 128), 3, 32, 1000, axes=1, padding=1),
        conv("conv1d k3 s2", (128, 128), 3, 32, 2000, axes=1, padding=1, stride=2),
        conv("conv1d k7 dilation 8", (32, 32), 7, 64, 4000, axes=1, padding=24, dilation=8),
        conv("conv1d k10 s5 of 1", (1, 128), 10, 400, 16000, axes=1, stride=5),
        conv("conv1d depthwise k31", (64, 64), 31, 64, 2000, axes=1, padding=15, groups=64),
        conv("conv1d depthwise k4 causal", (256, 256), 4, 32, 1000, axes=1, padding=3, groups=256),
        conv("conv1d 1x1", (128, 64), 1, 32, 2000, axes=1),
        conv("conv3d 3x3x3", (16, 16), 3, 6, 20, axes=3, padding=1),
        conv("conv3d 1x1x1", (32, 32), 1, 6, 24, axes=3),
        conv("conv3d 3x3x3 s2", (16, 32), 3, 8, 24, axes=3, padding=1, stride=2),
        conv("conv3d depthwise", (32, 32), 3, 6, 24, axes=3, padding=1, groups=32),
        conv("conv_transpose2d k2 s2", (64, 32), 2, 7, 28, stride=2, transposed=True),
        conv("conv_transpose2d k4 s2", (64, 32), 4, 7, 28, stride=2, padding=1, transposed=True),
        conv("conv_transpose2d k3 s1", (32, 32), 3, 7, 28, padding=1, transposed=True),
        conv(
            "conv_transpose2d depthwise",
            (64, 64),
            4,
            7,
            56,
            stride=2,
            padding=1,
            groups=64,
            transposed=True,
        ),
        conv(
            "conv_transpose2d groups 4",
            (64, 64),
            3,
            7,
            28,
            stride=2,
            padding=1,
            groups=4,
            transposed=True,
        ),
        conv(
            "conv_transpose2d dilation 2",
            (32, 32),
            3,
            7,
            28,
            padding=2,
            dilation=2,
            transposed=True,
        ),
        conv(
            "conv_transpose1d k16 s8",
            (64, 32),
            16,
            16,
            500,
            axes=1,
            stride=8,
            padding=4,
            transposed=True,
        ),
        conv(
            "conv_transpose1d depthwise",
            (64, 64),
            4,
            32,
            2000,
            axes=1,
            stride=2,
            padding=1,
            groups=64,
            transposed=True,
        ),
        conv("conv_transpose3d k2 s2", (16, 16), 2, 5, 14, axes=3, stride=2, transposed=True),
        conv("conv2d 3x3", (32, 32), 3, 7, 28, batch=4, padding=1, train=True),
        conv("conv2d 3x3 s2", (32, 64), 3, 8, 28, batch=4, padding=1, stride=2, train=True),
        conv("conv2d 1x1", (64, 64), 1, 7, 28, batch=4, train=True),
        conv("conv2d depthwise", (64, 64), 3, 7, 28, batch=4, padding=1, groups=64, train=True),
        conv("conv2d groups 4", (64, 64), 3, 7, 28, batch=4, padding=1, groups=4, train=True),
        conv("conv2d dilation 2", (32, 32), 3, 7, 28, batch=4, padding=2, dilation=2, train=True),
        conv(
            "conv2d 3x3 channels_last",
            (32, 32),
            3,
            7,
            28,
            batch=4,
            padding=1,
            mark=":last",
            train=True,
        ),
        conv("conv1d k3", (64, 64), 3, 32, 500, axes=1, batch=4, padding=1, train=True),
        conv("conv3d", (8, 16), 3, 6, 12, axes=3, batch=2, padding=1, train=True),
        conv(
            "conv_transpose2d",
            (32, 16),
            4,
            7,
            20,
            batch=4,
            stride=2,
            padding=1,
            transposed=True,
            train=True,
        ),
    ]


# --- attention, recurrent cells, products -------------------------------------------------------


def attend(**options: Any) -> Callable[..., torch.Tensor]:
    return lambda q, k, v, *m: F.scaled_dot_product_attention(q, k, v, *m, **options)


def written_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return ((q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5).softmax(-1) @ v


def relative(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (q @ k.transpose(-1, -2) + b).softmax(-1) @ v


def attention() -> list[Case]:
    short, long = "1x4x16x32 1x4x16x32 1x4x16x32", "1x8x384x64 1x8x384x64 1x8x384x64"
    groups = "1x8x16x32 1x2x16x32 1x2x16x32", "1x16x256x64 1x4x256x64 1x4x256x64"
    one = "1x8x1x64 1x8x64x64 1x8x64x64", "1x16x1x64 1x16x2048x64 1x16x2048x64"
    return [
        function("attention", attend(), short, long),
        function("attention causal", attend(is_causal=True), short, long),
        function("attention grouped", attend(enable_gqa=True, is_causal=True), *groups),
        function("attention float mask", attend(), f"{short} 16x16", f"{long} 384x384"),
        function(
            "attention bool mask", attend(), f"{short} 1x1x16x16:mask", f"{long} 1x1x384x384:mask"
        ),
        function("attention one query", attend(), *one),
        function(
            "attention odd head 80",
            attend(),
            "2x3x17x80 2x3x17x80 2x3x17x80",
            "1x5x257x80 1x5x257x80 1x5x257x80",
        ),
        function(
            "attention many windows",
            attend(),
            "4x3x16x32 4x3x16x32 4x3x16x32",
            "64x3x49x32 64x3x49x32 64x3x49x32",
        ),
        function(
            "attention bf16",
            attend(),
            "1x4x16x32:bf16 1x4x16x32:bf16 1x4x16x32:bf16",
            "1x8x384x64:bf16 1x8x384x64:bf16 1x8x384x64:bf16",
        ),
        function(
            "attention long 2048",
            attend(is_causal=True),
            "1x1x64x64 1x1x64x64 1x1x64x64",
            "1x1x2048x64 1x1x2048x64 1x1x2048x64",
        ),
        function("attention written out", written_out, short, long),
        function("attention relative bias", relative, f"{short} 4x16x16", f"{long} 8x384x384"),
        function(
            "attention cross",
            attend(),
            "1x4x16x32 1x4x50x32 1x4x50x32",
            "1x8x1024x40 1x8x77x40 1x8x77x40",
        ),
        function(
            "linear attention",
            lambda q, k, v: (F.elu(q) + 1) @ ((F.elu(k) + 1).transpose(-1, -2) @ v),
            short,
            long,
        ),
        function("attention", attend(), short, "1x8x256x64 1x8x256x64 1x8x256x64", True),
        function(
            "attention causal",
            attend(is_causal=True),
            short,
            "1x8x256x64 1x8x256x64 1x8x256x64",
            True,
        ),
        module("multihead_attention", lambda: _SelfAttention(64), "1x16x64", "8x128x64"),
        module(
            "transformer layer",
            lambda: nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True),
            "1x16x64",
            "8x64x64",
        ),
        module(
            "transformer layer",
            lambda: nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True),
            "1x16x64",
            "8x64x64",
            True,
        ),
    ]


class _SelfAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


def recurrent() -> list[Case]:
    sequence = "1x8x32", "8x64x32"
    return [
        module("lstm", lambda: nn.LSTM(32, 64, batch_first=True), *sequence),
        module(
            "lstm bidirectional",
            lambda: nn.LSTM(32, 64, batch_first=True, bidirectional=True),
            *sequence,
        ),
        module("gru", lambda: nn.GRU(32, 64, batch_first=True), *sequence),
        module("rnn", lambda: nn.RNN(32, 64, batch_first=True), *sequence),
        module("lstm cell", lambda: nn.LSTMCell(64, 128), "4x64", "256x64"),
        module("gru cell", lambda: nn.GRUCell(64, 128), "4x64", "256x64"),
    ]


def products() -> list[Case]:
    return [
        function("bmm odd", torch.bmm, "7x13x17 7x17x11", "200x33x65 200x65x31"),
        function("bmm of 4x4", torch.bmm, "50x4x4 50x4x4", "20000x4x4 20000x4x4"),
        function(
            "bmm transposed",
            lambda x, y: x @ y.transpose(1, 2),
            "8x16x32 8x16x32",
            "64x64x64 64x64x64",
        ),
        function("matvec", torch.mv, "200x200 200", "1500x1500 1500"),
        function("dot", torch.dot, "20000 20000", "1000000 1000000"),
        function("outer", torch.outer, "128 128", "1000 1000"),
        function("addmm", torch.addmm, "33 20x50 50x33", "301 200x501 501x301"),
        function("baddbmm", torch.baddbmm, "4x9x9 4x9x20 4x20x9", "64x50x50 64x50x64 64x64x50"),
        function("bilinear", F.bilinear, "8x10 8x12 6x10x12", "128x32 128x32 32x32x32"),
        module("linear of 1 row", lambda: nn.Linear(256, 256), "1x256", "64x256"),
        module("linear to 3", lambda: nn.Linear(128, 3), "16x128", "4000x128"),
        module("linear 3d", lambda: nn.Linear(64, 200), "2x9x64", "16x100x64"),
        module(
            "linear bf16",
            lambda: nn.Linear(128, 128).to(torch.bfloat16),
            "8x128:bf16",
            "512x128:bf16",
        ),
        module("linear", lambda: nn.Linear(128, 128), "16x128", "512x128", True),
        function(
            "einsum bij,bjk->bik",
            lambda x, y: torch.einsum("bij,bjk->bik", x, y),
            "4x10x12 4x12x14",
            "50x60x64 50x64x62",
        ),
        function(
            "einsum bhid,bhjd->bhij",
            lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y),
            "1x4x10x16 1x4x10x16",
            "4x8x96x32 4x8x96x32",
        ),
        function(
            "einsum nchw,vw->nchv",
            lambda x, y: torch.einsum("nchw,vw->nchv", x, y),
            "1x8x12x16 16x16",
            "4x32x48x50 50x50",
        ),
        function(
            "einsum ij,ij->i",
            lambda x, y: torch.einsum("ij,ij->i", x, y),
            "64x200 64x200",
            "1000x1000 1000x1000",
        ),
        function(
            "einsum bi,bj->bij",
            lambda x, y: torch.einsum("bi,bj->bij", x, y),
            "16x32 16x32",
            "200x64 200x64",
        ),
        function(
            "einsum bnd,bmd->bnm scaled",
            lambda x, y: torch.einsum("bnd,bmd->bnm", x, y).softmax(-1),
            "4x20x16 4x20x16",
            "16x128x32 16x128x32",
        ),
        function("cdist", torch.cdist, "30x8 40x8", "500x32 400x32"),
        function("cdist p1", lambda x, y: torch.cdist(x, y, 1.0), "30x8 40x8", "300x16 300x16"),
        function(
            "pairwise differences",
            lambda x: (x[:, None] - x[None]).pow(2).sum(-1),
            "40x8",
            "300x32",
        ),
        function("matmul 4d broadcast", torch.matmul, "2x4x9x16 16x10", "8x16x50x64 64x64"),
        function(
            "matmul chain", lambda x, y, z: x @ y @ z, "20x30 30x25 25x8", "300x300 300x300 300x50"
        ),
        function("inverse", torch.linalg.inv, "8x8:definite", "4x64x64:definite"),
        function("solve", torch.linalg.solve, "8x8:definite 8x3", "4x64x64:definite 4x64x8"),
        function("det", torch.linalg.det, "8x8:definite", "4x64x64:definite"),
        function("rfft", lambda x: torch.fft.rfft(x).abs(), "4x128", "200x1024"),
        function(
            "stft",
            lambda x: torch.stft(
                x, 64, 32, window=torch.hann_window(64), return_complex=True
            ).abs(),
            "1x512",
            "4x8000",
        ),
    ]


def all_models() -> list[Case]:
    return [*pools(), *convolutions(), *attention(), *recurrent(), *products()]
