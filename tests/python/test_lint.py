"""The checks of `make lint`, each over a small tree that breaks its rules."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(script: str, root: pathlib.Path, *options: str) -> tuple[int, str]:
    """What the command returns and prints."""
    name = script.removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(sys, "argv", [script, *options, str(root)])
        status = module.main()
    return status, out.getvalue()


def write(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


TABLE = """
include/api:
src/base:
src/ir: src/base !src/ir/text/print.hpp
src/ir/text:
  src/ir
tools: include/api src/ir  # a comment
"""


@pytest.fixture
def layers(tmp_path: pathlib.Path) -> pathlib.Path:
    """A tree whose includes are all allowed, and each allowed one is there."""
    write(
        tmp_path,
        {
            "scripts/layers.txt": TABLE,
            "include/api/api.h": "#include <stdint.h>\n",
            "src/base/base.hpp": "#include <vector>\n",
            "src/ir/graph.hpp": '#include "base/base.hpp"\n',
            "src/ir/graph.cpp": '#include "ir/graph.hpp"\n#include "ir/text/print.hpp"\n',
            "src/ir/text/print.hpp": '#include "ir/graph.hpp"\n',
            "tools/main.cpp": '#include <api/api.h>\n#include "ir/graph.hpp"\n',
        },
    )
    return tmp_path


def test_includes_of_the_table_pass(layers: pathlib.Path) -> None:
    assert run("check_layers.py", layers) == (0, "layers: every include is allowed\n")


@pytest.mark.parametrize(
    "file, text",
    [
        ("src/base/base.hpp", '#include "ir/graph.hpp"'),
        ("src/base/base.hpp", "#include <ir/graph.hpp>"),
        ("src/base/base.hpp", '#if 1\n  #  include   "ir/graph.hpp"\n#endif'),
        ("src/base/base.hpp", '#include "../ir/graph.hpp"'),
        ("src/base/table.def", '#include "ir/graph.hpp"'),
        ("include/api/api.h", '#include "ir/graph.hpp"'),
        ("include/api/api.h", "#include <ir/graph.hpp>"),
        ("tools/more.cpp", '#include "base/base.hpp"'),
        ("src/ir/text/more.cpp", '#include "base/base.hpp"'),
    ],
)
def test_include_outside_of_the_table_is_refused(
    layers: pathlib.Path, file: str, text: str
) -> None:
    write(layers, {file: text + "\n"})
    status, out = run("check_layers.py", layers)
    target = "src/base/base.hpp" if "base.hpp" in text else "src/ir/graph.hpp"
    folder = str(pathlib.Path(file).parent)
    assert status == 1
    assert out == f"{file}: {folder} may not include {target} (scripts/layers.txt)\n"


def test_only_the_named_file_of_a_cycle_is_allowed(layers: pathlib.Path) -> None:
    write(layers, {"src/ir/text/parse.hpp": "", "src/ir/a.cpp": '#include "ir/text/parse.hpp"\n'})
    status, out = run("check_layers.py", layers)
    assert status == 1 and "src/ir may not include src/ir/text/parse.hpp" in out


@pytest.mark.parametrize(
    "files, message",
    [
        ({"src/new/a.cpp": ""}, "layers.txt: no line for src/new"),
        ({"src/base/a.cpp": '#include "gone.hpp"\n'}, '"gone.hpp" is not a file of the project'),
        ({"src/base/a.cpp": "#include HEADER\n"}, "#include HEADER: name the file, not a macro"),
        ({"tools/main.cpp": '#include "ir/graph.hpp"\n'}, "nothing in tools includes include/api"),
        ({"scripts/layers.txt": TABLE + "src/old:\n"}, "src/old has no sources"),
        ({"scripts/layers.txt": TABLE.replace("!", "")}, "which is below it: write !src/ir/text"),
        ({"scripts/layers.txt": TABLE.replace(" include/api s", " !include/api s")}, "is above it"),
        ({"scripts/layers.txt": TABLE + "src/base:\n"}, "once each"),
    ],
)
def test_table_is_exactly_what_is_needed(
    layers: pathlib.Path, files: dict[str, str], message: str
) -> None:
    write(layers, files)
    status, out = run("check_layers.py", layers)
    assert status == 1 and message in out, out


def test_includes_in_comments_do_not_count(layers: pathlib.Path) -> None:
    write(
        layers, {"src/base/a.cpp": '// #include "ir/graph.hpp"\n/*\n#include "ir/graph.hpp"\n*/\n'}
    )
    assert run("check_layers.py", layers)[0] == 0


def test_printed_table_is_a_valid_one(layers: pathlib.Path) -> None:
    status, printed = run("check_layers.py", layers, "--show")
    assert status == 0
    write(layers, {"scripts/layers.txt": printed})
    assert run("check_layers.py", layers)[0] == 0


def body(lines: int) -> str:
    """A body such that `int f() {` + body has that many lines, with braces where none counts."""
    odd = [
        "  // {",
        '  call(\'{\', "{\\"{");',
        '  call(R"(}{{)", 1\'000);',
        "  /* {{ */ if (a) {",
        "  }",
    ]
    return "\n".join(odd + ["  work();"] * (lines - len(odd) - 2)) + "\n}\n"


LONG = {
    "free_function": "int f(int a, int b = g(1)) {\n",
    "C::method": "template <class T>\nauto C<T>::method(T (&a)[3]) const noexcept -> int {\n",
    "C::C": "C::C(int a) : a_{a}, b_(2), c_{{1, 2}} {\n",
    "operator==": "bool operator==(const A& a, const A& b) {\n",
    "operator()": "auto operator()(int a) const {\n",
    "A.b_c": "TEST(A, b_c) {\n",
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(
    "around",
    [
        "%s",
        "namespace a::b {\nnamespace {\n%s}\n}\n",
        "enum class E { a, b };\nint table[] = {1, 2};\n"
        "template <class T>\nclass X final : public Y<T> {\n public:\n%s};\n",
        'extern "C" {\n#define OPEN {\n%s}\n',
    ],
)
def test_function_over_the_limit_is_refused(tmp_path: pathlib.Path, name: str, around: str) -> None:
    head = LONG[name].replace("f(", "free_function(", 1) if name == "free_function" else LONG[name]
    extra = head.count("\n") - 1
    for lines, status in ((60, 0), (61, 1)):
        write(
            tmp_path,
            {"src/a.cpp": around % (head + body(lines - extra) + "int after() { return 1; }\n")},
        )
        result, out = run("check_functions.py", tmp_path)
        assert result == status, out
        assert status == 0 or (f" {name} has 61 lines" in out or "C<T>::method has 61" in out), out


def test_list_of_long_functions_only_shrinks(tmp_path: pathlib.Path) -> None:
    listed = "# why\nsrc/a.cpp f 70  # a table\nsrc/a.cpp gone 80\n"
    write(tmp_path, {"src/a.cpp": "int f() {\n" + body(70), "scripts/long_functions.txt": listed})
    status, out = run("check_functions.py", tmp_path)
    assert (
        status == 1
        and "src/a.cpp gone is short or no longer exists" in out
        and "split it" not in out
    )
    assert run("check_functions.py", tmp_path, "--write")[0] == 0
    assert (
        tmp_path / "scripts/long_functions.txt"
    ).read_text() == "# why\nsrc/a.cpp f 70  # a table\n"

    write(tmp_path, {"src/a.cpp": "int f() {\n" + body(71)})
    status, out = run("check_functions.py", tmp_path, "--write")
    assert status == 1 and "f has 71 lines, at most 70 are allowed" in out

    write(tmp_path, {"src/a.cpp": "int f() {\n" + body(65)})
    assert run("check_functions.py", tmp_path)[0] == 1
    assert run("check_functions.py", tmp_path, "--write")[0] == 0
    assert "src/a.cpp f 65  # a table\n" in (tmp_path / "scripts/long_functions.txt").read_text()


def test_tree_passes() -> None:
    for script in ("check_layers.py", "check_functions.py", "check_op_names.py"):
        status, out = run(script, ROOT)
        assert status == 0, out


def test_ruff_and_mypy_check_for_the_oldest_supported_python() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    settings = dict(re.findall(r'^([\w-]+) = "([^"]+)"', text, re.MULTILINE))
    oldest = settings["requires-python"].removeprefix(">=")
    assert settings["target-version"] == f"py{oldest.replace('.', '')}"
    assert settings["python_version"] == oldest


OP_NAMES = """
src/ops/: * # defines them
src/passes/: * # recognisers
src/passes/engine/: # none
src/text.cpp: sort
  tanh # words of a text form
python/gex/rules.py: add # builds nodes
"""


@pytest.fixture
def named_ops(tmp_path: pathlib.Path) -> pathlib.Path:
    """A tree that names ops only where it may."""
    write(
        tmp_path,
        {
            "scripts/op_names.txt": OP_NAMES,
            "src/ops/sort.cpp": 'Definition("sort", "").define();\nunary("tanh", Prim::tanh);\n',
            "src/passes/fold.cpp": 'if (node.is("sort")) fold();\n',
            "src/passes/engine/run.cpp": '// not "sort"\nrun("sorted");\n',
            "src/text.cpp": 'if (word == "sort" || word == "tanh") read();\n',
            "python/gex/rules.py": "add = torch.ops.aten.add.Tensor\n",
            "python/gex/other.py": "torch.ops.mine.add.default\n",
        },
    )
    return tmp_path


def test_ops_are_named_where_they_may_be(named_ops: pathlib.Path) -> None:
    status, out = run("check_op_names.py", named_ops)
    assert (status, out) == (0, "op names: 2 ops are named only where they may be\n")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("src/lower/fuse.cpp", 'x.is("tanh");\n', "src/lower/fuse.cpp:1: names the op 'tanh'"),
        ("src/passes/engine/x.hpp", '\nop("sort")\n', "engine/x.hpp:2: names the op 'sort'"),
        ("tools/x.cpp", 'if (name == "sort")', "tools/x.cpp:1: names the op 'sort'"),
        ("python/gex/x.py", "_aten.relu.default\n", "python/gex/x.py:1: names the op 'relu'"),
        ("python/gex/x.py", "f('aten.relu.default')\n", "python/gex/x.py:1: names the op 'relu'"),
        ("python/gex/rules.py", "aten.add\naten.mul\n", "rules.py:2: names the op 'mul'"),
        ("src/text.cpp", 'word == "sort"\n', "src/text.cpp: tanh: not named there any more"),
        ("src/passes/fold.cpp", "\n", "src/passes/: names no op any more"),
        ("scripts/op_names.txt", OP_NAMES + "tools/: *\n", "tools/ has no reason"),
    ],
)
def test_an_op_named_elsewhere_is_refused(
    named_ops: pathlib.Path, file: str, text: str, message: str
) -> None:
    write(named_ops, {file: text})
    status, out = run("check_op_names.py", named_ops)
    assert status == 1 and message in out


def test_the_page_of_op_counts_must_be_up_to_date(tmp_path: pathlib.Path) -> None:
    write(tmp_path, {"src/ops/gelu.cpp": 'f("gelu");\n', "docs/op_counts.md": ""})
    assert run("op_counts.py", tmp_path, "--check")[0] == 1
    assert run("op_counts.py", tmp_path)[0] == 0
    assert run("op_counts.py", tmp_path, "--check")[0] == 0
    assert "| `gelu` | 5 | 1 | 1 | 0 | 0 | 1 | 0 |" in (tmp_path / "docs/op_counts.md").read_text()
    write(tmp_path, {"src/emit/emit.cpp": "// gelu\nplan_gelu();\n"})
    assert run("op_counts.py", tmp_path, "--check")[0] == 1
