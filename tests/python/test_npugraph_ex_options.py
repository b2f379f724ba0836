"""Options of npugraph_ex: what is rejected and how, and that none leaks into another compile."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import gex
from gex.debug.logs import EVENT, logger
from gex.dynamo import backends
from gex.npugraph_ex import CompilerConfig

BOTH_TYPES = "(type: <class 'str'>) not in optional list [True, False] (type: <class 'bool'>)"


def compile_with(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="npugraph_ex", fullgraph=True, options=options)


def error_of(**options: Any) -> BaseException:
    """What the first call raises, as the cause that Dynamo wraps."""
    with pytest.raises(BackendCompilerFailed) as caught:
        compile_with(lambda x: x + 1, **options)(torch.ones(2))
    return caught.value.inner_exception


def test_case_22_an_invalid_pool_handle_reports_value_and_type() -> None:
    error = error_of(use_graph_pool="a")
    assert isinstance(error, TypeError)
    assert "'a'" in str(error) and "<class 'str'>" in str(error) and "2 ints" in str(error)


def test_case_23_an_invalid_bool_option_reports_value_type_and_allowed_values() -> None:
    error = error_of(inplace_pass="test")
    assert isinstance(error, ValueError)
    assert BOTH_TYPES in str(error)


def test_case_23_an_unknown_option_is_named_with_all_that_exist() -> None:
    error = error_of(nope=1)
    assert isinstance(error, ValueError)
    assert "'nope'" in str(error) and "'inplace_pass'" in str(error)


def test_an_unknown_option_suggests_the_nearest() -> None:
    assert "did you mean 'remove_cat_ops'?" in str(error_of(remove_cat_op=True))


@pytest.mark.parametrize("limit", ["8", 0, 2**63])
def test_case_24_a_capture_limit_out_of_range_is_refused(limit: object) -> None:
    assert isinstance(error_of(capture_limit=limit), ValueError)


@pytest.mark.parametrize("limit", [1, 2**63 - 1])
def test_case_24_the_ends_of_the_range_are_accepted(limit: int, device: str) -> None:
    x = torch.randn(3, device=device)
    assert torch.equal(compile_with(lambda x: x + 1, capture_limit=limit)(x), x + 1)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_case_25_each_capture_error_mode_works_and_shows_in_the_code(
    mode: str, device: str
) -> None:
    x = torch.randn(3, device=device)
    assert torch.equal(compile_with(lambda x: x + 1, capture_error_mode=mode)(x), x + 1)
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x: [x + 1])(x)
    compiled = gex.npugraph_ex.compile_fx(gm, [x], {"capture_error_mode": mode})
    assert f"capture_error_mode = {mode!r}" in compiled.dump_artifacts().code


def test_case_25_another_capture_error_mode_lists_the_three() -> None:
    error = error_of(capture_error_mode="xxxxx")
    assert isinstance(error, ValueError)
    assert "not in optional list ['global', 'thread_local', 'relaxed']" in str(error)


def test_case_26_a_missing_dump_directory_and_an_invalid_pass() -> None:
    missing = error_of(data_dump_dir="no/such/place")
    assert isinstance(missing, FileNotFoundError) and "no/such/place" in str(missing)
    assert isinstance(error_of(post_grad_custom_pre_pass=3), TypeError)
    assert isinstance(error_of(post_grad_custom_post_pass="p"), TypeError)


def test_case_27_options_of_one_compile_never_reach_another(device: str) -> None:
    seen: list[bool] = []

    def look(gm: Any, example_inputs: Any, config: Any) -> None:
        seen.append(config.clone_output.value)
        config.clone_output = not config.clone_output.value

    x = torch.randn(3, device=device)
    for given in (True, False):
        options = {"post_grad_custom_pre_pass": look}
        if given:
            options["clone_output"] = True
        torch._dynamo.reset()
        compile_with(lambda x: x + 1, **options)(x)
    assert seen == [True, False]


def test_an_option_that_torch_compile_reads_itself_is_never_refused(device: str) -> None:
    kept = compile_with(lambda x: x + 1, guard_filter_fn=lambda guards: [True for _ in guards])
    assert torch.equal(kept(torch.ones(2, device=device)), torch.full((2,), 2.0, device=device))


def test_mode_warns_once_that_it_has_no_effect(device: str) -> None:
    backends._warn_about_mode.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch._dynamo.reset()
            fn = torch.compile(lambda x: x + 1, backend="npugraph_ex", mode="max-autotune")
            fn(torch.ones(2, device=device))
    assert sum("mode has no effect" in str(w.message) for w in caught) == 1


def test_disable_is_plain_eager(device: str) -> None:
    with gex.collect() as graphs:
        torch.compile(lambda x: x + 1, backend="npugraph_ex", disable=True)(
            torch.ones(2, device=device)
        )
    assert graphs == []


# --- super kernels ----------------------------------------------------------------------------


def test_super_kernels_are_reported_as_merging_nothing(device: str) -> None:
    options = {
        "super_kernel_optimize": True,
        "super_kernel_optimize_options": {
            "preload_code": 1,
            "opt_extend": "x",
            "dcci_before_kernel_start": ["a"],
            "aggressive_opt_strategies": {"event_breaker_bypass": 1},
        },
        "super_kernel_debug_options": {"debug_sync_all": 1},
    }
    x = torch.randn(3, device=device)
    with gex.collect() as graphs:
        assert torch.equal(compile_with(lambda x: x + 1, **options)(x), x + 1)
    assert "nothing was merged" in graphs[0].text()
    with gex.collect() as graphs:
        compile_with(lambda x: x + 2)(x)
    assert "nothing was merged" not in graphs[0].text()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"preload_cod": 1}, ["preload_cod", "'preload_code'"]),
        ({"preload_code": "1"}, ["preload_code", "<class 'int'>", "<class 'str'>"]),
        ({"dcci_after_kernel_end": [1]}, ["dcci_after_kernel_end", "<class 'str'>"]),
        ({"aggressive_opt_strategies": {"nope": 1}}, ["aggressive_opt_strategies", "nope"]),
    ],
)
def test_options_of_super_kernels_are_checked(options: dict[str, Any], told: list[str]) -> None:
    error = error_of(super_kernel_optimize=True, super_kernel_optimize_options=options)
    assert isinstance(error, RuntimeError)
    assert "super_kernel_optimize_options" in str(error)
    for part in told:
        assert part in str(error)


def test_super_kernel_scopes_change_no_value_and_have_names(device: str) -> None:
    begin = gex.npugraph_ex.super_kernel_scope_begin
    end = gex.npugraph_ex.super_kernel_scope_end

    def fn(x: torch.Tensor) -> torch.Tensor:
        begin("outer")
        y = x + 1
        begin()
        y = y * 2
        end()
        end("outer")
        return y

    x = torch.randn(3, device=device)
    assert torch.equal(compile_with(fn)(x), fn(x))
    with pytest.raises(RuntimeError, match="blank"):
        begin(" ")


# --- the configuration ------------------------------------------------------------------------


def test_a_configuration_shows_what_was_changed() -> None:
    config = CompilerConfig()
    assert config.changed() == {}
    config.clone_output = True
    assert config.changed() == {"clone_output": True}
    assert repr(config) == "CompilerConfig(clone_output=True)"
    with pytest.raises(ValueError, match="did you mean 'clone_output'"):
        config.clone_outputs = True


def test_a_backend_made_of_a_configuration_has_its_options_and_decompositions(device: str) -> None:
    seen: list[bool] = []
    config = CompilerConfig()
    config.post_grad_custom_pre_pass = lambda gm, inputs, given: seen.append(
        given.remove_cat_ops.value
    )
    config.remove_cat_ops = False
    backend = gex.npugraph_ex.get_npu_backend(
        compiler_config=config,
        custom_decompositions={torch.ops.aten.add.Tensor: lambda a, b: a * 3},
    )
    a, b = torch.randn(3, device=device), torch.randn(3, device=device)
    compiled = torch.compile(lambda a, b: a + b, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(a, b), a * 3)
    assert seen == [False]
    with pytest.raises(TypeError, match="CompilerConfig"):
        gex.npugraph_ex.get_npu_backend(compiler_config={"clone_output": True})  # type: ignore


# --- log and environment ----------------------------------------------------------------------


@pytest.fixture
def log_lines() -> Any:
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler, level = Keep(), logger.level
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)
    logger.setLevel(level)


def swap(gm: Any, example_inputs: Any, config: Any) -> None:
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        with gm.graph.inserting_after(node):
            other = gm.graph.call_function(torch.ops.aten.sub.Tensor, node.args)
        node.replace_all_uses_with(other)
        gm.graph.erase_node(node)


def test_debug_lines_describe_each_pass(log_lines: list[logging.LogRecord], device: str) -> None:
    logger.setLevel(logging.DEBUG)
    compile_with(lambda a, b: a + b, post_grad_custom_pre_pass=swap)(
        torch.ones(2, device=device), torch.ones(2, device=device)
    )
    text = "\n".join(r.getMessage() for r in log_lines)
    assert "After fx graph pass(post_grad_custom_pre_pass) optimization" in text
    assert "4 nodes before, 4 after" in text
    assert "removed: add" in text and "added: sub" in text
    assert ": 0 -> 1" in text and ": 1 -> 0" in text
    assert "After fx graph pass(all_passes) optimization" in text
    assert "generated code" in text


def test_info_has_none_of_the_debug_lines(log_lines: list[logging.LogRecord], device: str) -> None:
    logger.setLevel(logging.INFO)
    compile_with(lambda a, b: a + b, post_grad_custom_pre_pass=swap)(
        torch.ones(2, device=device), torch.ones(2, device=device)
    )
    assert log_lines == []


def test_force_eager_logs_a_warning(log_lines: list[logging.LogRecord], device: str) -> None:
    logger.setLevel(logging.WARNING)
    x = torch.randn(3, device=device)
    assert torch.equal(compile_with(lambda x: x + 1, force_eager=True)(x), x + 1)
    assert [r.levelname for r in log_lines] == ["WARNING"]
    assert "eager" in log_lines[0].getMessage()


def test_the_log_writes_errors_to_stdout_in_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    logger.warning("not shown")
    logger.log(EVENT, "neither")
    logger.error("shown")
    out = capsys.readouterr().out
    assert out.startswith(f"[ERROR] NPUGRAPH_EX({os.getpid()},") and out.endswith(" shown\n")
    assert "not shown" not in out and "neither" not in out
    assert "[test_npugraph_ex_options.py:" in out
    assert logging.getLevelName(EVENT) == "EVENT"


_BREAKS = """
import torch, gex
def fn(x, linear):
    y = x + 1
    y = y[:2] * 3
    y[0] = 5.0
    return linear(y).relu()
linear = torch.nn.Linear(4, 4)
x = torch.randn(3, 4)
with torch.no_grad(), gex.collect() as graphs:
    compiled = torch.compile(fn, backend="npugraph_ex")
    torch.testing.assert_close(compiled(x, linear), fn(x, linear))
print(len(graphs))
"""


def graphs_with(names: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(_BREAKS)
    env = {**os.environ, "BREAK_GRAPH_OP_LIST": names}
    command = [sys.executable, str(script)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("names", "graphs"),
    [
        pytest.param("", 1, marks=pytest.mark.slow),
        ("SLICE", 2),
        pytest.param("SETITEM", 2, marks=pytest.mark.slow),
        pytest.param("NN.LINEAR", 2, marks=pytest.mark.slow),
        pytest.param("SLICE, SETITEM,NN.LINEAR,NN.CONV3D", 3, marks=pytest.mark.slow),
    ],
)
def test_break_graph_op_list_ends_graphs_there(names: str, graphs: int, tmp_path: Path) -> None:
    done = graphs_with(names, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) == graphs


def test_break_graph_op_list_refuses_unknown_names(tmp_path: Path) -> None:
    done = graphs_with("SLICES", tmp_path)
    assert done.returncode != 0
    assert "unknown name 'SLICES'; did you mean 'SLICE'?" in done.stderr
    assert "NN.CONV3D" in done.stderr
