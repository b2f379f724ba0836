"""Limits on the cores of a stream: on the CPU, on the worker threads of the engine's launches.

Matmuls, convolutions and attention count as work of the AI cores, everything else as work of the
vector cores.
"""

from __future__ import annotations

from typing import Any

import torch

from gex import _gex

Cores = tuple[int, int]  # AI cores, vector cores
# What the reference's devices have. Scripts request such numbers even if there are fewer threads,
# and then nothing is limited.
_USUAL: Cores = (24, 48)


def maximum() -> Cores:
    """The largest allowed numbers."""
    threads = torch.get_num_threads()
    return max(_USUAL[0], threads), max(_USUAL[1], threads)


def check(aicores: Any, vectorcores: Any) -> Cores:
    """Raises ValueError for a number out of range, TypeError for anything but an int."""
    kinds = ("AI cores", "vector cores")
    for kind, cores, most in zip(kinds, (aicores, vectorcores), maximum()):
        if isinstance(cores, bool) or not isinstance(cores, int):
            raise TypeError(f"the number of {kind} must be an int, got {cores!r} of {type(cores)}")
        if not 1 <= cores <= most:
            raise ValueError(f"the number of {kind} must be 1 to {most} here, got {cores}")
    return aicores, vectorcores


def _changed(before: Cores, cube_num: int, vector_num: int) -> Cores:
    """-1 keeps a number."""
    return check(
        before[0] if cube_num == -1 else cube_num, before[1] if vector_num == -1 else vector_num
    )


def _told(cores: Cores) -> Cores:
    """The limit, or the maximum if there is none."""
    most = maximum()
    return cores[0] or most[0], cores[1] or most[1]


def _as_dict(cores: Cores) -> dict[str, int]:
    return dict(zip(("cube_core_num", "vector_core_num"), cores))


def set_device_limit(device: Any = None, cube_num: int = -1, vector_num: int = -1) -> None:
    """For all streams without a limit of their own."""
    _gex.set_device_limit(_changed(_told(_gex.device_limit()), cube_num, vector_num))


def get_device_limit(device: Any = None) -> dict[str, int]:
    return _as_dict(_told(_gex.device_limit()))


def set_stream_limit(stream: Any, cube_num: int = -1, vector_num: int = -1) -> None:
    """For work enqueued on the stream from now on. Compiled functions capture again for it."""
    before = _told(_gex.stream_limit(stream.stream_id))
    _gex.set_stream_limit(stream.stream_id, _changed(before, cube_num, vector_num))


def get_stream_limit(stream: Any) -> dict[str, int]:
    return _as_dict(_told(_gex.stream_limit(stream.stream_id)))


def reset_stream_limit(stream: Any) -> None:
    """Reverts to the device's limit."""
    _gex.set_stream_limit(stream.stream_id, None)
