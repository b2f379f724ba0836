# ruff: noqa: E501 (a statement is a line)
"""Statements that random programs are made of.

A letter in braces is an operand: f a float, i an integer, b a bool, z a complex, x any real tensor,
n a float or integer one (f, f1 and f2 are drawn independently); d is an axis, s a number, k a small
integer, e a factor. A statement with several results has their number after "->".
"""

from __future__ import annotations

POINTWISE = """
{n} + {n1}
{n} - {n1}
{x} * {x1}
{n} / {n1}
{n} + {s}
{s} - {n}
{x} * {s}
{n} / {s}
{s} / {n}
torch.add({n}, {n1}, alpha={k})
torch.sub({f}, {f1}, alpha={e})
torch.rsub({f}, {f1})
{n} // {k}
{n} % {k}
{i} // ({i1} | 1)
{i} % ({i1} | 1)
{f} // 0.75
torch.div({n}, {k}, rounding_mode="trunc")
torch.div({n}, {s}, rounding_mode="floor")
torch.fmod({f}, 1.5)
torch.fmod({i}, 3)
torch.remainder({f}, -1.5)
torch.remainder({i}, -3)
-{n}
{f}.abs()
{i}.abs()
{f}.exp()
{f}.tanh()
{f}.sigmoid()
{f}.abs().add(0.1).log()
{f}.square().add(0.5).sqrt()
{f}.abs().add(0.5).rsqrt()
{f}.sin()
{f}.cos()
{f}.clamp(-0.9, 0.9).atanh()
{f}.clamp(-0.9, 0.9).asin()
{f}.atan()
torch.atan2({f}, {f1})
{f}.sinh()
{f}.erf()
{f}.erfc()
{f}.expm1()
{f}.abs().log1p()
{f}.abs().add(0.1).log2()
{f}.exp2()
{f}.floor()
{f}.ceil()
{f}.round()
{f}.trunc()
{f}.frac()
{f}.round(decimals=1)
{n}.sign()
{n}.square()
{n}.pow(2)
{n}.pow(3)
{f}.abs().pow(0.5)
{f}.abs().add(0.1).pow({f1})
{s} ** {f}
{f} ** -1
{f}.reciprocal()
{f}.sgn()
torch.logit({f}.sigmoid(), 1e-3)
torch.hypot({f}, {f1})
torch.copysign({f}, {f1})
torch.xlogy({f}, {f1}.abs())
torch.special.entr({f}.abs())
torch.special.ndtr({f})
torch.special.i0({f})
torch.special.xlog1py({f}, {f1}.abs())
torch.sinc({f})
torch.heaviside({f}, {f1})
torch.lgamma({f}.abs().add(0.5))
torch.digamma({f}.abs().add(0.5))
torch.erfinv({f}.clamp(-0.9, 0.9))
torch.deg2rad({f})
torch.logaddexp({f}, {f1})
torch.logaddexp2({f}, {f1})
torch.ldexp({f}, {i}.clamp(-4, 4))
torch.nextafter({f}, {f1})
torch.float_power({f}.abs(), 1.5)
torch.lerp({f}, {f1}, 0.25)
torch.lerp({f}, {f1}, {f2})
torch.addcmul({f}, {f1}, {f2}, value=0.5)
torch.addcdiv({f}, {f1}, {f2}.abs() + 0.5)
torch.maximum({n}, {n1})
torch.minimum({n}, {n1})
torch.fmax({f}, {f1})
torch.fmin({f}, {f1})
{n}.clamp(-1, 1)
{n}.clamp(min={k})
{f}.clamp(max={s})
{f}.clamp({f1}, {f2})
{f}.nan_to_num(0.5)
torch.where({b}, {n}, {n1})
torch.where({b}, {n}, {s})
torch.where({f} > 0, {f}, {f1})
{n}.masked_fill({b}, {k})
{n} == {n1}
{n} != {n1}
{n} < {n1}
{n} >= {s}
{n} <= {k}
{n} > {n1}
torch.isclose({f}, {f1}, atol=0.1)
{x}.logical_not()
torch.logical_and({x}, {x1})
torch.logical_xor({x}, {x1})
{b} & {b1}
{b} | {b1}
{b} ^ {b1}
~{b}
{i} & {i1}
{i} | {k}
{i} ^ {i1}
~{i}
{i} << {k}
{i} >> 1
torch.bitwise_left_shift({i}, 2)
torch.gcd({i}, {i1})
torch.lcm({i}, {i1})
torch.isnan({f})
torch.isfinite({f})
torch.signbit({n})
{x}.to(torch.float32)
{x}.to(torch.float64)
{x}.to(torch.float16)
{x}.to(torch.bfloat16)
{x}.clamp(-100, 100).to(torch.int8)
{x}.abs().clamp(max=200).to(torch.uint8)
{x}.clamp(-100, 100).to(torch.int16)
{x}.to(torch.int32)
{x}.to(torch.int64)
{x}.bool()
torch.empty_like({x}).fill_({k})
torch.full_like({n}, {s})
torch.ones_like({x}) + {x1}
F.relu({f})
F.gelu({f})
F.gelu({f}, approximate="tanh")
F.silu({f})
F.mish({f})
F.elu({f}, 0.7)
F.selu({f})
F.celu({f}, 1.3)
F.softplus({f}, 2.0, 1.0)
F.logsigmoid({f})
F.leaky_relu({f}, 0.1)
F.hardswish({f})
F.hardsigmoid({f})
F.hardshrink({f}, 0.3)
F.softshrink({f}, 0.3)
F.tanhshrink({f})
F.threshold({f}, 0.1, -2.0)
F.softsign({f})
F.relu6({f} * 5)
F.hardtanh({f}, -0.5, 0.7)
F.rrelu({f})
F.prelu({f}, torch.full((1,), 0.2, dtype={f}.dtype))
F.glu({f}, {d})
{f} * {f}.sigmoid()
torch.complex({f}, {f1})
{f} * 1j
"""

FOLDS = """
{x}.sum()
{x}.sum({d})
{x}.sum({d}, keepdim=True)
{n}.sum((0, -1))
{x}.sum({d}, dtype=torch.float64)
{i}.sum({d}, dtype=torch.int32)
{f}.mean()
{f}.mean({d})
{f}.mean({d}, keepdim=True)
{f}.var({d})
{f}.std({d}, keepdim=True)
{f}.var({d}, correction=0)
torch.var_mean({f}, {d}) -> 2
{x}.prod({d})
{x}.prod()
{x}.amax({d})
{x}.amin({d}, keepdim=True)
{x}.max()
{x}.min()
{x}.max({d}) -> 2
{x}.min({d}, keepdim=True) -> 2
{x}.argmax({d})
{x}.argmin({d}, keepdim=True)
{x}.argmax()
torch.aminmax({n}, dim={d}) -> 2
{x}.any()
{x}.any({d})
{x}.all({d}, keepdim=True)
{x}.count_nonzero({d})
{f}.norm()
{f}.norm(dim={d})
{f}.norm(p=1, dim={d})
{f}.norm(p=float("inf"), dim={d}, keepdim=True)
torch.linalg.vector_norm({f}, 3, {d})
{f}.logsumexp({d})
{f}.softmax({d})
F.softmax({f}, {d}, dtype=torch.float64)
{f}.log_softmax({d})
F.softmin({f}, {d})
F.normalize({f}, dim={d})
{x}.cumsum({d})
{f}.cumprod({d})
{i}.cumprod({d})
{f}.logcumsumexp({d})
{n}.cummax({d}) -> 2
{n}.cummin({d}) -> 2
{n}.diff(dim={d})
torch.trapezoid({f}, dim={d})
{f}.nansum({d})
{f}.nanmean({d})
{n}.sort({d})[0]
{n}.sort({d}, descending=True)[0]
torch.sort({n}, dim={d}, stable=True, descending=True) -> 2
torch.sort({x}, dim={d}, stable=True) -> 2
{n}.argsort(dim={d}, stable=True)
{n}.argsort(dim={d}, descending=True, stable=True)
{n}.topk(2, {d}) -> 2
{n}.topk(1, {d}, largest=False) -> 2
{n}.kthvalue(1, {d}) -> 2
{n}.median({d}) -> 2
{n}.median()
{f}.nanmedian({d}) -> 2
{f}.quantile(0.3, dim={d})
{x}.mode({d}) -> 2
torch.searchsorted({f}.sort(-1)[0], {f1})
torch.bucketize({f}, torch.tensor([-0.5, 0.0, 0.5], dtype={f}.dtype))
torch.bucketize({i}, torch.tensor([0, 2, 4]), right=True)
torch.histc({f}, 5, -2, 2)
torch.cdist({f}, {f1})
torch.dist({f}, {f1})
F.cosine_similarity({f}, {f1}, dim={d})
F.pairwise_distance({f}, {f1})
torch.renorm({f}, 2, 0, 0.5)
torch.cov({f})
torch.corrcoef({f})
torch.std_mean({f}, {d}, keepdim=True) -> 2
F.layer_norm({f}, {f}.shape[-1:])
F.layer_norm({f}, {f}.shape[-2:])
F.rms_norm({f}, {f}.shape[-1:])
F.group_norm({f}, 2)
F.instance_norm({f})
F.batch_norm({f}, None, None, training=True)
F.local_response_norm({f}, 2)
F.mse_loss({f}, {f1})
F.l1_loss({f}, {f1}, reduction="sum")
F.smooth_l1_loss({f}, {f1}, beta=0.5)
F.huber_loss({f}, {f1})
F.kl_div({f}.log_softmax(-1), {f1}.softmax(-1), reduction="batchmean")
F.binary_cross_entropy({f}.sigmoid(), {f1}.sigmoid())
F.binary_cross_entropy_with_logits({f}, {f1}.sigmoid(), reduction="none")
F.cross_entropy({f}, {f}.argmin(1))
F.cross_entropy({f}, {f1}.softmax(1), label_smoothing=0.1)
F.nll_loss({f}.log_softmax(1), {f}.argmax(1), reduction="sum")
F.poisson_nll_loss({f}, {f1}.abs())
F.gaussian_nll_loss({f}, {f1}, {f2}.abs() + 0.1)
F.soft_margin_loss({f}, {f1}.sign())
F.hinge_embedding_loss({f}, {f1}.sign())
F.margin_ranking_loss({f}, {f1}, {f2}.sign())
F.multilabel_soft_margin_loss({f}, ({f1} > 0).to({f1}.dtype))
F.triplet_margin_loss({f}, {f1}, {f2})
"""

VIEWS = """
{x}.t()
{x}.transpose(0, -1)
{x}.mT
{x}.movedim(0, -1)
{x}.unsqueeze({d})
{x}.squeeze()
{x}.squeeze({d})
{x}[0]
{x}[-1]
{x}[..., 0]
{x}[1:]
{x}[:-1]
{x}[..., 1:]
{x}[..., ::2]
{x}[::2]
{x}[None]
{x}[:, None]
{x}[-2:, ..., -1:]
{x}.narrow(0, 0, 1)
{x}.select(-1, 1)
{x}.flatten()
{x}.flatten(1)
{x}.reshape(-1)
{x}.reshape({x}.shape[0], -1)
{x}.reshape(-1, {x}.shape[-1])
{x}.reshape({x}.shape[::-1])
{x}.reshape(2, -1)
{x}.view(*{x}.shape[:-1], -1, 2)
{x}.unflatten(-1, (2, -1))
{x}.expand(2, *{x}.shape)
{x}.expand(*{x}.shape[:-1], 3)
{x}.repeat(*[2] * {x}.dim())
{x}.repeat_interleave(2, {d})
{x}.tile(2)
{x}.flip({d})
{x}.flip(0, -1)
{x}.roll({k}, {d})
{x}.roll(1)
{x}.rot90(1, (0, -1))
{x}.diagonal()
{x}.diagonal(1, 0, -1)
torch.diag_embed({x})
{x}.unfold({d}, 2, 1)
{x}.tril()
{x}.triu(1)
{x}.contiguous()
{x}.clone()
{x}.chunk(2, {d}) -> 2
{x}.unbind(-1)[0]
{x}.tensor_split(2, {d}) -> 2
{x}.split([1, {x}.shape[0] - 1], 0) -> 2
torch.cat([{x}, {x1}], {d})
torch.cat([{n}, {n1}, {n}], -1)
torch.stack([{x}, {x1}], {d})
torch.hstack([{x}, {x1}])
torch.vstack([{x}, {x1}])
torch.dstack([{n}, {n1}])
torch.block_diag({f}, {f1})
torch.broadcast_tensors({x}, {x1}) -> 2
torch.meshgrid({x}.flatten()[:3], {x1}.flatten()[:2], indexing="ij") -> 2
torch.atleast_2d({x})
torch.kron({f}, {f1})
torch.cartesian_prod({x}.flatten()[:3], {x}.flatten()[:2])
F.pad({n}, (1, 2))
F.pad({n}, (1, 0, 2, 1), value=3)
F.pad({n}, (-1, 1))
F.pad({f}, (1, 2), mode="reflect")
F.pad({f}, (2, 1), mode="replicate")
F.pad({f}, (1, 1), mode="circular")
F.pad({f}, (1, 2, 1, 0), mode="reflect")
F.pad({f}, (1, 2, 2, 0), mode="replicate")
F.pad({f}, (1, 1, 0, 1), mode="circular")
F.one_hot({i}.abs() % 4, 4)
F.pixel_shuffle({f}, 2)
F.pixel_unshuffle({f}, 2)
F.channel_shuffle({f}, 2)
torch.arange({x}.shape[0], dtype=torch.float32) + {x}.shape[-1]
torch.arange({x}.shape[-1]) * {x}
torch.arange(1, {x}.shape[0] * 2, 2)
torch.linspace(-1, 1, 5)
torch.linspace(0, 1, {x}.shape[0])
torch.ones({x}.shape[0], 3).cumsum(0)
torch.eye({x}.shape[0])
torch.zeros({x}.shape, dtype=torch.int32)
{x}.new_full(({x}.shape[0], 2), {k})
{f} * {f1}.shape[0]
{f} / {f1}.numel()
torch.tensor([1.5, -2.0, 0.5, 3.0])
torch.tensor([3, 0, 2, 1])
torch.scalar_tensor({s})
torch.vander({f}.flatten()[:4], 3)
torch.tril_indices({x}.shape[0], 3)
torch.view_as_real({z})
{z}.real
{z}.imag
{z}.abs()
{z} * {z1}
{z} + {f}
{z}.conj() * {z1}
{z}.angle()
{z}.exp()
{z}.sum({d})
{z} / (1 + 2j)
torch.view_as_complex({f}.reshape(-1, 2).contiguous())
"""

INDEXING = """
{x}[torch.tensor([0, 0])]
{x}[torch.tensor([-1, 0, -1])]
{x}[:, torch.tensor([1, 0])]
{x}[torch.tensor([0, -1]), torch.tensor([1, 0])]
{x}[..., torch.tensor([[0, 1], [1, -1]])]
{x}[torch.tensor([[0], [-1]]), torch.tensor([[1, 0]])]
{x}[0, ..., torch.tensor([1, 1])]
{x}[torch.tensor([0]), :, torch.tensor([0])]
{x}[{i}.abs() % {x}.shape[0]]
{x}.index_select({d}, torch.tensor([1, 0, 1]))
{x}.gather({d}, {x1}.argsort(dim={d}, stable=True))
{x}.gather(-1, {i}.abs() % {x}.shape[-1])
torch.take({x}, {i}.abs() % {x}.numel())
torch.take_along_dim({x}, {x}.argmax(-1, keepdim=True), -1)
F.embedding({i}.abs() % {f}.shape[0], {f})
F.embedding({i}.abs() % 5, torch.ones(5, 3).cumsum(0), padding_idx=1)
{f}.scatter(-1, {f}.argsort(dim=-1, stable=True), {f1})
{n}.scatter({d}, torch.zeros_like({n}, dtype=torch.int64), {k})
{f}.scatter_add(-1, {i}.abs() % {f}.shape[-1], {f1})
{n}.scatter_reduce({d}, torch.zeros_like({n}, dtype=torch.int64), {n}, "sum")
{n}.scatter_reduce({d}, torch.zeros_like({n}, dtype=torch.int64), {n}, "amax", include_self=False)
{n}.scatter_reduce({d}, torch.ones_like({n}, dtype=torch.int64), {n}, "amin")
{f}.scatter_reduce({d}, torch.zeros_like({f}, dtype=torch.int64), {f}, "mean")
{n}.scatter_reduce({d}, torch.zeros_like({n}, dtype=torch.int64), {n}, "prod", include_self=False)
{n}.index_add(0, torch.tensor([0, 0]), {n}[:2])
{n}.index_add({d}, torch.tensor([1, 0]), {n}.narrow({d}, 0, 2), alpha={k})
{x}.index_copy({d}, torch.tensor([1, 0]), {x}.narrow({d}, 0, 2))
{n}.index_fill({d}, torch.tensor([0]), {k})
{f}.index_reduce({d}, torch.tensor([0, 0]), {f}.narrow({d}, 0, 2), "mean", include_self=False)
{f}.index_reduce({d}, torch.tensor([0, 1]), {f}.narrow({d}, 0, 2), "prod")
{n}.index_put((torch.tensor([0, -1]),), {n}[:1])
{n}.index_put((torch.tensor([0, 0]),), {n}[:2], accumulate=True)
{x}.masked_scatter({b}, {x1})
{x}.select_scatter({x1}, 0, 0)
{x}.slice_scatter({x}[1:], 0, 0, -1)
{x}.diagonal_scatter({x}.diagonal() * 2)
torch.bincount({i}.flatten().abs() % 7, minlength=7)[:7]
torch.isin({i}, torch.tensor([0, 2]))
"""

PRODUCTS = """
{f} @ {f1}
{f} @ {f1}.mT
{i} @ {i1}
torch.mm({f}, {f1})
torch.mm({f}, {f1}.t())
torch.matmul({f}, {f1}.transpose(-1, -2))
torch.addmm({f}, {f1}, {f2}, beta=0.5, alpha=2)
torch.addmm({f}, {f1}, {f2}.t())
torch.bmm({f}, {f1})
torch.bmm({f}, {f1}.mT)
torch.baddbmm({f}, {f1}, {f2}.mT, alpha=0.5)
torch.mv({f}, {f1})
torch.dot({f}.flatten(), {f1}.flatten())
torch.outer({f}.flatten(), {f1}.flatten())
torch.inner({f}, {f1})
torch.tensordot({f}, {f1}, 1)
torch.einsum("ij,jk->ik", {f}, {f1})
torch.einsum("ij,kj->ik", {f}, {f1})
torch.einsum("bij,bjk->bik", {f}, {f1})
torch.einsum("bij,bkj->bik", {f}, {f1})
torch.einsum("ii->i", {f})
torch.einsum("ij->", {f})
torch.einsum("ij,ij->j", {f}, {f1})
torch.einsum("...i,...i->...", {f}, {f1})
torch.einsum("i,j->ij", {f}.flatten()[:4], {f1}.flatten()[:3])
torch.einsum("bi,oi->bo", {f}, {f1})
torch.einsum("ij,jk,kl->il", {f}, {f1}, {f2})
torch.einsum("bij,bjk->ik", {f}, {f1})
torch.einsum("bij,bij->bi", {f}, {f1})
torch.einsum("bij,kj->bki", {f}, {f1})
torch.einsum("bij,bik->bjk", {f}, {f1})
torch.einsum("ijk->kij", {f})
torch.einsum("ijk->j", {f})
torch.einsum("bii->b", {f} @ {f}.mT)
torch.einsum("ij,ij->", {f}, {f1})
torch.einsum("i,i->", {f}.flatten(), {f1}.flatten()[: {f}.numel()])
torch.einsum("...ij,...jk->...ik", {f}, {f1})
torch.einsum("a...,...->a", {f}, {f1}[0])
torch.einsum("ij,k->ijk", {f}, {f1}.flatten()[:3])
torch.einsum("bhij,bhjd->bihd", {f}, {f1})
torch.einsum("bhid,bhjd->bhij", {f}, {f1})
torch.einsum("ij,jk->ki", {z}, {z1})
torch.einsum("ij,ij->i", {z}, {z1}.conj())
{z} @ {z1}.mT
{z} @ {z1}.mH
{f}.mT @ {f1}
({f} @ {f1}).relu() + {s}
({f} @ {f1}.mT).softmax(-1)
({f} @ {f1}) * {f2} + {f2}.sum(0)
{f} @ {f1}.T @ {f2}
{f} @ {f}.mT
{f}.reshape(-1, {f}.shape[-1]) @ {f1}
torch.addmv({f}, {f1}, {f2})
torch.addbmm({f}, {f1}, {f2})
torch.addr({f}, {f1}, {f2})
torch.matmul({i}.float(), {f})
F.linear({f}.mT, {f1})
F.linear({f}[..., 1:], {f1}[..., 1:])
F.linear({f}, {f1}[:1], {f2}.flatten()[:1])
torch.cross({f}[..., :3], {f1}[..., :3], dim=-1)
torch.chain_matmul({f}, {f1}, {f2})
torch.trace({f})
F.linear({f}, {f1})
F.linear({f}, {f1}, {f2})
F.bilinear({f}[:, :2], {f1}[:, :3], torch.ones(2, 2, 3, dtype={f}.dtype).cumsum(0))
F.scaled_dot_product_attention({f}, {f1}, {f2})
F.scaled_dot_product_attention({f}, {f1}, {f1}, is_causal=True)
F.scaled_dot_product_attention({f}, {f1}, {f2}, attn_mask={b})
F.scaled_dot_product_attention({f}[None], {f1}[None], {f1}[None], scale=0.3)
F.scaled_dot_product_attention({f}[None, None], {f1}[None, None], {f2}[None, None], is_causal=True)
F.conv1d({f}, {f1}[:2, :, :2])
F.conv1d({f}, {f}[:1].expand(3, -1, -1)[..., :2], padding=1, stride=2)
F.conv1d({f}, torch.ones(4, 1, 3, dtype={f}.dtype).cumsum(0), groups={f}.shape[-2], padding=2, dilation=2)
F.conv2d({f}, torch.ones(4, {f}.shape[1], 3, 3, dtype={f}.dtype).cumsum(-1) * 0.1, padding=1)
F.conv2d({f}, torch.ones(2, {f}.shape[1], 2, 3, dtype={f}.dtype).cumsum(-1) * 0.1, stride=(2, 1), dilation=(1, 2), padding=(1, 2))
F.conv2d({f}, torch.ones({f}.shape[1] * 2, 1, 3, 3, dtype={f}.dtype).cumsum(0) * 0.1, groups={f}.shape[1], padding="same")
F.conv_transpose1d({f}, torch.ones({f}.shape[-2], 2, 3, dtype={f}.dtype).cumsum(-1) * 0.1, stride=2, padding=1, output_padding=1)
F.conv_transpose2d({f}, torch.ones({f}.shape[1], 2, 3, 3, dtype={f}.dtype).cumsum(-1) * 0.1, stride=2, dilation=(1, 2))
F.conv_transpose2d({f}, torch.ones({f}.shape[1], 1, 2, 2, dtype={f}.dtype).cumsum(0) * 0.1, groups={f}.shape[1])
F.conv2d({f}, {f1}.expand({f}.shape[1], 1, *{f1}.shape[-2:])[..., :2, :2], groups={f}.shape[1])
F.max_pool1d({f}, 2, ceil_mode=True)
F.max_pool2d({f}, 3, 2, 1, ceil_mode=True)
F.max_pool2d({f}, (2, 3), stride=1, dilation=(2, 1))
F.max_pool2d({f}, 2, return_indices=True) -> 2
F.avg_pool1d({f}, 3, 2, 1)
F.avg_pool2d({f}, 3, 2, 1, ceil_mode=True)
F.avg_pool2d({f}, (3, 2), 1, (1, 0), count_include_pad=False)
F.avg_pool2d({f}, 2, divisor_override=3)
F.lp_pool2d({f}.abs() + 0.1, 2.0, 2)
F.adaptive_avg_pool1d({f}, 3)
F.adaptive_avg_pool2d({f}, (2, 3))
F.adaptive_max_pool2d({f}, (3, 2))
F.adaptive_max_pool1d({f}, 2)
F.interpolate({f}, scale_factor=2)
F.interpolate({f}, size=5)
F.interpolate({f}, scale_factor=1.5, mode="linear")
F.interpolate({f}, scale_factor=0.7, mode="nearest-exact")
F.interpolate({f}, size=(5, 3), mode="bilinear")
F.interpolate({f}, scale_factor=(1.5, 2.0), mode="bilinear", align_corners=True)
F.interpolate({f}, size=(7, 5), mode="bicubic")
F.interpolate({f}, scale_factor=0.6, mode="bilinear", antialias=True)
F.interpolate({f}, scale_factor=2, mode="area")
F.unfold({f}, 2, padding=1, stride=2)
F.fold({f}.flatten(1)[:, : {f}.flatten(1).shape[1] // 4 * 4].reshape(1, 4, -1)[..., :4], (3, 3), 2)
F.grid_sample({f}, torch.linspace(-1.2, 1.2, 12, dtype={f}.dtype).reshape(1, 2, 3, 2).expand({f}.shape[0], 2, 3, 2), align_corners=False)
F.affine_grid({f}[:2, :3].reshape(1, 2, 3), (1, 1, 3, 4), align_corners=True)
torch.fft.fft({f}).abs()
torch.fft.rfft({f}).real
torch.fft.irfft({z}).sum(-1)
torch.linalg.inv({f} @ {f}.mT + 3 * torch.eye({f}.shape[-2], dtype={f}.dtype))
torch.linalg.det({f} @ {f}.mT + torch.eye({f}.shape[-2], dtype={f}.dtype))
torch.linalg.cholesky({f} @ {f}.mT + 2 * torch.eye({f}.shape[-2], dtype={f}.dtype))
torch.linalg.solve({f} @ {f}.mT + 3 * torch.eye({f}.shape[-2], dtype={f}.dtype), {f})
torch.linalg.matrix_power({f}, 2)
torch.linalg.det(({f} + 3 * torch.eye({f}.shape[-2], dtype={f}.dtype)).mT)
torch.linalg.slogdet({f}.mT + 3 * torch.eye({f}.shape[-1], dtype={f}.dtype))[1]
torch.linalg.solve(({f} + 3 * torch.eye({f}.shape[-2], dtype={f}.dtype)).mT, {f1})
"""

WRITES = """
{x}.add_({k})
{n}.mul_({k})
{f}.sub_({f1})
{f}.mul_({f1})
{x}.copy_({x1})
{f}[0] = {s}
{x}[1:] = {x1}[:-1]
{x}[..., 0] = {k}
{x}[..., ::2] = {x1}[..., 1::2]
{n}[{b}] = {k}
{x}[torch.tensor([0, -1])] = {k}
{n}[torch.tensor([0, 0])] += {n1}[0]
{f}.clamp_(-1, 1)
{f}.tanh_()
{f}.zero_()
{x}.t_()
{x}.unsqueeze_(0)
{x}.squeeze_()
{x}.transpose_(0, -1)
{f}.masked_fill_({b}, {s})
{x}.fill_diagonal_({k})
{f}.lerp_({f1}, 0.5)
{f}.addcmul_({f1}, {f2}, value=0.5)
{f}.diagonal().add_(1)
{f}.view(-1)[::3].mul_(2)
{f}.index_add_(0, torch.tensor([0, 0]), {f1}[:2])
{f}.scatter_(-1, {f}.argsort(dim=-1, stable=True), {f1})
{f}.cumsum_({d})
{f}.select(0, 0).copy_({f1}.select(0, -1))
{x}.flip(0).copy_({x1})
{f} += {f1}
{n} *= {k}
{i} |= {i1}
{b} &= {b1}
{b} ^= {b1}
{b}.logical_not_()
{b}[..., 0] = True
{b}[1:] = {b1}[:-1]
{b}.copy_({x})
{i}.copy_({f})
{i} <<= 1
{i} //= 2
{i} %= 3
{i}[..., ::2] -= {k}
{i}.flatten(0)[::2].add_(1)
{i}.scatter_(-1, torch.zeros_like({i}, dtype=torch.int64), {k})
{i}.index_add_(0, torch.tensor([0, 0]), {i1}[:2])
{i}.clamp_(-2, 3)
{n} += {b}
{n} += {n1}
{f} /= {f1}.abs() + 1
{f}.div_({f1}.abs() + 0.5)
{f}.mul_({i})
{f}.t()[0].mul_(2)
{f}.t().copy_({f1})
{f}[0].copy_({i})
{f}[:, 1:].sub_({f1}[:, :-1])
{f}[:, 0] += {f1}[:, -1]
{f}[0, ...].exp_().neg_()
{f}[..., None][..., 0].add_({f1})
{f}.narrow(-1, 0, 2).fill_({s})
{f}.chunk(2, {d})[0].add_(1)
{f}.unbind(0)[-1].mul_({s})
{f}.split(2, -1)[0].copy_({f1}.split(2, -1)[0])
{f}.unfold(0, 2, 2).add_(1)
{f}.detach().mul_(2)
{f}.data.add_(1)
{f}.view(-1)[1:].copy_({f1}.reshape(-1)[:-1])
{f}.view(2, -1)[1].zero_()
{f}.movedim(0, -1)[..., 0].sigmoid_()
{f}.expand_as({f}).sub_(1)
{f}.squeeze().unsqueeze(0).add_({s})
{f}.diagonal(0, 0, -1).copy_({f1}.diagonal(0, 0, -1))
{f}.diagonal().fill_({s})
{f}.as_strided(({f}.shape[0],), (1,), 1).mul_(-1)
{f}.index_put_((torch.tensor([0, -1]),), {f1}[:2], accumulate=True)
{f}.index_put_(({b},), torch.tensor(0.5, dtype={f}.dtype))
{f}.index_fill_({d}, torch.tensor([0]), {s})
{f}.index_copy_(0, torch.tensor([1, 0]), {f1}[:2])
{f}.masked_scatter_({b}, {f1})
{f}.scatter_add_(-1, torch.zeros_like({f}, dtype=torch.int64), {f1})
{f}.scatter_reduce_(0, torch.zeros_like({f}, dtype=torch.int64), {f1}, "amax")
{f}[{f} > 0] = {s}
{f}[{f} > 0] *= 2
{f}[{b}] = {f1}[{b}]
{f}[torch.arange(2), 0] += 1
{f}[..., torch.tensor([1, 0])] = {f1}[..., :2]
{f}.triu_()
{f}.pow_(2)
{f}.relu_()
F.relu({f}, inplace=True)
F.leaky_relu_({f}, 0.1)
F.elu({f}, inplace=True)
F.hardtanh_({f}, -0.5, 0.5)
{f}.where({b}, {f1}).add_(1)
torch.add({f}, {f1}, out={f2})
torch.mul({f}, 2, out={f1})
torch.where({b}, {f}, {f1}, out={f2})
torch.cumsum({f}, 0, out={f1})
{z}.mul_(1j)
{z} += {f}
{z}[0] = 1 + 2j
{z}.real.add_(1)
{z}.imag.mul_({s})
torch.view_as_real({z})[..., 0].mul_(2)
torch.view_as_real({z}).neg_()
{z}.conj().copy_({z1})
{f}.swapaxes_(0, -1)
{f}.addmm_({f1}, {f2})
{f}.addcdiv_({f1}, {f2}.abs() + 1)
{f}.copy_({f}.flip(0))
{f}[1:] += {f}[:-1]
{f}[:-1].copy_({f}[1:].clone())
{f}.sub_({f}.mean())
{f}.div_({f}.abs().max() + 1)
"""

RANDOM = """
F.dropout({f}, 0.5)
F.dropout({f}, 0.25) * {f1}
torch.rand_like({f})
torch.randn({f}.shape[0], 3)
torch.bernoulli({f}.sigmoid())
torch.randint(0, 5, ({x}.shape[0], 2))
torch.randperm({x}.shape[0])
torch.empty_like({f}).uniform_(-1, 1)
torch.empty_like({f}).normal_(0.5, 2.0)
torch.multinomial({f}.softmax(-1), 2)
F.alpha_dropout({f}, 0.3, training=True)
torch.normal({f}, {f1}.abs())
torch.empty_like({f}).exponential_()
F.dropout({f}, 0.3).relu() * 2
F.dropout({f}.softmax(-1), 0.1) @ {f1}
F.dropout2d({f}, 0.4)
F.feature_alpha_dropout({f}, 0.4, training=True)
F.rrelu({f}, training=True)
F.gumbel_softmax({f}, dim={d})
F.gumbel_softmax({f}, hard=True)
F.scaled_dot_product_attention({f}, {f1}, {f1}, dropout_p=0.3)
torch.rand(3, 4) + {x}
torch.randn_like({f}) * {f1}
torch.randint_like({f}, 0, 9)
torch.rand({x}.shape[0]) < 0.5
torch.bernoulli({f}, 0.3)
torch.poisson({f}.abs())
torch.empty_like({x}).random_(0, 7)
torch.empty_like({f}).bernoulli_(0.6)
torch.empty_like({f}).log_normal_()
torch.rand(()) * {f}
{x}[torch.randperm({x}.shape[0])]
torch.where(torch.rand_like({f}) < 0.5, {f}, 0)
torch.nn.init.xavier_uniform_(torch.empty(3, 4)) * {s}
"""

# "EXPRESSION in CONTEXT" is evaluated in a with statement.
CONTROL = """
torch.cond({f}.sum() > 0, lambda a: a + 1, lambda a: a.sin(), ({f1},))
torch.cond({b}.any(), lambda a, b: a * b, lambda a, b: b - a, ({f}, {f1}))
torch.cond({x}.shape[0] > 3, lambda a: a * 2, lambda a: a - 1, ({n},))
torch.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 0.5 + 1), (torch.tensor(0), {f})) -> 2
torch.while_loop(lambda i, a: (i < 5) & (a.sum() < 50), lambda i, a: (i + 1, a + a.abs()), (torch.tensor(0), {f})) -> 2
torch.vmap(lambda a: a.sum() + a)({n})
torch.vmap(lambda a, b: torch.where(a > b, a, b * 2))({f}, {f1})
torch.vmap(lambda a: a.sort()[0])({f})
torch.vmap(lambda a: a.softmax(0).cumsum(0), in_dims=-1, out_dims=-1)({f})
torch.func.grad(lambda a: (a.sin() * a).sum())({f})
torch.func.grad(lambda a: a.softmax(-1).square().sum())({f})
torch.func.jvp(lambda a: a.tanh() * a, ({f},), ({f},)) -> 2
torch.func.jacrev(lambda a: a.sin().sum(0))({f})
torch.func.vmap(torch.func.grad(lambda a: a.logsumexp(0)))({f})
torch.func.hessian(lambda a: (a ** 3).sum())({f}.flatten()[:3])
{f} @ {f1} in torch.autocast("cpu", torch.bfloat16)
{f} @ {f1}.mT in torch.autocast("cpu", torch.float16)
F.linear({f}, {f1}).softmax(-1) in torch.autocast("cpu", torch.bfloat16)
{f} * 2 in torch.no_grad()
{f}.sin() in torch.no_grad()
{f}.detach() + {f1}
sum({x}.unbind(0))
torch.stack([row * 2 for row in {n}.unbind(0)])
torch.cat([{x}[k : k + 1] for k in range({x}.shape[0])])
{f} * (2 if {f}.shape[0] > 3 else 3)
{x}[: {x}.shape[0] // 2]
{x}[{x1}.shape[0] - 2 :]
{x}[..., -min(2, {x}.shape[-1]) :]
{x}.reshape({x}.shape[0] * {x}.shape[1], -1)
{f} * max({f1}.shape) - {f1}.dim()
{f} / {f1}.shape[0] ** 0.5
{x}.new_zeros({x}.shape[0] + 1, {x1}.shape[-1])
torch.full(({x}.shape[0],), {x}.shape[-1] / 2)
torch.zeros({x}.shape[0], {x1}.shape[-1]) + {x1}
torch.where(torch.arange({x}.shape[-1]) < {x}.shape[-1] // 2, {x}, 0)
torch.ones({x}.shape[-1], {x}.shape[-1], dtype=torch.bool).tril()
F.pad({n}, (0, {n1}.shape[0]))
F.pad({n}, (0, 0, {n1}.shape[0] - 2, 1))
{x}.unfold(-1, 2, 1).flatten(-2)
{x}.as_strided(({x}.shape[0], 2), (1, 1))
{x}.view(torch.int32)
{x}.view_as({x}.reshape({x}.shape))
torch.fake_quantize_per_tensor_affine({f}, 0.1, 3, 0, 255)
torch.fake_quantize_per_channel_affine({f}, torch.full(({f}.shape[0],), 0.2), torch.zeros({f}.shape[0], dtype=torch.int32), 0, -8, 7)
{f}.mul(16).round().clamp(-128, 127).to(torch.int8).to(torch.float32) / 16
torch.nn.utils.rnn.pad_sequence([{f}, {f1}], batch_first=True)
torch.cond({f}.sum() > 0, lambda a: torch.cond(a.mean() > 1, lambda b: b + 1, lambda b: b * 2, (a,)), lambda a: a.cos(), ({f1},))
torch.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, torch.cond(a.sum() > 0, lambda b: b - 1, lambda b: b + 1, (a,))), (torch.tensor(0), {f})) -> 2
torch.cond({b}.all(), lambda a, b: (a @ b).sum(-1), lambda a, b: (a @ b).amax(-1), ({f}, {f1}))
torch.vmap(torch.vmap(lambda a: a.cumsum(0)))({f})
torch.vmap(lambda a, b: a @ b, in_dims=(0, None))({f}, {f1})
torch.vmap(lambda a, i: a[i % a.shape[0]], in_dims=(0, None))({f}, {i}.abs().flatten()[:2])
torch.vmap(lambda a: F.layer_norm(a, a.shape[-1:]))({f})
torch.vmap(lambda a: torch.where(a > 0, a, 0).sum(-1))({n})
torch.func.vjp(lambda a: a.sin() * a, {f})[1]({f})[0]
torch.func.jacfwd(lambda a: a.cumsum(0))({f}.flatten()[:3])
torch.func.linearize(lambda a: a.exp(), {f})[1]({f})
torch.utils.checkpoint.checkpoint(lambda a: a.sin().tanh(), {f}, use_reentrant=False)
F.linear(F.layer_norm({f}, {f}.shape[-1:]), {f1}) in torch.autocast("cpu", torch.bfloat16)
({f} @ {f1}).sum(-1) + {f2} in torch.autocast("cpu", torch.bfloat16)
torch.cat([{f} @ {f1}, {f2}]) in torch.autocast("cpu", torch.bfloat16)
F.mse_loss({f} @ {f1}, {f2}) in torch.autocast("cpu", torch.bfloat16)
F.scaled_dot_product_attention({f}, {f1}, {f1}) in torch.autocast("cpu", torch.bfloat16)
F.conv2d({f}, torch.ones(2, {f}.shape[1], 3, 3), padding=1) in torch.autocast("cpu", torch.bfloat16)
{f} @ {f1} in torch.autocast("cpu", enabled=False)
torch.addmm({f}, {f1}, {f2}) in torch.autocast("cpu", torch.float16)
{f} @ {f1} in torch.no_grad()
{f}.detach().sin() * {f}
{f} + {f}.data
sum([{n}, {n1}, {n}])
[{f} * k for k in range(3)][{f}.dim() % 3]
dict(a={f} * 2, b={f1})["a"]
{f}.max(-1).values + {f}.argmax(-1)
(lambda a, b=2: a * b)({n})
torch.stack([{f}.select(0, k) * k for k in range({f}.shape[0])])
{x}.unflatten(0, (-1, 1)).flatten(0, 1)
torch.broadcast_to({x}, (2, *{x}.shape)).sum(0)
torch.max({n}, {n1}) - torch.min({n}, {n1})
{x}.shape[0] * {x}
{f} * math.sqrt({f}.shape[-1])
{x}.view(-1, *{x}.shape[1:])[{x}.shape[0] // 2]
{x}.narrow(0, {x}.shape[0] - 1, 1)
{x}.reshape(-1)[: {x}.numel() // 2 * 2].view(-1, 2)
{x}.reshape(-1)[: {x}.shape[0] * 2].view({x}.shape[0], 2)
{f}.view({f}.shape[0], -1).mean(1)
torch.cat([{x}, {x}.new_zeros({x}.shape[0], *{x}.shape[1:])]).roll({x}.shape[0], 0)
"""
