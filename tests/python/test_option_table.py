"""The engine's table of options: each of them is reached from every interface, and told once."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import torch

from gex import _gex, es
from gex.options.engine_flags import options_of
from gex.options.engine_options import ENGINE_OPTIONS, EngineOption, text_of
from gex.options.table import GEX_OPTIONS, NPUGRAPH_EX_OPTIONS, CompilerConfig, Config

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
BY_NAME = {option.name: option for option in ENGINE_OPTIONS}
rows = pytest.mark.parametrize("row", ENGINE_OPTIONS, ids=lambda row: row.name)


def another_value(row: EngineOption, folder: pathlib.Path) -> bool | int | str | list[str]:
    """Not the default, and one that a compile on this machine takes."""
    if row.type == "bool":
        return not row.default
    if row.type == "int":
        return int(row.default) + 1  # type: ignore[arg-type]
    if row.type == "names":
        return ["cse"]
    if row.name == "switch_file":
        file = folder / "switches.json"
        file.write_text('{"Switch": {"GraphFusion": {"cse": "off"}}}')
        return str(file)
    return {"target": "cpu", "dump_dir": str(folder)}[row.name]


def graph() -> es.Graph:
    builder = es.EsGraphBuilder("small")
    x = builder.CreateInput(0, "x", "f32", ["rows", 3])
    return builder.Build([es.exp(es.relu(x)) + 1.0])


@rows
def test_es_takes_it(row: EngineOption, tmp_path: pathlib.Path) -> None:
    program = graph().compile(**{row.name: another_value(row, tmp_path)})
    (result,) = program.run([np.array([[-1, 0, 0]], np.float32)])
    assert result.tolist() == [[2, 2, 2]]


def test_es_says_what_is_wrong() -> None:
    with pytest.raises(es.EsError, match="no option 'fuze'; did you mean 'fuse'"):
        graph().compile(fuze=False)
    with pytest.raises(es.EsError, match="option 'fuse' takes true or false, got 'maybe'"):
        graph().compile(fuse="maybe")
    with pytest.raises(
        es.EsError, match="option 'level' takes a whole number from 0 to 3, got '4'"
    ):
        graph().compile(level=4)
    assert es.compile_options()["level"].default == 2


@rows
def test_torch_takes_it_or_says_what_decides_it(row: EngineOption, tmp_path: pathlib.Path) -> None:
    if not row.torch_name:
        assert row.torch_instead
        assert row.name not in GEX_OPTIONS
        return
    value = another_value(row, tmp_path)
    options = {row.torch_name: value}
    assert getattr(options_of(Config(GEX_OPTIONS, options)), row.name) == value
    compiled = torch.compile(lambda x: torch.exp(x.relu()) + 1, backend="gex", options=options)
    assert compiled(torch.tensor([-1.0, 0.0])).tolist() == [2, 2]


@pytest.mark.parametrize("row", [r for r in ENGINE_OPTIONS if r.npugraph_ex_name], ids=str)
def test_npugraph_ex_takes_it_under_its_own_name(row: EngineOption) -> None:
    name = row.npugraph_ex_name
    assert getattr(options_of(CompilerConfig()), row.name) == row.default
    if row.type != "bool":
        assert NPUGRAPH_EX_OPTIONS[name].default == row.default
        changed = CompilerConfig({name: row.highest})
        assert getattr(options_of(changed), row.name) == row.highest
        return
    assert NPUGRAPH_EX_OPTIONS[name].default is (bool(row.default) != row.npugraph_ex_is_inverted)
    changed = CompilerConfig({name: not NPUGRAPH_EX_OPTIONS[name].default})
    assert getattr(options_of(changed), row.name) is (not row.default)


@pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")
@rows
def test_the_command_takes_it(row: EngineOption, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "in.gex"
    file.write_text(graph().print())
    flag = row.flag
    if row.type != "bool":
        flag += "=" + text_of(another_value(row, tmp_path))
    words = [GEX, "run", file, "--dim=rows=1", "--input=x=zeros", flag]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "output_0: f32[1, 3]" in ran.stdout
    help_page = subprocess.run([GEX, "help", "run"], capture_output=True, text=True, check=True)
    assert row.flag in help_page.stdout


def test_runner_options_check_their_values() -> None:
    options = _gex.RunnerOptions()
    with pytest.raises(_gex.UserError, match="option 'level' takes a whole number from 0 to 3"):
        options.level = 9
    with pytest.raises(_gex.UserError, match="option 'fuse' takes true or false"):
        options.fuse = "no"
    options.disabled_passes = ["cse"]
    assert options.disabled_passes == ["cse"]


@rows
def test_variables_are_documented(row: EngineOption) -> None:
    if row.environment:
        assert f"`{row.environment}`" in (ROOT / "docs" / "environment.md").read_text()


# Files that may name the option: its line in the table, the field of C that is older than the
# table, and those that use it.
# Sessions of model files have one of their own: they are measured when they are loaded.
USES_OF_AUTOTUNE = {
    "include/gex/options.def",
    "include/gex/gex.h",
    "src/frontend/capi/program.cpp",
    "src/compile/compile.cpp",
    "src/backend/backend.hpp",
    "src/backend/cpu/code.cpp",
    "src/backend/cuda/cuda_backend.cpp",
    "tools/bench.cpp",
    "python/gex/dynamo/backends.py",
    "python/gex/debug/graph_forms.py",
    "include/gex/session.h",
    "include/gex/session.hpp",
    "python/gex/deploy/library.py",
    "python/gex/deploy/session.py",
    "src/deploy/build/text_code.cpp",
    "src/deploy/model.cpp",
    "src/deploy/model.hpp",
    "src/deploy/text_code.hpp",
    "src/frontend/capi/model.cpp",
    "tools/model_file.cpp",
}


def files_that_name(option: str) -> set[str]:
    word = re.compile(rf"(?<![\w-]){option}(?!\w)")
    found = set()
    for top in ("include", "src", "tools", "python"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".h", ".def", ".py"):
                code = re.sub(r"\"\"\".*?\"\"\"", "", path.read_text(), flags=re.DOTALL)
                code = re.sub(r"(//|#(?!define)|/?\*).*", "", code)
                if word.search(code):
                    found.add(path.relative_to(ROOT).as_posix())
    return found


def test_an_option_is_named_only_where_it_is_defined_and_used() -> None:
    assert files_that_name("autotune") == USES_OF_AUTOTUNE


@pytest.mark.parametrize("option", ["in_place_temps", "in_place_inputs", "static_code_at_once"])
def test_an_option_without_older_spellings_is_named_in_few_files(option: str) -> None:
    assert len(files_that_name(option)) <= 3
