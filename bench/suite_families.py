"""Jobs of the suite: families of models that suite_vision.py, suite_convolutions.py,
suite_sequences.py and suite_models.py lack."""

from __future__ import annotations

import torch
from jobs import Block, Job
from suite_convolutions import head
from suite_sequences import Encoder, ids
from suite_vision import Inverted, conv, images
from torch import nn
from torch.nn import functional


class Fusion(nn.Module):
    """Branches of several resolutions, each of which receives the sum of all others: HRNet."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(nn.Sequential(conv(w, w), conv(w, w)) for w in widths)
        self.down, self.up = nn.ModuleDict(), nn.ModuleDict()
        for i, a in enumerate(widths):
            for k, b in enumerate(widths):
                if i < k:
                    steps = [conv(a, a, 3, 2) for _ in range(k - i - 1)]
                    self.down[f"{i}{k}"] = nn.Sequential(*steps, conv(a, b, 3, 2, act="none"))
                elif i > k:
                    self.up[f"{i}{k}"] = conv(a, b, 1, act="none")

    def forward(self, *maps: torch.Tensor) -> tuple[torch.Tensor, ...]:
        maps = tuple(body(x) for body, x in zip(self.bodies, maps))
        results = []
        for k, total in enumerate(maps):
            for i, x in enumerate(maps):
                if i < k:
                    total = total + self.down[f"{i}{k}"](x)
                elif i > k:
                    raised = functional.interpolate(
                        self.up[f"{i}{k}"](x),
                        size=total.shape[-2:],
                        mode="bilinear",
                        align_corners=True,
                    )
                    total = total + raised
            results.append(functional.relu(total))
        return tuple(results)


class HighResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(conv(3, 32, 3, 2), conv(32, 32, 3, 2))
        self.starts = nn.ModuleList([conv(32, 16), conv(16, 32, 3, 2), conv(32, 64, 3, 2)])
        self.one, self.two, self.last = Fusion(), Fusion(), nn.Conv2d(16, 17, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        maps = []
        for start in self.starts:
            maps.append(x := start(x))
        return self.last(self.two(*self.one(*maps))[0])


def high_resolution() -> Job:
    return HighResolution().eval(), images(1, 192), {}


class ManyPaths(nn.Module):
    """3x3, 1x1 and identity, each with its own batch norm, summed: RepVGG before it is merged."""

    def __init__(self, inner: int, outer: int, step: int) -> None:
        super().__init__()
        self.three = conv(inner, outer, 3, step, act="none")
        self.one = conv(inner, outer, 1, step, act="none")
        self.same = nn.BatchNorm2d(inner) if inner == outer and step == 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.three(x) + self.one(x)
        return functional.relu(y if self.same is None else y + self.same(x))


def many_paths_b4() -> Job:
    layers: list[nn.Module] = [ManyPaths(3, 48, 2)]
    width = 48
    for outer, count in ((48, 2), (96, 3), (192, 3)):
        for k in range(count):
            layers.append(ManyPaths(width, outer, 2 if k == 0 else 1))
            width = outer
    return nn.Sequential(*layers, *head(192)).eval(), images(4, 128), {}


class PixelBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.1 * self.two(functional.relu(self.one(x)))


def pixel_shuffle_x4() -> Job:
    """Super resolution of colour images: residual blocks, then two pixel shuffles: EDSR."""
    layers: list[nn.Module] = [nn.Conv2d(3, 48, 3, padding=1)]
    layers += [PixelBlock(48) for _ in range(4)]
    for _ in range(2):
        layers += [nn.Conv2d(48, 192, 3, padding=1), nn.PixelShuffle(2)]
    return nn.Sequential(*layers, nn.Conv2d(48, 3, 3, padding=1)).eval(), images(1, 48), {}


class NormBlock(nn.Module):
    """GroupNorm, SiLU, convolution, twice, with a shortcut of another width."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(16, inner), nn.GroupNorm(16, outer)
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.short = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x)))
        return self.short(x) + self.conv2(functional.silu(self.norm2(y)))


def latent_decoder() -> Job:
    """The decoder of an image autoencoder: Stable Diffusion's, narrower."""
    layers: list[nn.Module] = [nn.Conv2d(4, 128, 3, padding=1), NormBlock(128, 128)]
    width = 128
    for outer in (128, 64, 32):
        layers += [NormBlock(width, outer), nn.Upsample(scale_factor=2.0)]
        layers.append(nn.Conv2d(outer, outer, 3, padding=1))
        width = outer
    layers += [nn.GroupNorm(16, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)]
    return nn.Sequential(*layers).eval(), [(torch.randn(1, 4, 24, 24),)], {}


class Windows(nn.Module):
    """Attention inside windows, which every second layer moves by half a window: Swin."""

    def __init__(self, width: int, heads: int, side: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.bias = nn.Parameter(torch.randn(heads, window**2, window**2) * 0.02)
        at = torch.arange(side) * 0
        if shift:
            at[-window:], at[-shift:] = 1, 2
        regions = self.cut((3 * at[:, None] + at)[None, :, :, None])[..., 0]
        self.mask = nn.Buffer((regions[:, None, :] != regions[:, :, None]) * -100.0)

    def cut(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        x = x.view(b, h // self.window, self.window, w // self.window, self.window, c)
        return x.transpose(2, 3).reshape(-1, self.window**2, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        parts = self.qkv(self.cut(y)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = parts[0] * parts[0].shape[-1] ** -0.5 @ parts[1].transpose(-1, -2) + self.bias
        scores = scores.unflatten(0, (b, -1)) + self.mask[:, None]
        y = self.out(
            (torch.softmax(scores.flatten(0, 1), -1) @ parts[2]).transpose(1, 2).flatten(2)
        )
        y = y.view(b, h // self.window, w // self.window, self.window, self.window, c)
        y = y.transpose(2, 3).reshape(b, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Merge(nn.Module):
    """Four neighbours become one position of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x[:, i::2, k::2] for k in (0, 1) for i in (0, 1)]
        return self.mix(self.norm(torch.cat(parts, -1)))


class Channels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1)


def shifted_windows() -> Job:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 4), Channels(), nn.LayerNorm(64)]
    layers += [Windows(64, 2, 28, 7, 0), Windows(64, 2, 28, 7, 3), Merge(64)]
    layers += [Windows(128, 4, 14, 7, 0), Windows(128, 4, 14, 7, 3)]
    return nn.Sequential(*layers).eval(), images(1, 112), {}


class MobileAttention(nn.Module):
    """Convolutions around attention over the pixels at the same place of all patches: MobileViT."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.first = nn.Sequential(conv(width, width, act="silu"), nn.Conv2d(width, inner, 1))
        self.body = Encoder(inner, 4, 2)
        self.back = conv(inner, width, 1, act="silu")
        self.last = conv(2 * width, width, act="silu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        b, c, h, w = y.shape
        y = y.view(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1).reshape(4 * b, -1, c)
        y = self.body(y).view(b, 2, 2, h // 2, w // 2, c).permute(0, 5, 3, 1, 4, 2)
        y = self.back(y.reshape(b, c, h, w))
        return self.last(torch.cat([x, y], 1))


def mobile_vit() -> Job:
    layers: list[nn.Module] = [conv(3, 16, 3, 2, act="silu")]
    layers += [Inverted(16, 32, 2, 4, 3, "silu", False), Inverted(32, 48, 2, 4, 3, "silu", False)]
    layers += [MobileAttention(48, 64), Inverted(48, 64, 2, 4, 3, "silu", False)]
    return nn.Sequential(*layers, MobileAttention(64, 80), *head(64)).eval(), images(1, 192), {}


class Temporal(nn.Module):
    """Causal dilated convolutions with a shortcut: TCN."""

    def __init__(self, inner: int, outer: int, rate: int) -> None:
        super().__init__()
        self.pad = 2 * rate
        self.one = nn.Conv1d(inner, outer, 3, dilation=rate)
        self.two = nn.Conv1d(outer, outer, 3, dilation=rate)
        self.short = nn.Conv1d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.one(functional.pad(x, (self.pad, 0))))
        y = functional.relu(self.two(functional.pad(y, (self.pad, 0))))
        return functional.relu(y + self.short(x))


def temporal_b16() -> Job:
    layers: list[nn.Module] = [Temporal(8, 32, 1)]
    layers += [Temporal(32, 32, 2**k) for k in range(1, 6)]
    return nn.Sequential(*layers, nn.Conv1d(32, 1, 1)).eval(), [(torch.randn(16, 8, 256),)], {}


class SpeechText(nn.Module):
    """Characters, convolutions with batch norms, a bidirectional LSTM, then a step-wise attention
    over its results: the encoder of Tacotron."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.words = nn.Embedding(80, width)
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += [nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.cells = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.query, self.memory = nn.Linear(width, 128), nn.Linear(width, 128)
        self.score = nn.Linear(128, 1)

    def forward(self, words: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.words(words).transpose(1, 2)).transpose(1, 2)
        x = self.cells(x)[0]
        scores = self.score(torch.tanh(self.query(query).unsqueeze(1) + self.memory(x)))
        return (torch.softmax(scores, 1) * x).sum(1)


def speech_text() -> Job:
    return SpeechText().eval(), [(ids(1, 80, words=80), torch.randn(1, 256))], {}


class Reader(nn.Module):
    """Convolutions over a line of text, a bidirectional GRU along it: CRNN."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv(1, 32), nn.MaxPool2d(2), conv(32, 64), nn.MaxPool2d(2)]
        layers += [conv(64, 128), nn.MaxPool2d((2, 1)), conv(128, 128), nn.MaxPool2d((4, 1))]
        self.layers = nn.Sequential(*layers)
        self.cells = nn.GRU(128, 96, 1, batch_first=True, bidirectional=True)
        self.last = nn.Linear(192, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x).squeeze(2).transpose(1, 2)
        return torch.log_softmax(self.last(self.cells(x)[0]), -1)


def text_reader_b2() -> Job:
    return Reader().eval(), [(torch.randn(2, 1, 32, 160),)], {}


class Perceiver(nn.Module):
    """A few latent rows read a long input, then attend to each other."""

    def __init__(self, width: int = 192, count: int = 64) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(count, width))
        self.norm, self.norm2 = nn.LayerNorm(64), nn.LayerNorm(width)
        self.q, self.kv, self.out = (
            nn.Linear(width, width),
            nn.Linear(64, 2 * width),
            nn.Linear(width, width),
        )
        self.body = Encoder(width, 6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        latents = self.latents.expand(x.shape[0], -1, -1)
        q = self.q(self.norm2(latents)).unflatten(-1, (1, -1)).transpose(1, 2)
        k, v = (p.unsqueeze(1) for p in self.kv(self.norm(x)).chunk(2, -1))
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.body(latents + self.out(y.squeeze(1)))


def perceiver() -> Job:
    return Perceiver().eval(), [(torch.randn(1, 3136, 64),)], {}


class Relative(nn.Module):
    """Attention whose scores have two more parts, gathered from products with relative positions:
    DeBERTa."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.places = nn.Parameter(torch.randn(heads, 2 * length, width // heads) * 0.1)
        at = torch.arange(length)
        self.far = nn.Buffer((at[:, None] - at[None, :] + length).clamp(0, 2 * length - 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        far = self.far.expand(x.shape[0], self.heads, -1, -1)
        scores = q @ k.transpose(-1, -2)
        scores = scores + torch.gather(q @ self.places.transpose(-1, -2), -1, far)
        back = torch.gather(k @ self.places.transpose(-1, -2), -1, far)
        scores = (scores + back.transpose(-1, -2)) * (3 * q.shape[-1]) ** -0.5
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)
        x = self.norm(x + self.out(y))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


def relative_attention() -> Job:
    model = nn.Sequential(*(Relative(256, 4, 128) for _ in range(3)))
    return model.eval(), [(torch.randn(1, 128, 256),)], {}


class GraphAttention(nn.Module):
    """Softmax over the edges of each node by scatters: GAT, after a mean over neighbours."""

    def __init__(self, inner: int, outer: int, heads: int) -> None:
        super().__init__()
        self.heads, self.mix = heads, nn.Linear(inner, heads * outer, bias=False)
        self.source, self.target = (
            nn.Parameter(torch.randn(heads, outer)),
            nn.Parameter(torch.randn(heads, outer)),
        )

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        nodes, (a, b) = x.shape[0], edges
        y = self.mix(x).unflatten(-1, (self.heads, -1))
        scores = (y * self.source).sum(-1)[a] + (y * self.target).sum(-1)[b]
        weights = torch.exp(functional.leaky_relu(scores, 0.2).clamp_max(20))
        total = torch.zeros(nodes, self.heads).index_add(0, b, weights)
        weights = weights / total[b]
        mixed = torch.zeros(nodes, *y.shape[1:]).index_add(0, b, y[a] * weights.unsqueeze(-1))
        return functional.elu(mixed.flatten(1))


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = GraphAttention(128, 16, 8), GraphAttention(128, 32, 2)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x, edges), edges)


def graph_attention() -> Job:
    return GraphNet().eval(), [(torch.randn(2000, 128), torch.randint(0, 2000, (2, 10_000)))], {}


class Points(nn.Module):
    """The same layers for each point, then a maximum over all: PointNet."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inner, outer in ((3, 64), (64, 128), (128, 512)):
            layers += [nn.Conv1d(inner, outer, 1), nn.BatchNorm1d(outer), nn.ReLU()]
        self.layers, self.last = nn.Sequential(*layers), nn.Linear(512, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x).amax(2))


def points_b8() -> Job:
    return Points().eval(), [(torch.randn(8, 3, 512),)], {}


class Radiance(nn.Module):
    """Sines and cosines of positions, then a wide network: NeRF."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(63, width), nn.Linear(width + 63, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.last = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        waves = x.unsqueeze(-1) * 2.0 ** torch.arange(10, device=x.device)
        code = torch.cat([x, torch.sin(waves).flatten(1), torch.cos(waves).flatten(1)], -1)
        y = functional.relu(self.first(code))
        for layer in self.body[:2]:
            y = functional.relu(layer(y))
        y = functional.relu(self.again(torch.cat([y, code], -1)))
        for layer in self.body[2:]:
            y = functional.relu(layer(y))
        return self.last(y)


def radiance_b4096() -> Job:
    return Radiance().eval(), [(torch.randn(4096, 3),)], {}


class LinearState(nn.Module):
    """One token through layers with states instead of a cache: RWKV."""

    def __init__(self, width: int = 512, layers: int = 4) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.parts = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4 * layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(layers))
        self.decay = nn.Parameter(torch.rand(layers, width))
        self.bonus = nn.Parameter(torch.rand(layers, width))
        self.share = nn.Parameter(torch.rand(layers, 3, width))

    def forward(self, x: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = []
        for i in range(len(self.up)):
            last, top, low = states[i].unbind(0)
            y = self.norms[2 * i](x)
            mixed = [y * s + last * (1 - s) for s in self.share[i]]
            k, v, r = (self.parts[4 * i + j](m) for j, m in enumerate(mixed))
            grown = torch.exp(self.bonus[i] + k)
            out = torch.sigmoid(r) * (top + grown * v) / (low + grown + 1e-6)
            faded, k = torch.exp(-self.decay[i]), torch.exp(k)
            kept.append(torch.stack([y, top * faded + k * v, low * faded + k]))
            x = x + self.parts[4 * i + 3](out)
            y = functional.relu(self.up[i](self.norms[2 * i + 1](x))).square()
            x = x + self.down[i](y)
        return x, torch.stack(kept)


def linear_state() -> Job:
    return LinearState().eval(), [(torch.randn(1, 512), torch.rand(4, 3, 1, 512))], {}


class Pooled(nn.Module):
    """Average pooling in the place of attention: PoolFormer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.GroupNorm(1, width), nn.GroupNorm(1, width)
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.up, self.down = nn.Conv2d(width, 4 * width, 1), nn.Conv2d(4 * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.pool(y) - y
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def pool_former_b2() -> Job:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 4, 2), Pooled(64), Pooled(64)]
    layers += [nn.Conv2d(64, 128, 3, 2, 1), Pooled(128), Pooled(128)]
    return nn.Sequential(*layers, *head(128)).eval(), images(2, 160), {}


def atari_b32() -> Job:
    """Few large filters with steps: the net of deep Q-learning."""
    layers: list[nn.Module] = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2)]
    layers += [nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()]
    layers += [nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)]
    return nn.Sequential(*layers).eval(), images(32, 84, 4), {}


class Tables(nn.Module):
    """A token for each column of a table: FT-Transformer."""

    def __init__(self, columns: int = 24, width: int = 64) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns, width))
        self.shift = nn.Parameter(torch.randn(columns, width))
        self.body = nn.Sequential(Block(width, 4), Block(width, 4))
        self.last = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x.unsqueeze(-1) * self.scale + self.shift).mean(1))


def tables_b64() -> Job:
    return Tables().eval(), [(torch.randn(64, 24),)], {}


FAMILIES = (
    *(high_resolution, many_paths_b4, pixel_shuffle_x4, latent_decoder, shifted_windows),
    *(mobile_vit, temporal_b16, speech_text, text_reader_b2, perceiver, relative_attention),
    *(graph_attention, points_b8, radiance_b4096, linear_state, pool_former_b2, atari_b32),
    tables_b64,
)
