"""Forward-mode AD and the profiler."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

# Looked up once: every call of a cached function uses it.
is_profiler_enabled = torch.autograd._profiler_enabled


def is_forward_mode_on() -> bool:
    return forward_ad._current_level >= 0
