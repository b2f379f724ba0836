"""`gex bisect`: the first stage, pass or kernel whose results differ, with the user's line."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

import gex
from gex import npugraph_ex, passes
from gex.debug.bisect import Bisector, Found, bisect, main
from gex.debug.graph_runs import Tolerance
from gex.fx_stage import replacements

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"


def calling(fn: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
    backend = options.pop("backend", "npugraph_ex")
    compiled = torch.compile(fn, backend=backend, dynamic=False, options=options)
    return lambda: compiled(*arguments)


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = torch.relu(x) * 2
    b = a - y  # the line that goes wrong
    return torch.softmax(b, -1)


LINE = f"test_npugraph_ex_bisect.py:{model.__code__.co_firstlineno + 2} in model"
X, Y = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(0, 2, 12).reshape(3, 4)


@pytest.fixture
def wrong_engine_pass() -> Iterator[None]:
    @passes.register_fusion_pass("turn-round", stage=passes.PassStage.EARLY)
    class TurnRound(passes.PatternPass):
        @passes.pattern
        def difference(self, inputs: Any) -> Any:
            return inputs[0] - inputs[1]

        def replacement(self, inputs: Any) -> Any:
            return inputs[1] - inputs[0]

    yield
    passes.unregister("turn-round")


def wrong_fx_pass(gm: GraphModule, example_inputs: Any, config: Any) -> None:
    (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sub.Tensor)
    node.target = torch.ops.aten.add.Tensor


def test_nothing_is_found_where_all_is_right(device: str) -> None:
    culprit, bisector = bisect(calling(model, X.to(device), Y.to(device)))
    assert culprit is None and bisector.graphs == 1 and bisector.compared == 1


def test_a_wrong_custom_pass_is_found(device: str) -> None:
    culprit, _ = bisect(
        calling(model, X.to(device), Y.to(device), post_grad_custom_pre_pass=wrong_fx_pass)
    )
    assert culprit is not None
    assert culprit.what == "FX stage post_grad_custom_pre_pass"
    assert any(LINE in line for line in culprit.lines)
    assert any(change.startswith("+ ") and "add" in change for change in culprit.changes)


def test_a_wrong_replacement_is_found(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(replacements, "_patterns", None)  # else it would stay for good

    def search(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.atan2(a, b).erf()

    def replace(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.atan2(b, a).erf()

    npugraph_ex.register_replacement(
        search, replace, [torch.ones(2, 2, device=device), torch.ones(2, 2, device=device)]
    )

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x + 3
        return torch.atan2(z, y).erf()

    culprit, _ = bisect(calling(fn, X.to(device), Y.to(device)))
    assert culprit is not None
    assert culprit.what == "FX stage apply_pattern_passes", culprit.text
    line = f"test_npugraph_ex_bisect.py:{fn.__code__.co_firstlineno + 2} in fn"
    assert any(line in found for found in culprit.lines), culprit.text


def test_a_wrong_pass_of_the_engine_is_found(wrong_engine_pass: None, device: str) -> None:
    culprit, _ = bisect(calling(model, X.to(device), Y.to(device)))
    assert culprit is not None
    assert culprit.what.startswith("pass turn-round (number 1 of")
    assert any(LINE in line for line in culprit.lines), culprit.text
    assert "right: force_eager" in culprit.text
    assert "right: the imported graph in the reference executor" in culprit.text


def test_the_wrong_pass_is_found_among_many(wrong_engine_pass: None, device: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.softmax(x + 0.0, -1).transpose(0, 1).transpose(0, 1) * 1.0
        return torch.nn.functional.layer_norm(x - y, (4,))

    culprit, _ = bisect(calling(fn, X.to(device), Y.to(device)))
    assert culprit is not None and culprit.what.startswith("pass turn-round (number 1 of")
    # The node, and the one behind it, which now reads a value with a name.
    assert [change[0] for change in culprit.changes] == ["-", "-", "+", "+"]
    assert len(culprit.lines) == 1


def test_a_value_written_into_an_argument_is_compared(wrong_engine_pass: None, device: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.sub_(y)
        return y + 1

    culprit, _ = bisect(calling(fn, X.to(device).clone(), Y.to(device)))
    assert culprit is not None and "pass turn-round" in culprit.what


def test_a_wrong_backward_is_found(wrong_engine_pass: None, device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)

    x = X.to(device).clone().requires_grad_()
    out = calling(fn, x)
    culprit, bisector = bisect(lambda: out().square().sum().backward())
    assert culprit is not None and "pass turn-round" in culprit.what
    assert bisector.graphs == 2


def test_calls_through_pytorch_are_run_again(
    capfd: pytest.CaptureFixture[str], device: str
) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.dropout(x, 0.5)
        gex.ops.print(x.sum(), "sum")
        return torch.linalg.inv(x @ x.T + torch.eye(3, device=device))

    torch.manual_seed(0)
    culprit, bisector = bisect(calling(fn, X.to(device)))
    assert culprit is None and bisector.compared == 1
    assert capfd.readouterr().out.count("sum:") >= 2


def test_a_kernel_is_named_where_rounding_is_not_allowed(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return torch.exp(y).sum(-1)

    x = torch.linspace(-3, 3, 1000, device=device).reshape(10, 100)
    culprit, _ = bisect(calling(fn, x), rtol=0.0, atol=0.0)
    assert culprit is not None
    first = f"test_npugraph_ex_bisect.py:{fn.__code__.co_firstlineno + 2} in fn"
    assert "exp (exp.default)" in culprit.what and any(first in line for line in culprit.lines)


def test_errors_of_aot_are_distinguished(device: str) -> None:
    bisector = Bisector(Tolerance(), 1)
    gm = torch.fx.symbolic_trace(lambda x: (x + 1,))
    wrong = bisector.dynamo_graph(gm, lambda x: (x + 2,))
    with pytest.raises(Found) as found:
        wrong(X.to(device))
    assert found.value.culprit.what.startswith("AOTAutograd")
    right = bisector.dynamo_graph(gm, lambda x: (x + 1,))
    assert torch.equal(right(X.to(device))[0], X.to(device) + 1)


def test_different_random_numbers_are_not_errors(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    culprit, bisector = bisect(calling(fn, X.to(device), random="fast"))
    assert bisector.compared == 0
    assert "random='fast'" in bisector.not_compared[0]
    assert culprit is None


def test_only_the_first_calls_are_compared(device: str) -> None:
    run = calling(model, X.to(device), Y.to(device))
    culprit, bisector = bisect(lambda: [run() for _ in range(5)], calls=3)
    assert culprit is None and bisector.compared == 3
    assert bisect(lambda: None)[1].graphs == 0


SCRIPT = """
import sys
import torch
from gex import passes

assert sys.argv[1:] == ["--flag", "value"], sys.argv
if WRONG:
    @passes.register_fusion_pass("turn-round", stage=passes.PassStage.EARLY)
    class TurnRound(passes.PatternPass):
        @passes.pattern
        def difference(self, inputs):
            return inputs[0] - inputs[1]

        def replacement(self, inputs):
            return inputs[1] - inputs[0]


def step(x, y):
    return (x.exp() - y).tanh()


compiled = torch.compile(step, backend="gex")
print("sum", compiled(torch.ones(4), torch.ones(4)).sum())
"""


@pytest.fixture
def script(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("WRONG", "True"))
    yield path
    passes.clear_registered_passes()


def test_the_command_runs_a_script_with_its_arguments(
    script: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(script), "--flag", "value"]) == 1
    text = capsys.readouterr().out
    assert "first wrong: pass turn-round" in text
    assert f"your line: {script}:19 in step" in text
    passes.clear_registered_passes()
    torch._dynamo.reset()
    script.write_text(SCRIPT.replace("WRONG", "False"))
    assert main([str(script), "--flag", "value"]) == 0
    assert "results equal eager mode" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")
def test_the_gex_command_starts_it(script: pathlib.Path) -> None:
    result = subprocess.run(
        [GEX, "bisect", "--calls", "1", script, "--flag", "value"],
        env={**os.environ, "GEX_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert "first wrong: pass turn-round" in result.stdout


@pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")
def test_the_gex_command_reports_what_it_needs(tmp_path: pathlib.Path) -> None:
    def run(*words: str, python: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GEX_PYTHON": python}
        return subprocess.run(
            [GEX, *words], env=env, capture_output=True, text=True, timeout=60, check=False
        )

    missing = run("diff", "a", "b", python=str(tmp_path / "no-python"))
    assert missing.returncode == 1 and "set GEX_PYTHON" in missing.stderr
    assert "Exit code 1" in run("diff", "--help", python="").stdout
    assert "SCRIPT.py" in run("help", "bisect", python="").stdout


def test_a_missing_script_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_script.py"]) == 1
    assert capsys.readouterr().err == "gex bisect: file 'no_such_script.py' does not exist\n"


def test_a_python_without_pytorch_is_reported() -> None:
    program = "import sys, runpy; sys.modules['torch'] = None; "
    program += "runpy.run_module('gex.bisect', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "has no PyTorch; set GEX_PYTHON" in done.stderr
    assert "Traceback" not in done.stderr
