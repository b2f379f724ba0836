"""The option `clone_output`: results share memory with nothing except inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def with_cloned_outputs(call: Callable[..., Any]) -> Callable[..., Any]:
    """Makes results of `call` also share no memory with one another. A later call never
    overwrites them anyway. Views of inputs stay views."""

    def call_and_separate(*arguments: Any) -> Any:
        inputs = {_memory(x) for x in arguments if isinstance(x, torch.Tensor)}
        seen: set[int] = set()
        results = []
        for result in call(*arguments):
            if isinstance(result, torch.Tensor) and _memory(result) not in inputs:
                if _memory(result) in seen:
                    result = result.clone()
                seen.add(_memory(result))
            results.append(result)
        return results

    return call_and_separate


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
