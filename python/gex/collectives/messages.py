"""send and recv: operators of gex, because not every version of PyTorch has traceable ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from gex.collectives.tracing import global_rank, group_name
from gex.compat.distributed import process_group

_library = torch.library.Library("gex_messages", "DEF")
_library.define("send(Tensor x, int to, int tag, str group) -> Tensor")
_library.define("recv(Tensor like, int source, int tag, str group) -> Tensor")


def _send(x: torch.Tensor, to: int, tag: int, group: str) -> torch.Tensor:
    dist.send(x.contiguous(), to, process_group(group), tag)
    return x.new_empty(0)


def _recv(like: torch.Tensor, source: int, tag: int, group: str) -> torch.Tensor:
    received = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    dist.recv(received, source, process_group(group), tag)
    return received


_library.impl("send", _send, "CompositeExplicitAutograd")
_library.impl("recv", _recv, "CompositeExplicitAutograd")
# register_fake() would read the sources of this module: 20 ms.
_library.impl("send", lambda x, *_: x.new_empty(0), "Meta")
_library.impl("recv", lambda like, *_: like.new_empty(like.shape), "Meta")
for _operator in (torch.ops.gex_messages.send.default, torch.ops.gex_messages.recv.default):
    torch.fx.node.has_side_effect(_operator)


def forms() -> dict[Callable[..., Any], Callable[..., Any]]:
    return {dist.send: send, dist.recv: recv}


def send(
    tensor: torch.Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    to = global_rank(dst, group_dst, group, "dst")
    torch.ops.gex_messages.send(tensor, to, tag, group_name(group))


def recv(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    source = global_rank(src, group_src, group, "src")
    tensor.copy_(torch.ops.gex_messages.recv(tensor, source, tag, group_name(group)))
    return source
