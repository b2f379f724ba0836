"""scripts/check_python_functions.py finds long functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_python_functions.py"


def check(root: Path) -> list[str]:
    run = subprocess.run([sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0), run.stderr
    return lines


def test_long_functions_are_found_and_tables_are_not(tmp_path: Path) -> None:
    steps = "".join(f"    x{i} = {i}\n" for i in range(60))
    doc = '    """' + "\n" * 30 + '    """\n'
    rows = "".join(f"        {i}: 0,\n" for i in range(80))
    (tmp_path / "a.py").write_text(
        f"def long():\n{steps}\n\n"
        f"def documented():\n{doc}    return 1\n\n\n"
        f"class A:\n    def table(self):\n        return {{\n{rows}        }}\n",
        encoding="utf-8",
    )
    (line,) = check(tmp_path)
    assert line.endswith("a.py:1: long has 61 lines, more than 60")


def test_the_package_itself_passes() -> None:
    assert check(ROOT / "python" / "gex") == []
