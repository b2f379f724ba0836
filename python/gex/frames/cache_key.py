"""The path of a cached function: made from everything that it depends on."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gex import _gex

_ROOT_VARIABLE = "TORCHAIR_CACHE_HOME"
_DEFAULT_ROOT = ".torchair_cache"
FILE_NAME = "compiled_module"


@dataclass(frozen=True)
class Ranks:
    """The ranks of this process in a distributed job."""

    global_rank: int | None = None
    tp_rank: int | None = None
    pp_rank: int | None = None

    def folder(self) -> str:
        parts = []
        world = 1
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            world = torch.distributed.get_world_size()
        if world > 1:
            rank = self.global_rank
            rank = torch.distributed.get_rank() if rank is None else rank
            parts.append(f"world{world}global_rank{rank}")
        if self.tp_rank is not None:
            parts.append(f"tp_rank{self.tp_rank}")
        if self.pp_rank is not None:
            parts.append(f"pp_rank{self.pp_rank}")
        return "_".join(parts)


def root_of(cache_dir: str | None) -> Path:
    """UserError if the folder exists and is owned by another user."""
    root = Path(cache_dir or os.environ.get(_ROOT_VARIABLE) or _DEFAULT_ROOT).absolute()
    if root.exists() and root.stat().st_uid != os.geteuid():
        raise ValueError(
            f"cache_dir {str(root)!r} is owned by another user, and code in it would be run here. "
            "Choose a folder of your own"
        )
    return root


def file_of(root: Path, func: Callable[..., Any], dynamic: bool, ranks: Ranks, digest: str) -> Path:
    owner = getattr(func, "__self__", None)
    name = "function" if owner is None else type(owner).__name__
    kind = "dynamic" if dynamic else "static"
    folder = root / f"{_plain(name)}_{kind}_aclgraphcache_{digest}"
    return folder / ranks.folder() / _plain(func.__name__) / FILE_NAME


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)


def digest_of(
    func: Callable[..., Any],
    dynamic: bool,
    options: Mapping[str, Any],
    decompositions: Mapping[Any, Callable[..., Any]],
) -> str:
    """Digest of the function, the structure of its module, the options, and the compiler."""
    parts = [sys.version, torch.__version__, _gex.engine_build(), f"dynamic {dynamic}"]
    parts += _function_parts(func)
    owner = getattr(func, "__self__", None)
    if owner is not None:
        parts += module_parts(owner)
    parts += [f"{name} = {value_text(options[name])}" for name in sorted(options)]
    parts += sorted(f"{op} -> {value_text(f)}" for op, f in decompositions.items())
    digest = hashlib.md5(usedforsecurity=False)
    for part in parts:
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode() + encoded)
    return digest.hexdigest()


def module_parts(module: torch.nn.Module) -> list[str]:
    parts = [f"{type(module).__module__}.{type(module).__qualname__}", str(module)]
    for kind, tensors in (
        ("parameter", module.named_parameters()),
        ("buffer", module.named_buffers()),
    ):
        for name, tensor in tensors:
            parts.append(f"{kind} {name} {tensor.dtype} {tuple(tensor.shape)} {tensor.device}")
    parts.append(f"training {[m.training for m in module.modules()]}")
    return parts


def _function_parts(func: Callable[..., Any]) -> list[str]:
    plain = inspect.unwrap(func, stop=lambda f: not hasattr(f, "__wrapped__"))
    parts = []
    for f in dict.fromkeys([func, plain]):
        f = getattr(f, "__func__", f)
        parts += [f.__qualname__, *code_parts(f.__code__)]
        parts += [value_text(f.__defaults__), value_text(f.__kwdefaults__)]
    return parts


def code_parts(code: types.CodeType) -> list[str]:
    parts = [code.co_name, code.co_code.hex(), repr(code.co_names), repr(code.co_varnames)]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            parts += code_parts(constant)
        else:
            parts.append(value_text(constant))
    return parts


def value_text(value: Any) -> str:
    """The same in every process: no addresses, no hash order."""
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(value_text(v) for v in value)) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(value_text(v) for v in value)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{k!r}: {value_text(v)}" for k, v in value.items())) + "}"
    if isinstance(value, functools.partial):
        return f"partial({value_text((value.func, value.args, value.keywords))})"
    if isinstance(value, types.MethodType):
        return f"method of {value_text(value.__self__)}: {value_text(value.__func__)}"
    if isinstance(value, types.FunctionType):
        return " ".join([value.__module__ or "", *_function_parts(value)])
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return f"tensor {value.dtype} {tuple(value.shape)}"
    kind = value if isinstance(value, type) else type(value)
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        source = ""
    return f"{kind.__module__}.{kind.__qualname__} {source}"
