"""The operations that ops.py measures: indexing, shapes, norms and losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from ops_cases import Case, function, module
from torch import nn

# --- indexing -----------------------------------------------------------------------------------


def indexing() -> list[Case]:
    rows = "1000x64 200<1000", "50000x64 8000<50000"
    target = "100x64 400<100 400x64", "1000x256 8000<1000 8000x256"
    wide = "64x100 64x50<100", "1000x1000 1000x500<1000"
    bags = "1000x64 16x10<1000", "50000x64 512x20<50000"
    return [
        function("embedding", lambda w, i: F.embedding(i, w), *rows),
        function("index_select", lambda x, i: x.index_select(0, i), *rows),
        function("index rows", lambda x, i: x[i], *rows),
        function(
            "index_select columns",
            lambda x, i: x.index_select(1, i),
            "100x200 60<200",
            "2000x1000 500<1000",
        ),
        function(
            "index two",
            lambda x, i, j: x[i, j],
            "64x64 500<64 500<64",
            "1000x1000 200000<1000 200000<1000",
        ),
        function("embedding_bag sum", lambda w, i: F.embedding_bag(i, w, mode="sum"), *bags),
        function("embedding_bag mean", lambda w, i: F.embedding_bag(i, w), *bags),
        function(
            "embedding_bag offsets",
            lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"),
            "1000x32 160<1000 16:tens",
            "50000x32 10000<50000 1000:tens",
        ),
        function("gather last", lambda x, i: x.gather(1, i), *wide),
        function(
            "gather first",
            lambda x, i: x.gather(0, i),
            "100x64 50x64<100",
            "1000x1000 500x1000<1000",
        ),
        function("scatter last", lambda x, i: torch.zeros_like(x).scatter(1, i, 1.0), *wide),
        function(
            "scatter_add last",
            lambda x, i: torch.zeros_like(x).scatter_add(1, i, x[:, : i.shape[1]]),
            *wide,
        ),
        function(
            "scatter_add rows",
            lambda x, i, v: x.scatter_add(0, i[:, None].expand_as(v), v),
            *target,
        ),
        function(
            "scatter_reduce amax",
            lambda x, i: x.scatter_reduce(1, i, x[:, : i.shape[1]], "amax"),
            *wide,
        ),
        function("index_add rows", lambda x, i, v: x.index_add(0, i, v), *target),
        function(
            "index_add 1d",
            lambda x, i, v: x.index_add(0, i, v),
            "100 2000<100 2000",
            "10000 500000<10000 500000",
        ),
        function(
            "index_put accumulate", lambda x, i, v: x.index_put((i,), v, accumulate=True), *target
        ),
        function(
            "index_put",
            lambda x, i, v: x.index_put((i,), v),
            "100x64 50:permuted 50x64",
            "4000x256 2000:permuted 2000x256",
        ),
        function(
            "index_copy",
            lambda x, i, v: x.index_copy(0, i, v),
            "100x64 50:permuted 50x64",
            "4000x256 2000:permuted 2000x256",
        ),
        function("one_hot", lambda i: F.one_hot(i, 100), "200<100", "8000<100"),
        function(
            "masked sum",
            lambda x, m: (x * m).sum(-1),
            "64x256 64x256:mask",
            "1000x1024 1000x1024:mask",
        ),
        function(
            "take_along_dim",
            lambda x: torch.take_along_dim(x, x.argsort(1), 1),
            "16x100",
            "200x500",
        ),
        function(
            "bucketize", lambda x, b: torch.bucketize(x, b), "1000 50:sorted", "200000 50:sorted"
        ),
        function(
            "histogram",
            lambda i: torch.zeros(64).index_add(0, i, torch.ones(i.shape[0])),
            "1000<64",
            "300000<64",
        ),
    ]


# --- shapes -------------------------------------------------------------------------------------


def shapes() -> list[Case]:
    image = "2x8x24x24", "8x64x56x56"
    square = "64x256", "1000x1024"
    cases = []
    for mode in ("constant", "reflect", "replicate", "circular"):
        sizes = {
            1: ("2x16x300", "8x64x2000", (3, 4)),
            2: (*image, (1, 2, 3, 4)),
            3: ("1x4x8x12x12", "2x16x16x40x40", (1, 2, 1, 1, 2, 1)),
        }
        for axes, (small, large, amounts) in sizes.items():

            def pad(x: torch.Tensor, a: Any = amounts, m: str = mode) -> torch.Tensor:
                return F.pad(x, a, m)

            cases.append(function(f"pad {mode} {axes}d", pad, small, large))
    last = f"{image[0]}:last", f"{image[1]}:last"
    cases += [
        function(
            "pad reflect 2d, channels_last", lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), *last
        ),
        function("roll", lambda x: x.roll((3, 5), (0, 1)), *square),
        function("flip last", lambda x: x.flip(-1), *square),
        function("flip first", lambda x: x.flip(0), *square),
        function("rot90", lambda x: torch.rot90(x, 1, (2, 3)), *image),
        function(
            "cat last", lambda x, y: torch.cat([x, y], -1), "64x200 64x56", "1000x600 1000x424"
        ),
        function("cat first", lambda x, y: torch.cat([x, y]), "64x200 64x200", "1000x500 1000x500"),
        function(
            "cat of 8 last",
            lambda *x: torch.cat(x, -1),
            " ".join(["64x20"] * 8),
            " ".join(["2000x50"] * 8),
        ),
        function(
            "stack last", lambda x, y: torch.stack([x, y], -1), "64x128 64x128", "1000x500 1000x500"
        ),
        function(
            "stack of 4",
            lambda *x: torch.stack(x, 1),
            " ".join(["64x64"] * 4),
            " ".join(["1000x256"] * 4),
        ),
        function("split+cat", lambda x: torch.cat(x.chunk(4, -1)[::-1], -1), *square),
        function("repeat_interleave", lambda x: x.repeat_interleave(3, 1), "64x100", "1000x300"),
        function("repeat", lambda x: x.repeat(2, 3), "64x64", "400x500"),
        function(
            "repeat heads",
            lambda x: x[:, :, None].expand(-1, -1, 4, -1).reshape(x.shape[0], -1, x.shape[2]),
            "4x8x64",
            "32x128x64",
        ),
        function("transpose", lambda x: x.t().contiguous(), *square),
        function(
            "permute heads",
            lambda x: x.view(*x.shape[:2], 8, -1).permute(0, 2, 1, 3).contiguous(),
            "2x32x256",
            "8x256x512",
        ),
        function(
            "to channels_last", lambda x: x.contiguous(memory_format=torch.channels_last), *image
        ),
        function("from channels_last", lambda x: x.contiguous(), *last),
        function("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), *image),
        function("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), *image),
        function("channel_shuffle", lambda x: F.channel_shuffle(x, 4), *image),
        function("unfold", lambda x: F.unfold(x, 3, padding=1), "1x4x16x16", "4x16x56x56"),
        function("fold", lambda x: F.fold(x, (16, 16), 4, stride=4), "4x64x16", "1000x256x16"),
        function("window partition", windows, "2x16x16x16", "8x56x56x96"),
        function("slice step 2", lambda x: x[:, ::2] + x[:, 1::2], *square),
        function("rotary", rotary, "1x8x32x64 32x64 32x64", "2x16x512x64 512x64 512x64"),
        function(
            "rotary pairs", rotary_of_pairs, "1x8x32x64 32x32 32x32", "2x16x512x64 512x32 512x32"
        ),
    ]
    return cases


def windows(x: torch.Tensor) -> torch.Tensor:
    n, h, w, c = x.shape
    return x.view(n, 4, h // 4, 4, w // 4, c).permute(0, 1, 3, 2, 4, 5).contiguous()


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + torch.cat([-x[..., 32:], x[..., :32]], -1) * sin


def rotary_of_pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


# --- norms and losses ---------------------------------------------------------------------------


def norms() -> list[Case]:
    rows = "16x256", "1000x768"
    twice = "16x256 16x256", "1000x768 1000x768"
    image = "2x64x14x14", "8x64x56x56"
    last = "2x64x14x14:last", "8x64x56x56:last"
    cases = []
    for train in (False, True):
        cases += [
            function("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:]), *rows, train),
            function(
                "layer_norm affine",
                lambda x, w, b: F.layer_norm(x, w.shape, w, b),
                "16x256 256 256",
                "1000x768 768 768",
                train,
            ),
            function(
                "rms_norm",
                lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
                "16x256 256",
                "1000x768 768",
                train,
            ),
            module("batch_norm2d", lambda: nn.BatchNorm2d(64), *image, train),
            module("batch_norm2d channels_last", lambda: nn.BatchNorm2d(64), *last, train),
            function("group_norm", lambda x: F.group_norm(x, 8), *image, train),
            function("instance_norm", lambda x: F.instance_norm(x), *image, train),
            function(
                "local norm of channels",
                lambda x: (
                    (x - x.mean(1, True)) * torch.rsqrt(x.var(1, keepdim=True, correction=0) + 1e-6)
                ),
                *image,
                train,
            ),
            function("softmax", lambda x: x.softmax(-1), *rows, train),
            function("gelu", F.gelu, *rows, train),
            function("silu", F.silu, *rows, train),
            function("dropout 0", lambda x: F.dropout(x, 0.0, True) * 2, *rows, train),
            function(
                "cross_entropy",
                lambda x, y: F.cross_entropy(x, y),
                "16x100 16<100",
                "512x2000 512<2000",
                train,
            ),
            function(
                "cross_entropy smooth",
                lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
                "16x100 16<100",
                "512x2000 512<2000",
                train,
            ),
            function("mse", F.mse_loss, *twice, train),
            function("smooth_l1", F.smooth_l1_loss, *twice, train),
            function(
                "bce logits",
                lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
                *twice,
                train,
            ),
            function(
                "kl_div",
                lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
                *twice,
                train,
            ),
            function(
                "cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -1), *twice, train
            ),
            function("huber", F.huber_loss, *twice, train),
        ]
    cases += [
        function(
            "cosine_embedding",
            lambda x, y: F.cosine_embedding_loss(x, y, torch.ones(x.shape[0])),
            *twice,
        ),
        function(
            "triplet",
            lambda x, y, z: F.triplet_margin_loss(x, y, z),
            "16x256 16x256 16x256",
            "1000x768 1000x768 1000x768",
        ),
        function(
            "nll 2d",
            lambda x, y: F.nll_loss(x, y),
            "2x10x16x16 2x16x16<10",
            "4x20x128x128 4x128x128<20",
        ),
        function("local_response_norm", lambda x: F.local_response_norm(x, 5), *image),
    ]
    return cases
