# ruff: noqa: E501 (a statement is a line)
"""More statements of random programs: about dtypes, sizes and layouts (random_ops.py has the form)."""

from __future__ import annotations

PROMOTION = """
{x} + {x1}
{x} - {f}
{i} + {f}
{i} * 1.5
{b} * 2.5
{b} + {k}
{b} + {b1}
{x} * True
{i} / {i1}
{i} / {k}
{x} / {f}
{i} ** 2
{i}.pow({i1}.abs() % 4)
2 ** {i}
{i}.float() ** {k}
{x}.flatten()[0] * {n}
{x}.sum() + {n}
{f}.sum() * {i}
{i}.sum() + {f}
{b}.sum() * {f}
{f}.mean() - {x}
torch.tensor(1.5) * {i}
torch.tensor(1.5, dtype=torch.float64) * {f}
torch.tensor([1.5], dtype=torch.float64) * {f}
torch.tensor(3) + {i}
torch.tensor(200) + {x}
torch.where({b}, {x}, {x1})
torch.where({b}, {i}, 1.5)
torch.where({b}, 1.5, {x})
torch.where({b}, {k}, 2)
torch.where({x}.bool(), 1.0, {k})
torch.maximum({x}, {x1})
torch.minimum({i}, {f})
{i}.clamp(min=-0.5)
{i}.clamp({i1}, {i2})
{i}.clamp(max={f})
torch.add({i}, {f}, alpha=2)
torch.add({b}, {i}, alpha=3)
torch.addcmul({i}, {i1}, {i2}, value=2)
torch.lerp({f}, {f1}, {f2}.mean())
torch.hypot({f}, {f1}.to(torch.float64))
torch.true_divide({x}, {x1})
torch.floor_divide({x}, 2.5)
torch.remainder({i}, 2.5)
torch.fmod({i}, {f}.abs() + 1)
torch.stack([{x}, {x1}, {x}])
torch.cat([{x}, {x1}, {x2}])
{i}.exp()
{b}.sin()
{i}.sqrt()
{i}.sigmoid()
{b}.float().mean()
{i}.softmax({d}, dtype=torch.float32)
{x}.mean({d}, dtype=torch.float32)
{x}.cumsum({d}, dtype=torch.float64)
{x}.prod({d}, dtype=torch.int64)
{b}.cumsum({d})
{b}.prod()
{b}.amax({d})
{b}.argmax({d})
{b}.sort({d}, stable=True) -> 2
{x} == {x1}
{x} < {x1}
{x} >= {k}
{x} != 0.5
{i} > 2.5
{x} & True
{x}.to({x1}.dtype)
{x}.type_as({x1})
{x}.char()
{x}.short()
{x}.byte() + {x1}.byte()
{x}.half().double()
{x}.bfloat16() * 3
{i}.neg()
{i} << {i1}.abs()
{i} >> {i1}.abs()
{i}.bitwise_not() & 255
{i}.abs().clamp(max=20).to(torch.int32).float()
{x}.abs().to(torch.uint8).sum({d})
({x} > 0) + ({x1} > 0)
({x} > 0).sum({d}) / {x}.shape[-1]
({x} > {x1}).float() - 0.5
({x} > {x1}).long().argmax({d})
{x}.sum({d}, dtype=torch.uint8)
{x}.double().to(torch.float16)
torch.copysign({i}, {f})
torch.dot({i}.flatten(), {i1}.flatten())
torch.outer({i}.flatten(), {i1}.flatten())
torch.einsum("...i,...i->...", {i}, {i1})
torch.linspace(0, {x}.shape[0], 4)
torch.arange({x}.shape[0]) / {x}.shape[0]
torch.arange(0, 1, 0.25) * {x}
torch.arange({x}.shape[-1] - 1, -1, -1)
"""

EMPTY = """
{x}[:0]
{x}[..., :0]
{x}[:0].sum({d})
{f}[:0].sum()
{x}[:0].prod({d})
{x}[:0].any()
{x}[:0].all({d})
{f}[:0].softmax({d})
{f}[:0].cumsum({d})
{n}[:0].sort({d}) -> 2
{f}[:0] @ {f1}
{f}.mT[..., :0] @ {f1}[..., :0, :]
{f}[..., :0].norm(dim=-1)
{f}[..., :0].logsumexp(-1)
torch.cat([{x}[:0], {x}])
torch.cat([{x}.new_empty(0), {x}], {d})
torch.stack([{x}[:0], {x}[:0]], {d})
{x}.new_zeros(0, 3).expand(2, 0, 3)
{x}.new_ones(()) * {x1}
{x}.sum().reshape(1, 1)
{x}.sum().unsqueeze(0).expand(3)
{x}.sum().cumsum(0)
{x}.sum().sort()[0]
{f}.sum().softmax(0)
{f}.sum().var(correction=0)
{x}.max().argmax()
{n}.sum().topk(1) -> 2
{x}.sum()[None, None].repeat(2, 2)
{x}.sum().gather(0, torch.tensor(0))
{x}.sum().index_select(0, torch.tensor([0, 0]))
torch.index_select({x}, 0, torch.tensor([], dtype=torch.int64))
{x}[torch.tensor([], dtype=torch.int64)]
{x}[{x}.new_zeros({x}.shape[0], dtype=torch.bool)]
{f}.scatter_add(-1, torch.zeros_like({f}, dtype=torch.int64)[..., :0], {f1}[..., :0])
{f}.index_add(0, torch.tensor([], dtype=torch.int64), {f}[:0])
F.pad({n}[:0], (1, 1, 1, 1))
F.linear({f}[:0], {f1})
F.layer_norm({f}[:0], {f}.shape[-1:])
F.embedding(torch.zeros(0, dtype=torch.int64), {f})
{x}.diagonal(7)
{x}.narrow(0, 1, 0)
{x}.split([0, {x}.shape[0]], 0) -> 2
torch.arange(0, 0) * {x}.sum()
"""

LAYOUTS = """
{f}.contiguous(memory_format=torch.channels_last)
{f}.to(memory_format=torch.channels_last) * 2
{f}.to(memory_format=torch.channels_last) + {f1}
{f}.to(memory_format=torch.channels_last).sum(1)
{f}.to(memory_format=torch.channels_last).flatten(1)
{f}.to(memory_format=torch.channels_last).clone()
torch.empty_like({f}.to(memory_format=torch.channels_last)).fill_(2)
F.conv2d({f}.to(memory_format=torch.channels_last), torch.ones(4, {f}.shape[1], 3, 3, dtype={f}.dtype).cumsum(-1) * 0.1, padding=1)
F.conv2d({f}, (torch.ones(4, {f}.shape[1], 2, 2, dtype={f}.dtype).cumsum(0) * 0.1).to(memory_format=torch.channels_last), stride=2)
F.max_pool2d({f}.to(memory_format=torch.channels_last), 2, return_indices=True) -> 2
F.avg_pool2d({f}.to(memory_format=torch.channels_last), 3, 1, 1)
F.adaptive_avg_pool2d({f}.to(memory_format=torch.channels_last), (2, 2))
F.interpolate({f}.to(memory_format=torch.channels_last), scale_factor=2, mode="bilinear")
F.batch_norm({f}.to(memory_format=torch.channels_last), None, None, training=True)
F.group_norm({f}.to(memory_format=torch.channels_last), 2)
F.pixel_shuffle({f}.to(memory_format=torch.channels_last), 2)
F.grid_sample({f}.to(memory_format=torch.channels_last), torch.linspace(-1, 1, 8, dtype={f}.dtype).reshape(1, 2, 2, 2).expand({f}.shape[0], 2, 2, 2), align_corners=True, padding_mode="reflection")
torch.cat([{f}.to(memory_format=torch.channels_last), {f}], 1)
{x}.permute(tuple(range({x}.dim()))[::-1]).contiguous()
{x}.mT.contiguous().mT
{x}.mT.reshape(-1)
{x}.transpose(0, -1).flatten()
{x}.transpose(0, -1).reshape({x}.shape)
{x}.expand(2, *{x}.shape).reshape(-1)
{x}.expand(2, *{x}.shape).contiguous().sum(0)
{x}.as_strided(({x}.shape[0],), (2,))
{x}.as_strided(({x}.shape[0], 2, 2), (1, 2, 1), 1)
{x}.flip(-1)[..., ::2]
{x}[..., 1::2].mT
{x}[1::2].contiguous()
{x}.unfold(0, 2, 2).mT.flatten(1)
torch.empty_permuted((2, 3, 4), (2, 0, 1)).fill_(1.5)
{f}.view(torch.int16)
{f}.view(torch.uint8)
{i}.view(torch.uint8)
"""

DATA_SIZES = """
{x}[{b}]
{x}[{x} > 0]
{f}[{f} > 0].sum()
{x}.nonzero()
torch.nonzero({b}, as_tuple=True)[0]
torch.argwhere({x} > 0).sum(0)
torch.masked_select({x}, {b})
torch.masked_select({f}, {f} > 0) * 2
{f}[{f} > 100].mean()
torch.unique({i})
torch.unique({i}, return_inverse=True, return_counts=True) -> 3
torch.unique_consecutive({i}.flatten())
torch.unique({i}, dim=0)
{x}[: int({b}.sum())]
{x}[int({i}.abs().max()) % {x}.shape[0] :]
{f} * {f1}.sum().item()
{n} + int({i}.sum())
torch.arange(int({i}.abs().max()) + 1)
torch.zeros(int({b}.sum()) + 1, 2)
torch.repeat_interleave({x}, {i}.abs().flatten()[: {x}.shape[0]], 0)
torch.repeat_interleave(torch.arange({i}.shape[0]), {i}.abs().flatten()[: {i}.shape[0]])
{x}.flatten()[{x}.flatten().nonzero()[:, 0]]
torch.cat([{x}[{x} > 0], {x}[{x} <= 0]])
{f}[{f} > 0].softmax(0)
{f}[{f} > 0].sort()[0]
{f}[{f} > 0].cumsum(0)
F.pad({f}[{f} > 0], (1, int({b}.sum())))
torch.where({x} > 0)[0].bincount(minlength=3)
{f}.index_add(0, torch.where({f}.flatten() > 0)[0] % {f}.shape[0], {f}[:1].expand(int(({f} > 0).sum()), *{f}.shape[1:]))
({f} + 1) if {f1}.sum() > 0 else ({f} - 1)
{f}.sin() if {b}.any() else {f}.cos()
{x} * {x}.max().item() if {x}.dtype == torch.int64 else {x}
torch.tensor({x}.shape) * 2
torch.tensor([float(v) for v in {x}.shape])
"""
