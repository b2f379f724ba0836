"""scripts/check_unity.py finds names that two sources of one unity chunk declare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = 'gex_layer(base "base/")\ngex_objects(part OBJECT "ir/part[.]cpp")\ngex_layer(ir "ir/")\n'


def check(root: Path) -> list[str]:
    command = [sys.executable, str(ROOT / "scripts" / "check_unity.py"), str(root)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return run.stdout.splitlines() if run.returncode else []


def clashes(root: Path, first: str, second: str, *names: str) -> list[str]:
    """Problems of two sources in the folders `names`, or both in src/ir."""
    files = names or ("ir/a.cpp", "ir/b.cpp")
    (root / "scripts").mkdir()
    (root / "scripts" / "layers.cmake").write_text(LAYERS)
    for name, text in zip(files, (first, second), strict=True):
        (root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "src" / name).write_text(text)
    return check(root)


def local(text: str) -> str:
    return f"namespace gex {{\nnamespace {{\n{text}\n}}  // namespace\n}}  // namespace gex\n"


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (local("int f(int a) { return a; }"), local("long f(int b = 2) {}"), "function f"),
        (local("struct A {\n  int x;\n};"), local("class A final : B {};"), "type A"),
        (local("enum class E { a };"), local("struct E {};"), "type E"),
        (local("constexpr int kSize = 1;"), local("constexpr int kSize = 1;"), "value kSize"),
        (local("constexpr int k[] = {1, 2};"), local("const Map<int, int> k{{1, 2}};"), "value k"),
        (local("using T = int;"), local("using T = long;"), "type T"),
        (local("template <class T>\nT max(T a, T b) { return a; }"),
         local("template <class T>\nT max(T a, T b) { return b; }"), "function max"),
        (local("void f() {}"), local("struct f {};"), "type f"),
        ("static int count = 0;", "static long count = 0;", "value count"),
        ("namespace gex { static void g() {} }", local("void g() {}"), "function g"),
        # A call of the second function would be ambiguous where the first is visible.
        ("namespace gex { void h(int x) {} }", local("void h(int y) {}"), "function h"),
        ("#define SIZE 1\n", "#  define SIZE 2\n", "macro SIZE"),
        ("using std::vector;", "using other::vector;", "using vector"),
        ("namespace dims = a::dims;", "namespace dims = b::dims;", "alias dims"),
    ],
)  # fmt: skip
def test_a_name_declared_twice_is_found(tmp_path: Path, first: str, second: str, what: str) -> None:
    (line,) = clashes(tmp_path, first, second)
    assert line.startswith("src/ir/b.cpp:") and f": {what} is also in src/ir/a.cpp:" in line, line


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (local("int f(int a) { return a; }"), local("int f(const B& a) { return 1; }")),
        (local("int f() { int x = 1; return x; }"), local("int g() { int x = 2; return x; }")),
        (local("struct A {\n  void f();\n};"), local("struct B {\n  void f();\n};")),
        (local("struct A;"), local("struct A {};")),
        (local("using T = int;"), local("using T = int;")),
        ("using std::vector;", "using std::vector;"),
        ("namespace a { namespace { int x = 1; } }", "namespace b { namespace { int x = 1; } }"),
        ("#define SIZE 1\n#undef SIZE\n", "#define SIZE 2\n"),
        (local("// int f() {}\nconst char* s = \"int f() {\";"), local("int f() {}")),
        ("namespace gex { void A::f() {} }", "namespace gex { void B::f() {} }"),
    ],
)  # fmt: skip
def test_names_that_do_not_meet_are_allowed(tmp_path: Path, first: str, second: str) -> None:
    assert clashes(tmp_path, first, second) == []


@pytest.mark.parametrize("other", ["base/b.cpp", "ir/part.cpp", "frontend/python/b.cpp"])
def test_libraries_are_compiled_apart(tmp_path: Path, other: str) -> None:
    text = local("int f() { return 1; }")
    assert clashes(tmp_path, text, text, "ir/a.cpp", other) == []


def test_a_header_that_another_source_includes_counts(tmp_path: Path) -> None:
    (tmp_path / "src" / "ir").mkdir(parents=True)
    (tmp_path / "src" / "ir" / "a.hpp").write_text("namespace gex { struct Axis { int x; }; }\n")
    (line,) = clashes(tmp_path, '#include "ir/a.hpp"\n', local("class Axis {};"))
    assert "src/ir/b.cpp:3: type Axis is also in src/ir/a.hpp:1" in line


STORE = "namespace gex {\nclass Store {};\n}\n"
USES_LOOP_STORE = "namespace gex::ir {\nusing loop::Store;\nStore a;\n}\n"


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ("namespace gex::ir {\nint f(Store* s) { return 1; }\n}\n", True),
        ("namespace gex::ir {\nint f(gex::Store* s) { return 1; }\n}\n", False),
        ("namespace gex::ir {\nusing loop::Store;\nint f(Store* s) { return 1; }\n}\n", False),
        ("namespace gex {\nint f(Store* s) { return 1; }\n}\n", False),
    ],
)
def test_a_type_that_another_source_hides_is_found(
    tmp_path: Path, second: str, found: bool
) -> None:
    (tmp_path / "src" / "base").mkdir(parents=True)
    (tmp_path / "src" / "base" / "store.hpp").write_text(STORE)
    problems = clashes(tmp_path, USES_LOOP_STORE, second)
    if not found:
        assert problems == []
        return
    (line,) = problems
    assert line.startswith("src/ir/b.cpp:2: Store is another type after `using loop::Store`"), line


def test_extensions_are_libraries_too(tmp_path: Path) -> None:
    text = local("int f() { return 1; }")
    assert clashes(tmp_path, text, text, "frontend/python/a.cpp", "frontend/python/b.cpp")


def test_the_tree_itself_passes() -> None:
    assert check(ROOT) == []
