"""grid_sampler_2d and its gradients on 16-bit floats with eager's rounding: after every step on the
CPU, once on CUDA, where eager computes in f32.

PyTorch's decomposition computes in f32 everywhere, which differs too much from eager on the CPU:
mode nearest selects another pixel.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1
_CUBIC = -0.75


class _Axis:
    """Maps grid coordinates to one axis of the image."""

    def __init__(self, size: int, padding: int, align_corners: bool, like: torch.Tensor) -> None:
        self._size = size
        self._padding = padding
        self._align = align_corners
        self._like = like

    def _rounded(self, value: float) -> torch.Tensor:
        return torch.full((), value, dtype=self._like.dtype, device=self._like.device)

    def unnormalized(self, x: torch.Tensor) -> torch.Tensor:
        scaled = (x + 1) * self.slope()
        return scaled if self._align else scaled - 0.5

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        return self.padded_with_slope(x)[0]

    def padded_with_slope(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Also the derivative by the grid's coordinate; zero on the border and outside."""
        slope = self.slope().expand_as(x)
        if self._padding == _ZEROS:
            return x, slope
        if self._padding != _BORDER:
            x, sign = self._reflected_with_sign(x)
            slope = slope * sign
        last = self._rounded(self._size - 1)
        bounded = torch.minimum(x.clamp(min=0), last)
        inside = (bounded > 0) & (bounded < last)
        return bounded, torch.where(inside, slope, self._rounded(0))

    def _reflected_with_sign(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low = 0 if self._align else -0.5
        if self._align and self._size <= 1:
            return torch.zeros_like(x), torch.zeros_like(x)
        span = self._rounded((self._size - 1) * 2 if self._align else self._size * 2)
        distance = (x - low).abs()
        extra = distance - (distance / span).trunc() * span
        back = span - extra
        turned = (extra > back) ^ (x < low)
        one = self._rounded(1)
        return torch.minimum(extra, back) + low, torch.where(turned, -one, one)

    def slope(self) -> torch.Tensor:
        return self._rounded((self._size - 1) / 2 if self._align else self._size / 2)

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


def _cubic_slopes(t: torch.Tensor) -> list[torch.Tensor]:
    def far(x: torch.Tensor, sign: int) -> torch.Tensor:
        return (x * (-3 * sign * _CUBIC) + 10 * sign * _CUBIC) * x - 8 * sign * _CUBIC

    def near(x: torch.Tensor, sign: int) -> torch.Tensor:
        return (x * (-3 * sign * (_CUBIC + 2)) + 2 * sign * (_CUBIC + 3)) * x

    return [far(t + 1, 1), near(t, 1), near(1 - t, -1), far(2 - t, -1)]


def _cubic_weights(t: torch.Tensor) -> list[torch.Tensor]:
    def far(x: torch.Tensor) -> torch.Tensor:
        return ((x * _CUBIC - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    def near(x: torch.Tensor) -> torch.Tensor:
        return (x * (_CUBIC + 2) - (_CUBIC + 3)) * x * x + 1

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _computes_in_f32(image: torch.Tensor) -> bool:
    return image.device.type == "cuda" and image.dtype in (torch.float16, torch.bfloat16)


def grid_sampler_2d(
    image: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> torch.Tensor:
    if _computes_in_f32(image):
        wide = _sampled(image.float(), grid.float(), mode, padding, align_corners)
        return wide.to(image.dtype)
    return _sampled(image, grid, mode, padding, align_corners)


def _sampled(
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


class _Scatter:
    """Accumulates gradients of image pixels."""

    def __init__(self, image: torch.Tensor, columns: _Axis, rows: _Axis) -> None:
        n, c, height, width = image.shape
        self._shape, self._columns, self._rows = image.shape, columns, rows
        self._sum = torch.zeros((n, c, height * width), dtype=image.dtype, device=image.device)

    def add(self, x: torch.Tensor, y: torch.Tensor, values: torch.Tensor) -> None:
        inside = (self._columns.holds(x) & self._rows.holds(y)).unsqueeze(1)
        zero = torch.zeros((), dtype=values.dtype, device=values.device)
        values = torch.where(inside, values, zero).flatten(2)
        places = self._rows.within(y) * self._shape[3] + self._columns.within(x)
        places = places.flatten(1).unsqueeze(1).expand_as(values)
        self._sum = self._sum.scatter_add(2, places, values)

    def sum(self) -> torch.Tensor:
        return self._sum.view(self._shape)


def grid_sampler_2d_backward(
    grad: torch.Tensor,
    image: torch.Tensor,
    grid: torch.Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor]:
    if not _computes_in_f32(image):
        return _gradients(grad, image, grid, mode, padding, align_corners, output_mask)
    wide = (grad.float(), image.float(), grid.float())
    of_image, of_grid = _gradients(*wide, mode, padding, align_corners, output_mask)
    return None if of_image is None else of_image.to(image.dtype), of_grid.to(grid.dtype)


def _gradients(
    grad: torch.Tensor,
    image: torch.Tensor,
    grid: torch.Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor]:
    columns = _Axis(image.shape[3], padding, align_corners, image)
    rows = _Axis(image.shape[2], padding, align_corners, image)
    read = _reader(image, columns, rows)
    scatter = _Scatter(image, columns, rows)
    x, y = columns.unnormalized(grid[..., 0]), rows.unnormalized(grid[..., 1])
    if mode == _NEAREST:
        x, y = columns.padded(x).round(), rows.padded(y).round()
        scatter.add(x.to(torch.int64), y.to(torch.int64), grad)
        return scatter.sum() if output_mask[0] else None, torch.zeros_like(grid)
    if mode == _BILINEAR:
        (x, slope_x), (y, slope_y) = columns.padded_with_slope(x), rows.padded_with_slope(y)
    else:
        slope_x, slope_y = columns.slope(), rows.slope()
    left, top = x.floor(), y.floor()
    from_left, from_top = x - left, y - top
    if mode == _BILINEAR:
        i, j = left.to(torch.int64), top.to(torch.int64)
        across, down = [1 - from_left, from_left], [1 - from_top, from_top]
        corner = []
        for k in range(4):
            weight = (across[k % 2] * down[k // 2]).unsqueeze(1)
            scatter.add(i + k % 2, j + k // 2, weight * grad)
            corner.append(read(i + k % 2, j + k // 2))
        north, south = down[0].unsqueeze(1), down[1].unsqueeze(1)
        west, east = across[0].unsqueeze(1), across[1].unsqueeze(1)
        along_x = ((corner[1] - corner[0]) * north + (corner[3] - corner[2]) * south) * grad
        along_y = ((corner[2] - corner[0]) * west + (corner[3] - corner[1]) * east) * grad
    else:
        across, down = _cubic_weights(from_left), _cubic_weights(from_top)
        by_x, by_y = _cubic_slopes(from_left), _cubic_slopes(from_top)
        along_x = along_y = None
        for i in range(4):
            for j in range(4):
                at_x = columns.padded(left + (i - 1)).to(torch.int64)
                at_y = rows.padded(top + (j - 1)).to(torch.int64)
                scatter.add(at_x, at_y, grad * across[i].unsqueeze(1) * down[j].unsqueeze(1))
                pixel = read(at_x, at_y) * grad
                part_x = pixel * by_x[i].unsqueeze(1) * down[j].unsqueeze(1)
                part_y = pixel * by_y[j].unsqueeze(1) * across[i].unsqueeze(1)
                along_x = -part_x if along_x is None else along_x - part_x
                along_y = -part_y if along_y is None else along_y - part_y
    of_grid = torch.stack([along_x.sum(1) * slope_x, along_y.sum(1) * slope_y], -1)
    return scatter.sum() if output_mask[0] else None, of_grid
