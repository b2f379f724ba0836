"""The Python part of `gex doctor`: the package, PyTorch, the backends."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version


def _line(mark: str, what: str, found: str) -> None:
    print(f"  {mark:<4}{what:<12}{found}")


def main(problems_before: int) -> int:
    """Returns the exit code: 0 if no problems were found, before or here."""
    return 1 if _look() + problems_before else 0


def _look() -> int:
    """The number of problems."""
    _line("ok", "Python", f"{sys.version.split()[0]}, {sys.executable}")
    try:
        import torch

        from gex import _gex
    except ImportError as problem:
        _line("!!", "package", f"can't be imported: {problem}; pip install the wheel of gex")
        return 1
    _line("ok", "package", f"gex {version('gex')} in {os.path.dirname(_gex.__file__ or '')}")
    _line("ok", "PyTorch", torch.__version__)
    backends = torch.compiler.list_backends(exclude_tags=())
    missing = [name for name in ("gex", "npugraph_ex") if name not in backends]
    if missing:
        _line("!!", "backends", f"torch.compile does not know {', '.join(missing)}; reinstall gex")
        return 1
    _line("ok", "backends", "gex, npugraph_ex, npugraphs")
    x = torch.linspace(-2, 2, 1001)
    with torch.no_grad():
        got = torch.compile(lambda v: torch.exp(v) * 2 + v, backend="gex")(x)
    if not torch.allclose(got, torch.exp(x) * 2 + x):
        _line("!!", "a test", "a compiled function gives wrong results: please report it")
        return 1
    _line("ok", "a test", "a compiled function gives the same results as PyTorch")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
