"""Jobs of the suite over images: module, input tuples, keyword arguments of torch.compile."""

from __future__ import annotations

import torch
from jobs import Job
from torch import nn
from torch.nn import functional


def conv(
    inner: int, outer: int, size: int = 3, step: int = 1, groups: int = 1, act: str = "relu"
) -> nn.Sequential:
    """A convolution, batch norm and an activation."""
    acts: dict[str, type[nn.Module]] = {
        "relu": nn.ReLU,
        "relu6": nn.ReLU6,
        "silu": nn.SiLU,
        "hardswish": nn.Hardswish,
        "none": nn.Identity,
    }
    layer = nn.Conv2d(inner, outer, size, step, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outer), acts[act]())


class Excite(nn.Module):
    """Weights of channels from their means."""

    def __init__(self, width: int, ratio: int = 4) -> None:
        super().__init__()
        self.down, self.up = (
            nn.Conv2d(width, width // ratio, 1),
            nn.Conv2d(width // ratio, width, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = functional.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.up(functional.relu(self.down(means))))


class Inverted(nn.Module):
    """1x1, depthwise, 1x1: the block of MobileNet and EfficientNet."""

    def __init__(
        self, inner: int, outer: int, step: int, grow: int, size: int, act: str, excite: bool
    ) -> None:
        super().__init__()
        wide = inner * grow
        layers: list[nn.Module] = [conv(inner, wide, 1, act=act)] if grow > 1 else []
        layers.append(conv(wide, wide, size, step, wide, act))
        layers += [Excite(wide)] if excite else []
        self.layers = nn.Sequential(*layers, conv(wide, outer, 1, act="none"))
        self.skip = step == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.skip else self.layers(x)


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, step: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv(inner, outer, 3, step), conv(outer, outer, act="none"))
        same = step == 1 and inner == outer
        self.short = nn.Identity() if same else conv(inner, outer, 1, step, act="none")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.layers(x) + self.short(x))


def inverted_net(act: str, size: int, excite: bool, grow: int = 6) -> nn.Module:
    rows = [(16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 3), (96, 1, 2), (160, 2, 2), (320, 1, 1)]
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=act)]
    width = 32
    for i, (outer, step, count) in enumerate(rows):
        for k in range(count):
            layers.append(
                Inverted(width, outer, step if k == 0 else 1, grow if i else 1, size, act, excite)
            )
            width = outer
    layers += [conv(320, 1280, 1, act=act), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000)).eval()


def images(batch: int, side: int, channels: int = 3) -> list[tuple[torch.Tensor, ...]]:
    return [(torch.randn(batch, channels, side, side),)]


def mobilenet_v2() -> Job:
    return inverted_net("relu6", 3, False), images(1, 224), {}


def mobilenet_v3_b4() -> Job:
    return inverted_net("hardswish", 5, True, 4), images(4, 160), {}


def efficientnet() -> Job:
    return inverted_net("silu", 3, True), images(1, 224), {}


def residual_net(classes: int = 1000) -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for outer in (64, 128, 256, 512):
        layers += [Residual(width, outer, 1 if outer == 64 else 2), Residual(outer, outer, 1)]
        width = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def resnet18() -> Job:
    return residual_net().eval(), images(1, 224), {}


def resnet18_b8() -> Job:
    return residual_net().eval(), images(8, 128), {}


def vgg() -> Job:
    layers: list[nn.Module] = []
    width = 3
    for outer, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(width, outer, 3, padding=1), nn.ReLU()]
            width = outer
        layers.append(nn.MaxPool2d(2))
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*layers, *head).eval(), images(1, 224), {}


class Fire(nn.Module):
    def __init__(self, inner: int, narrow: int, wide: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inner, narrow, 1)
        self.one, self.three = nn.Conv2d(narrow, wide, 1), nn.Conv2d(narrow, wide, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.squeeze(x))
        return torch.cat([functional.relu(self.one(x)), functional.relu(self.three(x))], 1)


def squeezenet() -> Job:
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    layers = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool, Fire(64, 16, 64), Fire(128, 16, 64), pool]
    layers += [Fire(128, 32, 128), Fire(256, 32, 128), pool, Fire(256, 48, 192), Fire(384, 64, 256)]
    layers += [nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers).eval(), images(1, 224), {}


class Dense(nn.Module):
    """Each layer reads all results before it."""

    def __init__(self, width: int, grow: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for k in range(count):
            inner = width + k * grow
            norms = [nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, 4 * grow, 1, bias=False)]
            norms += [nn.BatchNorm2d(4 * grow), nn.ReLU()]
            self.layers.append(nn.Sequential(*norms, nn.Conv2d(4 * grow, grow, 3, padding=1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet() -> Job:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for count in (4, 6, 8):
        layers += [Dense(width, 32, count)]
        width += 32 * count
        layers += [conv(width, width // 2, 1), nn.AvgPool2d(2)]
        width //= 2
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)]
    return nn.Sequential(*layers, *head).eval(), images(1, 160), {}


class Shuffle(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        depthwise = conv(half, half, groups=half, act="none")
        self.layers = nn.Sequential(conv(half, half, 1), depthwise, conv(half, half, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, changed = x.chunk(2, 1)
        x = torch.cat([kept, self.layers(changed)], 1)
        return x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


def shufflenet_b8() -> Job:
    layers: list[nn.Module] = [conv(3, 24, 3, 2)]
    width = 24
    for outer, count in ((116, 3), (232, 5), (464, 3)):
        layers += [conv(width, outer, 3, 2)] + [Shuffle(outer) for _ in range(count)]
        width = outer
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)]
    return nn.Sequential(*layers, *head).eval(), images(8, 96), {}


class ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)


def convnext() -> Job:
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4)]
    for width, count in ((96, 2), (192, 2), (384, 4), (768, 2)):
        if width > 96:
            layers.append(nn.Conv2d(width // 2, width, 2, 2))
        layers += [ConvNextBlock(width) for _ in range(count)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(768, 1000)]
    return nn.Sequential(*layers, *head).eval(), images(1, 224), {}


class Unet(nn.Module):
    """Segmentation: down, up by transposed convolutions, skips between."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(
            nn.Sequential(conv(a, b), conv(b, b)) for a, b in zip([3, *sizes], sizes)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * s, s, 2, 2) for s in sizes[-2::-1])
        self.merge = nn.ModuleList(conv(2 * s, s) for s in sizes[-2::-1])
        self.last = nn.Conv2d(width, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(x if i == 0 else functional.max_pool2d(x, 2))
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([up(x), skip], 1))
        return self.last(x)


def unet_segmentation() -> Job:
    return Unet().eval(), images(1, 192), {}


class Dilated(nn.Module):
    """Parallel dilated convolutions over a small backbone, then resampling: DeepLab's head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 32, 3, 2), Residual(32, 64, 2), Residual(64, 128, 2))
        self.branches = nn.ModuleList(
            nn.Conv2d(128, 64, 3, padding=rate, dilation=rate) for rate in (1, 6, 12)
        )
        self.last = nn.Conv2d(192, 21, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        y = self.last(torch.cat([functional.relu(b(y)) for b in self.branches], 1))
        return functional.interpolate(y, x.shape[-2:], mode="bilinear", align_corners=False)


def deeplab() -> Job:
    return Dilated().eval(), images(1, 256), {}


class Detector(nn.Module):
    """A pyramid of features with shared heads for classes and boxes."""

    def __init__(self, act: str = "relu", width: int = 96) -> None:
        super().__init__()
        self.first = nn.Sequential(conv(3, 32, 3, 2, act=act), conv(32, 64, 3, 2, act=act))
        self.stages = nn.ModuleList(
            nn.Sequential(conv(a, b, 3, 2, act=act), conv(b, b, act=act))
            for a, b in ((64, 128), (128, 192), (192, 256))
        )
        self.sides = nn.ModuleList(nn.Conv2d(s, width, 1) for s in (128, 192, 256))
        self.tower = nn.Sequential(conv(width, width, act=act), conv(width, width, act=act))
        self.classes, self.boxes = nn.Conv2d(width, 80, 3, 1, 1), nn.Conv2d(width, 4, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        maps = []
        for stage, side in zip(self.stages, self.sides):
            x = stage(x)
            maps.append(side(x))
        for i in (1, 0):
            maps[i] = maps[i] + functional.interpolate(maps[i + 1], scale_factor=2.0)
        towers = [self.tower(m) for m in maps]
        scores = torch.cat([self.classes(t).flatten(2) for t in towers], 2)
        boxes = torch.cat([self.boxes(t).flatten(2) for t in towers], 2)
        return torch.sigmoid(scores), boxes


def detection_pyramid() -> Job:
    return Detector().eval(), images(1, 256), {}


def detection_silu_b2() -> Job:
    return Detector("silu", 64).eval(), images(2, 192), {}


class DiffusionBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(128, width)
        self.norm3 = nn.GroupNorm(8, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        x = x + self.conv2(functional.silu(self.norm2(y)))
        parts = self.qkv(self.norm3(x)).unflatten(1, (3, 4, -1)).flatten(4).unbind(1)
        q, k, v = (p.transpose(-1, -2) for p in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(-1, -2)
        return x + self.out(mixed.reshape(x.shape))


class Diffusion(nn.Module):
    """A U-Net with a time embedding, group norms and attention at each level."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.high, self.low = DiffusionBlock(width), DiffusionBlock(2 * width)
        self.down = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.up = nn.Conv2d(2 * width, width, 3, padding=1)
        self.end = DiffusionBlock(width)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        top = self.high(self.first(x), time)
        low = self.low(self.down(top), time)
        raised = self.up(functional.interpolate(low, scale_factor=2.0))
        return self.last(self.end(top + raised, time))


def diffusion_unet_b2() -> Job:
    return Diffusion().eval(), [(torch.randn(2, 4, 32, 32), torch.randn(2, 128))], {}


def first_layers_b32() -> Job:
    """Few channels in, large images."""
    net = nn.Sequential(conv(3, 16), conv(16, 16, 3, 2), conv(16, 32, 1), nn.AdaptiveAvgPool2d(1))
    return net.eval(), images(32, 64), {}


VISION = (
    *(mobilenet_v2, mobilenet_v3_b4, efficientnet, resnet18, resnet18_b8, vgg, squeezenet),
    *(densenet, shufflenet_b8, convnext, unet_segmentation, deeplab, detection_pyramid),
    *(detection_silu_b2, diffusion_unet_b2, first_layers_b32),
)
