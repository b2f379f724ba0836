"""Jobs of the suite: families of convolutional nets beside those of suite_vision.py."""

from __future__ import annotations

import torch
from jobs import Job
from suite_vision import Excite, conv, images
from torch import nn
from torch.nn import functional


def head(width: int, classes: int = 1000) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


class Bottleneck(nn.Module):
    """1x1, grouped 3x3, 1x1: the block of ResNeXt and, with an Excite, of RegNet."""

    def __init__(
        self, inner: int, narrow: int, outer: int, step: int, groups: int, excite: bool
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv(inner, narrow, 1), conv(narrow, narrow, 3, step, groups)]
        layers += [Excite(narrow)] if excite else []
        self.layers = nn.Sequential(*layers, conv(narrow, outer, 1, act="none"))
        same = step == 1 and inner == outer
        self.short = nn.Identity() if same else conv(inner, outer, 1, step, act="none")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.layers(x) + self.short(x))


def regnet_y() -> Job:
    layers: list[nn.Module] = [conv(3, 32, 3, 2)]
    width = 32
    for outer, count in ((48, 1), (96, 3), (192, 5), (432, 3)):
        for k in range(count):
            layers.append(
                Bottleneck(width, outer, outer, 2 if k == 0 else 1, outer // 24 or 1, True)
            )
            width = outer
    return nn.Sequential(*layers, *head(432)).eval(), images(1, 224), {}


def resnext() -> Job:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for k, narrow in enumerate((128, 256, 512)):
        for i in range(2):
            step = 2 if i == 0 and k > 0 else 1
            layers.append(Bottleneck(width, narrow, 2 * narrow, step, 32, False))
            width = 2 * narrow
    return nn.Sequential(*layers, *head(1024)).eval(), images(1, 224), {}


def cifar_net(batch: int) -> Job:
    from suite_vision import Residual

    layers: list[nn.Module] = [conv(3, 16)]
    width = 16
    for outer in (16, 32, 64):
        for k in range(3):
            layers.append(Residual(width, outer, 2 if k == 0 and outer > 16 else 1))
            width = outer
    return nn.Sequential(*layers, *head(64, 10)).eval(), images(batch, 32), {}


def cifar_b1() -> Job:
    return cifar_net(1)


def cifar_b32() -> Job:
    return cifar_net(32)


def lenet_b16() -> Job:
    net = nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)),
    )
    return net.eval(), images(16, 28, 1), {}


class Inception(nn.Module):
    """Branches of 1x1, factored 7x7, double 3x3 and pooling."""

    def __init__(self, width: int, narrow: int) -> None:
        super().__init__()

        def part(inner: int, outer: int, size: tuple[int, int]) -> nn.Sequential:
            pad = (size[0] // 2, size[1] // 2)
            layer = nn.Conv2d(inner, outer, size, padding=pad, bias=False)
            return nn.Sequential(layer, nn.BatchNorm2d(outer), nn.ReLU())

        quarter = width // 4
        self.one = part(width, quarter, (1, 1))
        self.seven = nn.Sequential(
            part(width, narrow, (1, 1)), part(narrow, narrow, (1, 7)), part(narrow, quarter, (7, 1))
        )
        self.three = nn.Sequential(
            part(width, narrow, (1, 1)),
            part(narrow, quarter, (3, 3)),
            part(quarter, quarter, (3, 3)),
        )
        self.pool = nn.Sequential(nn.AvgPool2d(3, 1, 1), part(width, quarter, (1, 1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(x), self.seven(x), self.three(x), self.pool(x)], 1)


def inception() -> Job:
    layers: list[nn.Module] = [conv(3, 32, 3, 2), conv(32, 64), nn.MaxPool2d(3, 2)]
    layers += [conv(64, 192), nn.MaxPool2d(3, 2), *(Inception(192, 64) for _ in range(2))]
    layers += [conv(192, 384, 3, 2), *(Inception(384, 128) for _ in range(2))]
    return nn.Sequential(*layers, *head(384)).eval(), images(1, 224), {}


class Csp(nn.Module):
    """Two paths, one through bottlenecks: the block of YOLO."""

    def __init__(self, inner: int, outer: int, count: int) -> None:
        super().__init__()
        half = outer // 2
        self.one, self.two = conv(inner, half, 1, act="silu"), conv(inner, half, 1, act="silu")
        self.body = nn.ModuleList(
            nn.Sequential(conv(half, half, act="silu"), conv(half, half, act="silu"))
            for _ in range(count)
        )
        self.last = conv(2 * half, outer, 1, act="silu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.one(x)
        for layer in self.body:
            y = y + layer(y)
        return self.last(torch.cat([y, self.two(x)], 1))


class Yolo(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        w = [width * k for k in (1, 2, 4, 8, 16)]
        self.first = conv(3, w[0], 3, 2, act="silu")
        self.stages = nn.ModuleList(
            nn.Sequential(conv(a, b, 3, 2, act="silu"), Csp(b, b, n))
            for a, b, n in zip(w, w[1:], (1, 2, 2, 1))
        )
        self.squeeze = conv(w[4], w[3], 1, act="silu")
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.spread = conv(4 * w[3], w[4], 1, act="silu")
        self.up = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.high, self.middle = Csp(w[4] + w[3], w[3], 1), Csp(w[3] + w[2], w[2], 1)
        self.heads = nn.ModuleList(
            nn.Sequential(conv(k, 64, act="silu"), nn.Conv2d(64, 85, 1)) for k in (w[2], w[3], w[4])
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        maps = [x := self.first(x)]
        for stage in self.stages:
            maps.append(x := stage(x))
        pooled = [self.squeeze(x)]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        low = self.spread(torch.cat(pooled, 1))
        middle = self.high(torch.cat([self.up(low), maps[3]], 1))
        top = self.middle(torch.cat([self.up(middle), maps[2]], 1))
        return tuple(h(m).flatten(2) for h, m in zip(self.heads, (top, middle, low)))


def yolo() -> Job:
    return Yolo().eval(), images(1, 320), {}


def gan_generator_b8() -> Job:
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 512, 4, 1, 0, bias=False)]
    width = 512
    for outer in (256, 128, 64):
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.ConvTranspose2d(width, outer, 4, 2, 1, bias=False)]
        width = outer
    layers += [nn.BatchNorm2d(64), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()]
    return nn.Sequential(*layers).eval(), [(torch.randn(8, 100, 1, 1),)], {}


def gan_discriminator_b8() -> Job:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2)]
    for width in (64, 128, 256):
        layers += [nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width)]
        layers += [nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(512, 1, 4)).eval(), images(8, 64), {}


class Style(nn.Module):
    """Convolutions with reflected borders and instance norms: style transfer."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()

        def part(inner: int, outer: int, size: int, step: int = 1) -> nn.Sequential:
            layer = nn.Conv2d(inner, outer, size, step)
            pad = nn.ReflectionPad2d(size // 2)
            return nn.Sequential(pad, layer, nn.InstanceNorm2d(outer, affine=True))

        self.down = nn.Sequential(
            *(part(3, width, 9), nn.ReLU(), part(width, 2 * width, 3, 2), nn.ReLU()),
            *(part(2 * width, 4 * width, 3, 2), nn.ReLU()),
        )
        self.body = nn.ModuleList(
            nn.Sequential(part(4 * width, 4 * width, 3), nn.ReLU(), part(4 * width, 4 * width, 3))
            for _ in range(2)
        )
        up: list[nn.Module] = []
        for k in (4, 2):
            up += [nn.ConvTranspose2d(k * width, k * width // 2, 3, 2, 1, 1), nn.ReLU()]
        self.up = nn.Sequential(*up, nn.ReflectionPad2d(4), nn.Conv2d(width, 3, 9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        for layer in self.body:
            x = x + layer(x)
        return self.up(x)


def style_transfer() -> Job:
    return Style().eval(), images(1, 128), {}


def super_resolution() -> Job:
    layers: list[nn.Module] = [nn.Conv2d(1, 64, 5, padding=2), nn.ReLU()]
    layers += [nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 32, 3, padding=1)]
    layers += [nn.ReLU(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)]
    return nn.Sequential(*layers).eval(), images(1, 128, 1), {}


class AudioBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, 3, dilation=d, padding=d) for d in (1, 3, 5)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(functional.leaky_relu(x, 0.1))
        return x


def vocoder() -> Job:
    """Mel frames to samples by transposed convolutions: HiFi-GAN."""
    layers: list[nn.Module] = [nn.Conv1d(80, 128, 7, padding=3)]
    width = 128
    for rate, size in ((8, 16), (8, 16), (2, 4), (2, 4)):
        layers += [nn.LeakyReLU(0.1)]
        layers += [nn.ConvTranspose1d(width, width // 2, size, rate, (size - rate) // 2)]
        width //= 2
        layers.append(AudioBlock(width))
    layers += [nn.LeakyReLU(0.1), nn.Conv1d(width, 1, 7, padding=3), nn.Tanh()]
    return nn.Sequential(*layers).eval(), [(torch.randn(1, 80, 50),)], {}


def audio_encoder() -> Job:
    """Samples to frames by convolutions with large steps."""
    layers: list[nn.Module] = [nn.Conv1d(1, 32, 7, padding=3)]
    width = 32
    for rate in (2, 4, 5, 8):
        layers += [AudioBlock(width), nn.ELU()]
        layers += [nn.Conv1d(width, 2 * width, 2 * rate, rate, rate // 2)]
        width *= 2
    layers += [nn.ELU(), nn.Conv1d(width, 128, 7, padding=3)]
    return nn.Sequential(*layers).eval(), [(torch.randn(1, 1, 8000),)], {}


def keyword_b4() -> Job:
    """Depthwise separable convolutions over time: QuartzNet."""
    layers: list[nn.Module] = [nn.Conv1d(64, 128, 11, 2, 5), nn.BatchNorm1d(128), nn.ReLU()]
    for size in (13, 15, 17, 19):
        layers += [nn.Conv1d(128, 128, size, padding=size // 2, groups=128), nn.Conv1d(128, 128, 1)]
        layers += [nn.BatchNorm1d(128), nn.ReLU()]
    layers += [nn.Conv1d(128, 30, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten()]
    return nn.Sequential(*layers).eval(), [(torch.randn(4, 64, 200),)], {}


class Residual3d(nn.Module):
    def __init__(self, inner: int, outer: int, step: int) -> None:
        super().__init__()
        self.one = nn.Conv3d(inner, outer, 3, step, 1, bias=False)
        self.two = nn.Conv3d(outer, outer, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm3d(outer), nn.BatchNorm3d(outer)
        same = step == 1 and inner == outer
        self.short = nn.Identity() if same else nn.Conv3d(inner, outer, 1, step)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.two(functional.relu(self.norm1(self.one(x)))))
        return functional.relu(y + self.short(x))


def video_net() -> Job:
    layers: list[nn.Module] = [nn.Conv3d(3, 32, (3, 7, 7), (1, 2, 2), (1, 3, 3)), nn.ReLU()]
    layers += [Residual3d(32, 32, 1), Residual3d(32, 64, 2), Residual3d(64, 128, 2)]
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, 400)]
    return nn.Sequential(*layers).eval(), [(torch.randn(1, 3, 8, 64, 64),)], {}


class Unet3d(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.one, self.two = Residual3d(1, width, 1), Residual3d(width, 2 * width, 1)
        self.up = nn.ConvTranspose3d(2 * width, width, 2, 2)
        self.merge, self.last = Residual3d(2 * width, width, 1), nn.Conv3d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = self.one(x)
        low = self.two(functional.max_pool3d(top, 2))
        return self.last(self.merge(torch.cat([top, self.up(low)], 1)))


def volumes() -> Job:
    return Unet3d().eval(), [(torch.randn(1, 1, 16, 32, 32),)], {}


class Ghost(nn.Module):
    """Half of the channels by a depthwise convolution of the others."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.main = conv(inner, outer // 2, 1)
        self.cheap = conv(outer // 2, outer // 2, 3, 1, outer // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.main(x)
        return torch.cat([y, self.cheap(y)], 1)


def ghostnet() -> Job:
    layers: list[nn.Module] = [conv(3, 16, 3, 2)]
    width = 16
    for outer, step in ((16, 1), (24, 2), (40, 2), (80, 2), (112, 1), (160, 2), (160, 1)):
        layers.append(Ghost(width, 4 * outer))
        if step == 2:
            layers.append(conv(4 * outer, 4 * outer, 5, 2, 4 * outer, "none"))
        layers += [Excite(4 * outer), Ghost(4 * outer, outer)]
        width = outer
    return nn.Sequential(*layers, *head(width)).eval(), images(1, 224), {}


def mobilenet_v1_b8() -> Job:
    layers: list[nn.Module] = [conv(3, 16, 3, 2)]
    width = 16
    for outer, step in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        layers += [conv(width, width, 3, step, width), conv(width, outer, 1)]
        width = outer
    return nn.Sequential(*layers, *head(width)).eval(), images(8, 128), {}


def mixer_large_kernels() -> Job:
    """Depthwise convolutions of large kernels and 1x1: ConvMixer."""
    layers: list[nn.Module] = [nn.Conv2d(3, 128, 7, 7), nn.GELU(), nn.BatchNorm2d(128)]
    for _ in range(4):
        layers += [nn.Conv2d(128, 128, 9, padding=4, groups=128), nn.GELU(), nn.BatchNorm2d(128)]
        layers += [nn.Conv2d(128, 128, 1), nn.GELU(), nn.BatchNorm2d(128)]
    return nn.Sequential(*layers, *head(128)).eval(), images(2, 224), {}


def fast_segmentation() -> Job:
    """Dilated depthwise convolutions and resampling: a mobile segmentation net."""
    layers: list[nn.Module] = [conv(3, 16, 3, 2), conv(16, 32, 3, 2, act="hardswish")]
    for rate in (1, 2, 4):
        layers += [
            conv(32, 128, 1),
            nn.Conv2d(128, 128, 3, padding=rate, dilation=rate, groups=128),
        ]
        layers += [nn.ReLU(), conv(128, 32, 1, act="none")]
    layers += [nn.Conv2d(32, 19, 1), nn.Upsample(scale_factor=4.0, mode="bilinear")]
    return nn.Sequential(*layers).eval(), images(1, 256), {}


CONVOLUTIONS = (
    *(regnet_y, resnext, cifar_b1, cifar_b32, lenet_b16, inception, yolo, gan_generator_b8),
    *(gan_discriminator_b8, style_transfer, super_resolution, vocoder, audio_encoder, keyword_b4),
    *(video_net, volumes, ghostnet, mobilenet_v1_b8, mixer_large_kernels, fast_segmentation),
)
