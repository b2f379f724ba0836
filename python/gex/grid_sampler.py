"""grid_sampler_2d as eager computes it on 16-bit floats: every step is rounded.

PyTorch's own decomposition computes in f32 and rounds once, which is closer to the truth and too
far from eager: mode nearest takes another pixel.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1
_CUBIC = -0.75


class _Axis:
    """Where coordinates of the grid fall on one axis of the image."""

    def __init__(self, size: int, padding: int, align_corners: bool, like: torch.Tensor) -> None:
        self._size = size
        self._padding = padding
        self._align = align_corners
        self._like = like

    def _rounded(self, value: float) -> torch.Tensor:
        return torch.full((), value, dtype=self._like.dtype, device=self._like.device)

    def unnormalized(self, x: torch.Tensor) -> torch.Tensor:
        if self._align:
            return (x + 1) * self._rounded((self._size - 1) / 2)
        return (x + 1) * self._rounded(self._size / 2) - 0.5

    def _reflected(self, x: torch.Tensor) -> torch.Tensor:
        low = 0 if self._align else -0.5
        if self._align and self._size <= 1:
            return torch.zeros_like(x)
        span = self._rounded((self._size - 1) * 2 if self._align else self._size * 2)
        distance = (x - low).abs()
        extra = distance - (distance / span).trunc() * span
        return torch.minimum(extra, span - extra) + low

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        if self._padding == _ZEROS:
            return x
        if self._padding != _BORDER:
            x = self._reflected(x)
        return torch.minimum(x.clamp(min=0), self._rounded(self._size - 1))

    def holds(self, index: torch.Tensor) -> torch.Tensor:
        return (index >= 0) & (index < self._size)

    def within(self, index: torch.Tensor) -> torch.Tensor:
        return index.clamp(0, self._size - 1)


def _reader(
    image: torch.Tensor, columns: _Axis, rows: _Axis
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Pixels [N, C, h, w] of an image [N, C, H, W] at columns and rows [N, h, w]; zero outside."""
    batch = torch.arange(image.shape[0], device=image.device).view(-1, 1, 1, 1)
    channel = torch.arange(image.shape[1], device=image.device).view(1, -1, 1, 1)
    zero = torch.zeros((), dtype=image.dtype, device=image.device)

    def read(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        inside = (columns.holds(x) & rows.holds(y)).unsqueeze(1)
        pixels = image[batch, channel, rows.within(y).unsqueeze(1), columns.within(x).unsqueeze(1)]
        return torch.where(inside, pixels, zero)

    return read


def _cubic_weights(t: torch.Tensor) -> list[torch.Tensor]:
    def far(x: torch.Tensor) -> torch.Tensor:
        return ((x * _CUBIC - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    def near(x: torch.Tensor) -> torch.Tensor:
        return (x * (_CUBIC + 2) - (_CUBIC + 3)) * x * x + 1

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def grid_sampler_2d(
    image: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> torch.Tensor:
    columns = _Axis(image.shape[3], padding, align_corners, image)
    rows = _Axis(image.shape[2], padding, align_corners, image)
    read = _reader(image, columns, rows)
    x, y = columns.unnormalized(grid[..., 0]), rows.unnormalized(grid[..., 1])
    if mode == _NEAREST:
        x, y = columns.padded(x).round(), rows.padded(y).round()
        return read(x.to(torch.int64), y.to(torch.int64))
    if mode == _BILINEAR:
        x, y = columns.padded(x), rows.padded(y)
    left, top = x.floor(), y.floor()
    from_left, from_top = x - left, y - top
    if mode == _BILINEAR:
        i, j = left.to(torch.int64), top.to(torch.int64)
        across, down = [1 - from_left, from_left], [1 - from_top, from_top]
        total = None
        for k in range(4):
            weight = (across[k % 2] * down[k // 2]).unsqueeze(1)
            part = read(i + k % 2, j + k // 2) * weight
            total = part if total is None else total + part
        return total
    across, down = _cubic_weights(from_left), _cubic_weights(from_top)
    total = None
    for j in range(4):
        line = None
        for i in range(4):
            at_x = columns.padded(left + (i - 1)).to(torch.int64)
            at_y = rows.padded(top + (j - 1)).to(torch.int64)
            part = read(at_x, at_y) * across[i].unsqueeze(1)
            line = part if line is None else line + part
        part = line * down[j].unsqueeze(1)
        total = part if total is None else total + part
    return total
