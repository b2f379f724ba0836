"""Process groups by name."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group


def process_group(name: str) -> dist.ProcessGroup:
    return _resolve_process_group(name)
