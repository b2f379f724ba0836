"""Pools: graphs compiled with the same handle keep their temporaries in the same memory."""

from __future__ import annotations

import itertools

from gex import _gex

_numbers = itertools.count(1)

PoolHandle = tuple[int, int]


def graph_pool_handle() -> PoolHandle:
    """A new pool for `options={"use_graph_pool": handle}`. It is freed with the last graph that
    uses it."""
    return (0, next(_numbers))


def pool_bytes(handle: PoolHandle) -> int:
    """Bytes that the pool holds between calls."""
    return _gex.pool_bytes(handle)
