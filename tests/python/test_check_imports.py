"""scripts/check_imports.py detects violations."""

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
        path = root / (name if name == "__init__" else name.replace("__", "/"))
        path = path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_tree_without_violations_passes(tmp_path: Path) -> None:
    write(
        tmp_path,
        ops="from gex.importer import b\n",
        importer__b=(
            "from typing import TYPE_CHECKING\n"
            "import torch\n"
            "from gex import _gex\n"
            "if TYPE_CHECKING:\n    from gex import ops\n"
            "softmax = torch.ops.aten._softmax.default\n"
            "name = torch.__version__\n"
        ),
        compat__c="import torch._dynamo\n",
    )
    assert check(tmp_path) == []


def test_a_cycle_is_found_also_through_late_imports(tmp_path: Path) -> None:
    write(
        tmp_path,
        ops="from gex.importer.b import x\n",
        importer__b="def f():\n    from gex.importer import c\n",
        importer__c="import gex.ops\n",
        npu="from gex import ops\n",
    )
    (line,) = check(tmp_path)
    assert line.endswith("import cycle of 3 modules: gex.importer.b, gex.importer.c, gex.ops")


def test_relative_imports_are_followed(tmp_path: Path) -> None:
    write(tmp_path, importer__a="from .b import x\n", importer__b="from . import a\n")
    (line,) = check(tmp_path)
    assert line.endswith("import cycle of 2 modules: gex.importer.a, gex.importer.b")


def test_a_package_imports_no_later_layer(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{"__init__": ""},
        importer__a="from gex.report import graph_report\n",
        importer__b="import gex\n",
        report__graph_report="from gex.compat import c\n",
        compat__c="",
        news="",
    )
    assert check(tmp_path) == [
        "gex.importer.a imports gex.report.graph_report, which is of a later layer",
        "gex.importer.b imports gex, which is of a later layer",
        "gex.news: news has no layer in scripts/check_imports.py",
    ]


def test_private_names_of_pytorch_are_found(tmp_path: Path) -> None:
    write(
        tmp_path,
        ops=(
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
