"""Small unusual programs: aliases, empty tensors, promotion, special values, transforms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

Tensors = tuple[torch.Tensor, ...]
INF, NAN = float("inf"), float("nan")


@dataclass
class Program:
    run: Callable[..., Any]
    inputs: Callable[[int], Tensors]  # of a size


PROGRAMS: dict[str, Program] = {}


def program(inputs: Callable[[int], Tensors]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(run: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[run.__name__] = Program(run, inputs)
        return run

    return add


def rows(n: int) -> Tensors:
    return (torch.randn(n, 4),)


def two_rows(n: int) -> Tensors:
    return torch.randn(n, 4), torch.randn(n, 4)


def vector(n: int) -> Tensors:
    return (torch.randn(n),)


def special(n: int) -> Tensors:
    values = torch.tensor([1.0, NAN, -INF, INF, -0.0, 0.0, 3.0, NAN])
    return (values.repeat(n, 1) * torch.arange(1, n + 1)[:, None],)


def halves_of_one(n: int) -> Tensors:
    base = torch.randn(2 * n, 4)
    return base[:n], base[n:]


def overlapping(n: int) -> Tensors:
    base = torch.randn(n + 1, 4)
    return base[:n], base[1:]


# --- mutation through views ---


@program(rows)
def mutate_a_diagonal(x):
    y = x.t() @ x
    y.diagonal().add_(1)
    y.diagonal(1).zero_()
    return y, y.sum()


@program(rows)
def mutate_every_second(x):
    x[::2, 1::2] *= 3
    x[1::2].copy_(x[1::2].flip(1))
    return x + 1


@program(rows)
def mutate_unbound_columns(x):
    a, b, c, d = x.unbind(1)
    a.add_(b)
    b.mul_(c)
    c.sub_(a)
    d.copy_(a + b)
    return x.sum(0)


@program(rows)
def mutate_split_then_cat(x):
    left, right = x.split(2, 1)
    left.sigmoid_()
    joined = torch.cat([right, left], 1)
    right.zero_()
    return joined, x


@program(rows)
def mutate_a_view_of_a_view(x):
    v = x.view(-1)[1:-1] if x.numel() > 1 else x.view(-1)
    w = v[::3]
    w.fill_(7)
    v += 1
    return x.clone(), w


@program(two_rows)
def swap_rows_through_a_temporary(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x - y


@program(halves_of_one)
def inputs_of_one_storage(x, y):
    x.add_(y)
    y.mul_(2)
    return x + y


@program(overlapping)
def inputs_that_overlap(x, y):
    x.add_(1)
    return y * 2, x


@program(overlapping)
def overlapping_copy_of_a_result(x, y):
    z = y * 2
    x.mul_(z)
    return z, y + 0


@program(rows)
def as_strided_windows(x):
    flat = x.reshape(-1)
    if flat.shape[0] < 3:
        return flat
    windows = flat.as_strided((flat.shape[0] - 2, 3), (1, 1))
    return windows.sum(1), windows.amax(0)


@program(rows)
def write_to_as_strided(x):
    y = x.clone()
    if y.numel():
        y.as_strided((y.shape[0],), (4,), 1).mul_(10)
    return y


@program(rows)
def expand_then_add_in_place(x):
    m = x.mean(0, keepdim=True).expand(x.shape[0], 4)
    y = x - m
    y += m
    return y, m.stride()


@program(rows)
def transposed_in_place(x):
    x.t_()
    x.mul_(2)
    return x.sum(0)


@program(rows)
def resized_by_unsqueeze_in_place(x):
    x.unsqueeze_(1).squeeze_(1).neg_()
    return x


@program(rows)
def flips_and_rolls(x):
    y = x.flip(0, 1)
    y[:, 0] = 5
    return y, y.roll(1, 1), x.flip(0)[::2], x.rot90()


@program(rows)
def out_arguments(x):
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    torch.mul(y, y, out=y)
    return y


@program(rows)
def a_set_slice_reads_itself(x):
    x[:, 1:] = x[:, :-1] * 2 + x[:, 1:]
    return x


# --- index_put, scatter, gather ---


@program(lambda n: (torch.zeros(4, 3), torch.randint(0, 4, (n,)), torch.randn(n, 3)))
def accumulate_at_repeated_indices(x, i, v):
    x.index_put_((i,), v, accumulate=True)
    x.index_add_(0, i, v, alpha=2)
    return x


@program(lambda n: (torch.randn(4, 3), torch.zeros(n, dtype=torch.long)))
def put_the_same_value_at_one_place(x, i):
    y = x.clone()
    y[i] = 9.0
    y[i, -1] = -1.0
    return y


@program(lambda n: (torch.randn(n, 4), torch.randn(n, 4) > 0))
def masked_writes(x, m):
    x[m] = 0
    x.masked_fill_(~m, 2.5)
    return x, torch.where(m, x, x.new_tensor(3.0))


@program(lambda n: (torch.randn(4, 3), torch.randint(-4, 4, (n, 3))))
def negative_indices(x, i):
    return x[i[:, 0], :], x[i[:, 0], i[:, 1] % 3]


@program(lambda n: (torch.randn(3, n + 1), torch.randint(0, n + 1, (3, 5))))
def scatter_reductions(x, i):
    s = torch.ones(3, 5)
    return (
        x.scatter_reduce(1, i, s, "amax", include_self=False),
        x.scatter_reduce(1, i, s, "mean"),
        x.scatter_reduce(1, i, s, "prod", include_self=True),
        x.scatter_add(1, i, s),
        x.gather(1, i),
    )


@program(lambda n: (torch.randn(n, 6), torch.randint(0, 6, (n, 1))))
def take_and_put_along(x, i):
    y = torch.take_along_dim(x, i, 1)
    return y, x.scatter(1, i, -y), torch.index_select(x, 1, i.flatten().clamp(max=5))


# --- empty and 0-d ---


@program(rows)
def folds_of_everything(x):
    return x.sum(), x.prod(), x.any(), x.all(), x.mean(), x.sum(0), x.prod(1), x.std(1)


@program(rows)
def folds_of_nothing(x):
    e = x[:0]
    return e.sum(), e.prod(), e.all(), e.any(), e.sum(0), e.mean(), torch.cat([e, x]), e @ x.t()


@program(lambda n: (torch.randn(()), torch.randn(n), torch.tensor(3)))
def zero_dimensional(a, x, k):
    a += 1
    return (
        a * x,
        x.new_full((), 2.0) + k,
        a.expand(3),
        torch.stack([a, a * k]),
        x.sum() / k,
        a.sort()[0],
    )


@program(vector)
def norms_and_sorts_of_short_vectors(x):
    values, order = x.sort(stable=True)
    return (
        values,
        order,
        x.norm(),
        x.cumsum(0),
        x.cumprod(0),
        x.diff(),
        x.flip(0).argsort(stable=True),
    )


@program(lambda n: (torch.randn(n, 0), torch.randn(0, n)))
def products_over_nothing(a, b):
    return a @ b, b @ a, (a @ b).softmax(-1) if a.shape[0] else a.sum()


# --- special values ---


@program(special)
def extremes_with_nan(x):
    return x.max(1), x.min(1), x.amax(1), x.amin(0), x.argmax(1), x.argmin(1), x.aminmax()


@program(special)
def sorts_with_nan(x):
    x = x + 0.0  # which of -0 and 0 is the median is not specified
    values, order = x.sort(dim=1, stable=True)
    down, _ = x.sort(dim=1, descending=True, stable=True)
    return (
        values,
        order,
        down,
        x.topk(3, 1)[0],
        x.kthvalue(2, 1)[0],
        x.median(1)[0],
        x.nanmedian(1)[0],
    )


@program(special)
def clamps_with_nan(x):
    return (
        x.clamp(-1, 2),
        x.clamp(min=0),
        x.clamp(max=x.flip(1)),
        x.clamp(2, -1),
        torch.maximum(x, x.flip(1)),
        torch.fmax(x, x.flip(1)),
        torch.fmin(x, x.flip(1)),
        x.nan_to_num(1.0, 2.0, -3.0),
        F.hardtanh(x),
        F.relu6(x),
        F.relu(x),
        F.leaky_relu(x),
    )


@program(special)
def signs_of_zero(x):
    return (
        torch.sign(x),
        torch.copysign(torch.ones_like(x), x),
        1 / x,
        x.sgn(),
        -x,
        torch.signbit(x),
        x.round(),
        x.abs(),
    )


@program(special)
def running_extremes_with_nan(x):
    return (
        x.cummax(1),
        x.cummin(1),
        x.cumsum(1),
        x.cumprod(1),
        x.logcumsumexp(1),
        x.softmax(1),
        x.logsumexp(1),
    )


@program(special)
def comparisons_with_nan(x):
    y = x.flip(1)
    return (
        x == y,
        x != y,
        x < y,
        x >= y,
        x.isnan(),
        x.isinf(),
        x.isfinite(),
        x.bool(),
        x.logical_not(),
        torch.isclose(x, y, equal_nan=True),
    )


# --- integers, bools, promotion ---


@program(
    lambda n: (
        torch.full((n,), 2**31 - 1, dtype=torch.int32),
        torch.full((n,), 200, dtype=torch.uint8),
        torch.full((n,), -128, dtype=torch.int8),
    )
)
def integer_overflow(i, u, b):
    return (
        i + 1,
        i * i,
        u + u,
        u * 3,
        b - 1,
        -b,
        b.abs(),
        i.sum(),
        u.sum(),
        u.cumsum(0),
        b * u,
        i << 1,
        u >> 1,
        ~u,
        ~b,
    )


@program(lambda n: (torch.arange(-n, n), torch.full((2 * n,), -3)))
def integer_division(a, b):
    return (
        a // b,
        a % b,
        torch.div(a, b, rounding_mode="trunc"),
        torch.fmod(a, b),
        a / b,
        torch.remainder(a, 2),
        a.pow(3),
        a.float() // 2.5,
    )


@program(
    lambda n: (
        torch.randn(n),
        torch.randint(0, 5, (n,)),
        torch.randn(n) > 0,
        torch.randn(n).half(),
        torch.randn(n).bfloat16(),
    )
)
def promotion(f, i, b, h, g):
    return (
        f + i,
        i + 1.5,
        b + b,
        b * 2,
        h + g,
        h + f,
        i * b,
        b + 0.5,
        h + torch.tensor(2.0, dtype=torch.float64),
        torch.where(b, i, f),
        torch.cat([f, i]),
        i / 2,
        b.sum(),
        b.float().mean(),
        h + 70000.0,
    )


@program(lambda n: (torch.randn(n) > 0, torch.randn(n) > 0))
def bool_arithmetic(a, b):
    return (
        a & b,
        a | b,
        a ^ b,
        ~a,
        a == b,
        a.sum(),
        a.any(),
        a.all(),
        a.cumsum(0),
        a.sort(stable=True)[0],
        a.to(torch.int8) - b.to(torch.int8),
        torch.logical_xor(a, b),
        a * 3.0,
        a.amax() if a.numel() else a.any(),
    )


@program(lambda n: (torch.randint(-1000, 1000, (n, 3)),))
def integer_folds(x):
    return (
        x.sum(1),
        x.prod(1),
        x.amax(1),
        x.argmin(1),
        x.cumsum(1),
        x.float().var(1),
        x.bitwise_and(7),
        x.sum(1, dtype=torch.int32),
        x.sum(dtype=torch.float32),
    )


# --- complex numbers ---


@program(lambda n: (torch.randn(n, 3, dtype=torch.complex64),))
def complex_arithmetic(z):
    return (
        z * z,
        z.conj() * z,
        z.abs(),
        z.angle(),
        z.real + z.imag,
        z.sum(0),
        torch.view_as_real(z),
        z.exp(),
        z / (1 + 2j),
        z.mean(),
    )


@program(lambda n: (torch.randn(n, 3, dtype=torch.complex64),))
def complex_mutation(z):
    z.real.mul_(2)
    torch.view_as_real(z)[..., 1].add_(1)
    return z.conj().resolve_conj(), z.t().conj() @ z


# --- transforms and training ---


@program(two_rows)
def mapped_gradients(x, y):
    def loss(a, b):
        return (torch.tanh(a) * b).sum()

    return torch.func.vmap(torch.func.grad(loss))(x, y)


@program(rows)
def jacobians(x):
    def fn(v):
        return torch.sin(v) * v.sum()

    return torch.func.vmap(torch.func.jacrev(fn))(x), torch.func.vmap(torch.func.jacfwd(fn))(x)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x.clamp(-1, 1) * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.k * (x.abs() < 1) + 0.5, None


@program(lambda n: (torch.randn(n, 4, requires_grad=True),))
def own_gradient(x):
    return Scaled.apply(x, 3.0) * x.detach()


@program(lambda n: (torch.randn(n, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)))
def checkpoint_with_dropout(x, w):
    def block(x):
        return F.dropout(torch.relu(x @ w), 0.5, training=True)

    return checkpoint(block, x, use_reentrant=False) + F.dropout(x, 0.25)


@program(lambda n: (torch.randn(n, 4, requires_grad=True),))
def gradients_through_views(x):
    y = x.clone()
    y[:, 1:3] = y[:, :2] * 2
    y.t()[0].mul_(3)
    return y.unfold(1, 2, 1).prod(-1), y.expand(2, *y.shape).transpose(0, 1)


@program(lambda n: (special(n)[0].requires_grad_(),))
def gradients_of_losses_with_nan(x):
    other = x.detach().flip(-1) + 1
    return F.smooth_l1_loss(x, other, beta=0.5, reduction="sum"), F.l1_loss(x, other)


@program(lambda n: (torch.randn(n, 4, requires_grad=True),))
def gradients_of_ties(x):
    z = x.round()
    return (
        z.amax(1),
        z.max(1)[0],
        x.sort(1)[0],
        x.topk(2, 1)[0],
        x.cummax(1)[0],
        x.abs(),
        x.clamp(0, 0.5),
        torch.maximum(x, x),
    )


@program(lambda n: (torch.randn(n, 3, requires_grad=True),))
def gradients_at_special_points(x):
    z = x * 0
    return (
        z.norm(dim=1),
        z.abs(),
        (z + 1e-20).sqrt(),
        z.prod(1),
        F.normalize(z, dim=1),
        z.pow(2),
        torch.where(x > 0, x.log(), x),
    )


@program(lambda n: (torch.randn(2 * n, 3, requires_grad=True), torch.tensor([0, n, 2 * n])))
def embedding_bags(w, offsets):
    i = torch.arange(w.shape[0]).flip(0)
    return F.embedding(i, w).cumsum(0), F.embedding_bag(i, w, offsets, mode="sum") if w.shape[
        0
    ] else w


@program(rows)
def dynamic_arithmetic(x):
    n = x.shape[0]
    y = torch.arange(n * 2).reshape(n, 2).float()
    pad = F.pad(x, (1, 0, n, 0))
    return (
        x.new_zeros(n + 1, n).sum(0),
        y @ x[:2, :2] if n >= 2 else y,
        pad,
        x.repeat(2, 1)[n:],
        x[-1:] * n,
        torch.full((n, n), 1.0).tril().sum(1),
    )


@program(lambda n: (torch.randn(n, 2, 6),))
def windows_and_pools(x):
    return (
        F.avg_pool1d(x, 3, 2, ceil_mode=True),
        F.max_pool1d(x, 2),
        F.interpolate(x, scale_factor=1.5, mode="linear"),
        F.pad(x, (2, 2), mode="reflect"),
        x.unfold(2, 3, 2).mean(-1),
    )


@program(rows)
def strings_of_copies(x):
    a = x.contiguous()
    b = a.to(torch.float32)
    c = b.view_as(x)
    a.add_(1)
    c.mul_(2)
    return b, x, x.detach(), x.data_ptr() == a.data_ptr()


@program(lambda n: (torch.randn(n, 3), torch.zeros(3), torch.tensor(0)))
def counters_and_buffers(x, mean, count):
    count += 1
    mean.lerp_(x.sum(0), 1 / 4)
    mean[0] += count
    return x - mean, count * 2


@program(lambda n: (torch.randn(n, 4).t(), torch.randn(4, n)))
def strided_inputs_in_place(x, y):
    x += y
    y[:] = x
    y.t().add_(1)
    return x * y, x.t()
