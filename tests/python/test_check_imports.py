"""scripts/check_imports.py finds what it is there to find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_imports.py"


def check(root: Path) -> list[str]:
    run = subprocess.run([sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0), run.stderr
    return lines


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_tree_without_violations_passes(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="from gex.part import b\n",
        part__b=(
            "from typing import TYPE_CHECKING\n"
            "import torch\n"
            "from gex import _gex\n"
            "if TYPE_CHECKING:\n    from gex import a\n"
            "softmax = torch.ops.aten._softmax.default\n"
            "name = torch.__version__\n"
        ),
        compat__c="import torch._dynamo\n",
    )
    assert check(tmp_path) == []


def test_a_cycle_is_found_also_through_late_imports(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="from gex.part.b import x\n",
        part__b="def f():\n    from gex.part import c\n",
        part__c="import gex.a\n",
        d="from gex import a\n",
    )
    (line,) = check(tmp_path)
    assert line.endswith("import cycle of 3 modules: gex.a, gex.part.b, gex.part.c")


def test_relative_imports_are_followed(tmp_path: Path) -> None:
    write(tmp_path, part__a="from .b import x\n", part__b="from . import a\n")
    (line,) = check(tmp_path)
    assert line.endswith("import cycle of 2 modules: gex.part.a, gex.part.b")


def test_private_names_of_pytorch_are_found(tmp_path: Path) -> None:
    write(
        tmp_path,
        a=(
            "import torch\n"
            "from torch._guards import TracingContext\n"
            "from torch.fx.node import _side_effectful_functions\n"
            "import torch.utils._pytree as pytree\n"
            "def f(x):\n"
            "    return torch._C._functorch.peek_interpreter_stack()\n"
        ),
    )
    found = [line.split(": ", 1)[0].rsplit(":", 1)[1] for line in check(tmp_path)]
    assert found == ["2", "3", "4", "6"]


def test_the_package_itself_passes() -> None:
    assert check(ROOT / "python" / "gex") == []
