"""Code in the docs: extension guides are built by tests/guide, snippets are run."""

from __future__ import annotations

import itertools
import logging
import os
import pathlib
import re
import sys
import textwrap
import types
from collections.abc import Iterator

import pytest
import torch

import gex
from gex import passes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = {"add_an_op.md": "op", "add_a_pass.md": "pass", "add_a_kernel.md": "kernel"}

_numbers = itertools.count()
PAGES_TO_RUN = sorted(
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    if not path.name.endswith(".zh.md")  # has the snippets of the English page
)
_MODEL = "import torch, gex\nmodel, x = torch.nn.Linear(3, 3), torch.ones(2, 3)\n"
# What stands in for the user's own model and file in snippets that begin with them.
GIVEN = {
    "README.md": _MODEL,
    "docs/index.md": _MODEL,
    "docs/tour.md": _MODEL,
    "docs/artifact.md": _MODEL + 'gex.compile(model, (x,)).save("model.gexe", input_names=["x"])\n',
    "docs/torch.md": _MODEL + "data = [(x, torch.zeros(len(x), dtype=torch.int64))]\n",
    "docs/onnx.md": """
import numpy, onnx
from onnx import TensorProto, helper
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3]) for n in "xy")
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.save(model, "model.onnx")
array = numpy.ones((2, 3), numpy.float32)
""",
}


def blocks(page: pathlib.Path, language: str) -> list[str]:
    """Also those inside lists."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", page.read_text(), re.M | re.S)
    return [textwrap.dedent(block) for block in found]


@pytest.mark.parametrize("page", PAGES)
def test_every_example_is_in_the_test_that_builds_it(page: str) -> None:
    source = (ROOT / "tests" / "guide" / f"{PAGES[page]}_test.cpp").read_text()
    examples = blocks(ROOT / "docs" / page, "cpp")
    assert examples
    for example in examples:
        assert example in source, f"docs/{page} and tests/guide differ:\n{example}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_pages_name_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`((?:src|tests|bench|docs)/[\w./]+\.(?:cpp|hpp|md|py))`", text)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_contributing_leads_to_the_pages() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for page in PAGES:
        assert f"docs/{page}" in text


CHINESE = [ROOT / "README.zh.md", *sorted((ROOT / "docs").glob("*.zh.md"))]
# Translated as a whole. The other pages have what a user needs, and lead to the English page.
COMPLETE = [
    *("README", "add_a_kernel", "add_a_pass", "add_an_op", "command", "environment", "layers"),
    *("npu", "npugraph_ex", "quantization", "service", "text"),
]


@pytest.mark.parametrize("chinese", CHINESE, ids=lambda path: path.name)
def test_chinese_pages_have_the_same_sections_and_snippets(chinese: pathlib.Path) -> None:
    english = chinese.with_name(chinese.name.replace(".zh", ""))
    pages = (english, chinese)
    headings = [len(re.findall(r"^## ", p.read_text(), re.MULTILINE)) for p in pages]
    rows = [len(re.findall(r"^\| ", p.read_text(), re.MULTILINE)) for p in pages]
    for language in ("python", "cpp"):
        theirs, ours = (blocks(page, language) for page in pages)
        if chinese.name.removesuffix(".zh.md") in COMPLETE:
            assert ours == theirs
        else:
            assert [block for block in theirs if block in ours] == ours
    if chinese.name.removesuffix(".zh.md") in COMPLETE:
        assert headings[0] == headings[1]
        assert rows[0] == rows[1]
    else:
        assert headings[0] >= headings[1]
        assert f"({english.name}" in chinese.read_text()


@pytest.mark.parametrize("chinese", CHINESE, ids=lambda path: path.name)
def test_chinese_pages_use_the_terms_of_ascend(chinese: pathlib.Path) -> None:
    text = chinese.read_text()
    for word in ("就地", "垫片", "核函数", "降级", "追踪", "文件夹", "形状"):
        assert word not in text, word
    prose = re.sub(
        r"```.*?```|`[^`]*`|\]\([^)]*\)|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE
    )
    assert re.findall(r"[^\n]*\bkernels?\b[^\n]*", prose.replace("**kernels**", "")) == []


@pytest.mark.parametrize("kind", ["", ".zh"])
def test_each_limit_in_the_guide_has_its_test(kind: str) -> None:
    tests = (ROOT / "tests" / "python" / "test_npugraph_ex_limits.py").read_text()
    page = (ROOT / "docs" / f"npugraph_ex{kind}.md").read_text()
    listed = re.findall(r"^\| (\d+) \|.*`(test_limit_\w+)` \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in listed] == list(range(1, 21))
    assert [name for _, name in listed] == re.findall(r"^def (test_limit_\w+)", tests, re.MULTILINE)


SNIPPETS = [
    pytest.param(GIVEN.get(page, "") + block, id=f"{page}-{i}")
    for page in PAGES_TO_RUN
    for i, block in enumerate(blocks(ROOT / page, "python"))
]


@pytest.fixture
def settings_as_they_were() -> Iterator[None]:
    """Snippets may change process-wide settings."""
    environment, log = dict(os.environ), logging.getLogger("npugraph_ex")
    level, handlers = log.level, list(log.handlers)
    levels = [handler.level for handler in handlers]
    registered = passes.get_registered_passes()
    with torch._dynamo.config.patch(debug_dir_root=torch._dynamo.config.debug_dir_root):
        yield
    for name in set(passes.get_registered_passes()) - set(registered):
        passes.unregister(name)  # programs with a pass without a version are not cached
    os.environ.clear()
    os.environ.update(environment)
    log.setLevel(level)
    log.handlers[:] = handlers
    for handler, its_level in zip(handlers, levels):
        handler.setLevel(its_level)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippets_run_unchanged(
    snippet: str,
    settings_as_they_were: None,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"snippet_{next(_numbers)}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # PyTorch 2.11 looks it up, once
    exec(compile(snippet, "<snippet>", "exec"), module.__dict__)


def test_the_graph_on_the_page_about_text_reads_back() -> None:
    page = (ROOT / "docs" / "text.md").read_text()
    (example,) = re.findall(r"^    symbols.*?^    \}$", page, re.M | re.S)
    graph = gex.Graph.parse(textwrap.dedent(example))
    assert gex.Graph.parse(graph.text()).text() == graph.text()
    assert "ties(0 -> 0)" in graph.text() and "regions(" in graph.text()
