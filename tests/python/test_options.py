"""Option tables: defaults, types, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import gex
from gex import Graph
from gex.options.table import GEX_OPTIONS, NPUGRAPH_EX_OPTIONS, Config

X = torch.linspace(-1, 1, 15).view(3, 5)


def test_defaults_and_no_options_are_the_same() -> None:
    empty, none = Config(NPUGRAPH_EX_OPTIONS, {}), Config(NPUGRAPH_EX_OPTIONS, None)
    assert {n: empty.get(n) for n in empty} == {n: none.get(n) for n in none}
    assert empty.get("capture_limit") == 64
    assert empty.clone_input.value is True


def test_a_config_belongs_to_one_compile() -> None:
    Config(GEX_OPTIONS, {"capture_limit": 3})
    assert Config(GEX_OPTIONS).get("capture_limit") == 64


def test_unknown_key_lists_the_known_and_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'captur_limit'.*'capture_limit'.*Supported: \["):
        Config(NPUGRAPH_EX_OPTIONS, {"captur_limit": 3})


def test_names_are_strings() -> None:
    with pytest.raises(TypeError, match="names of options are strings, got 3"):
        Config(NPUGRAPH_EX_OPTIONS, {3: True})


@pytest.mark.parametrize("value", ["True", 2, None])
def test_bool_out_of_range(value: object) -> None:
    with pytest.raises(ValueError, match=r"not in optional list \[True, False\] \(type: <class"):
        Config(NPUGRAPH_EX_OPTIONS, {"force_eager": value})


def test_bool_message_for_text() -> None:
    with pytest.raises(ValueError) as error:
        Config(NPUGRAPH_EX_OPTIONS, {"clone_input": "True"})
    expected = "(type: <class 'str'>) not in optional list [True, False] (type: <class 'bool'>)"
    assert expected in str(error.value)


def test_zero_and_one_are_bools() -> None:
    config = Config(NPUGRAPH_EX_OPTIONS, {"clone_input": 0, "clone_output": 1})
    assert config.get("clone_input") is False
    assert config.get("clone_output") is True


def test_enum_out_of_range() -> None:
    with pytest.raises(ValueError) as error:
        Config(NPUGRAPH_EX_OPTIONS, {"capture_error_mode": "all"})
    assert "not in optional list ['global', 'thread_local', 'relaxed']" in str(error.value)


@pytest.mark.parametrize("value", ["64", 1.5, True])
def test_capture_limit_error_names_the_type(value: object) -> None:
    with pytest.raises(ValueError, match=str(type(value))):
        Config(NPUGRAPH_EX_OPTIONS, {"capture_limit": value})


@pytest.mark.parametrize("value", [0, -1, 2**63])
def test_capture_limit_error_names_range_and_value(value: int) -> None:
    with pytest.raises(ValueError, match=rf"\[1, {2**63 - 1}\], got {value}"):
        Config(NPUGRAPH_EX_OPTIONS, {"capture_limit": value})


def test_dump_directory_must_exist() -> None:
    with pytest.raises(FileNotFoundError, match="no/such/place"):
        Config(NPUGRAPH_EX_OPTIONS, {"data_dump_dir": "no/such/place"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("post_grad_custom_pre_pass", 3),
        ("super_kernel_optimize_options", [1]),
        ("_vllm_aclnn_static_kernel_sym_range", "12"),
        ("use_graph_pool", (1, 2)),
    ],
)
def test_wrong_types_name_both_types(name: str, value: object) -> None:
    with pytest.raises(TypeError) as error:
        Config(NPUGRAPH_EX_OPTIONS, {name: value})
    assert str(type(value)) in str(error.value)


def test_a_given_pool_is_not_shared_by_rollback() -> None:
    config = Config(NPUGRAPH_EX_OPTIONS, {"use_graph_pool": (0, 1)})
    assert config.get("reuse_graph_pool_in_same_fx") is False


def test_options_read_by_torch_compile_itself_pass() -> None:
    Config(NPUGRAPH_EX_OPTIONS, {"guard_filter_fn": lambda guards: guards})


def test_config_as_custom_passes_see_it() -> None:
    config = Config(NPUGRAPH_EX_OPTIONS)
    config.capture_limit = 3
    assert config.capture_limit.value == 3
    assert not config.force_eager
    with pytest.raises(ValueError, match="no_such_option"):
        config.no_such_option = 1


def test_bad_option_reaches_the_user_of_torch_compile() -> None:
    compiled = torch.compile(torch.relu, backend="npugraph_ex", options={"no_such_option": 1})
    with pytest.raises(Exception, match="no_such_option"):
        compiled(torch.ones(2))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_of_torch_compile(mode: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + 1, -1)

    x = torch.randn(5, 33)
    torch.testing.assert_close(torch.compile(fn, backend="gex", mode=mode)(x), fn(x))


def test_max_autotune_measures_candidates_for_matmuls() -> None:
    weights = torch.randn(96, 64)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weights + 1)

    x = torch.randn(48, 96)
    compiled = torch.compile(fn, backend="gex", mode="max-autotune")
    with gex.collect() as graphs:
        for _ in range(6):
            compiled(x)
    gex._gex.wait_for_background()
    torch.testing.assert_close(compiled(x), fn(x))
    tuned = [line for line in graphs[0].text().splitlines() if line.startswith("  tuned: ")]
    assert len(tuned) == 1
    assert "1x1x48x64x96 matmul" in tuned[0]
    assert " us" in tuned[0]

    plain = torch.compile(fn, backend="gex")
    with gex.collect() as graphs:
        for _ in range(6):
            plain(x)
    gex._gex.wait_for_background()
    assert "tuned" not in graphs[0].text()


@pytest.mark.parametrize("name", ["triton.cudagraphs", "trace.enabled", "enable_shape_handling"])
def test_options_that_other_backends_have(name: str, tmp_path: Path) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + 1, -1)

    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        for value in (True, False):
            torch.testing.assert_close(compiled_with({name: value}, fn)(X), fn(X))
    with pytest.raises(ValueError, match=rf"did you mean '{name}'"):
        Config(GEX_OPTIONS, {name + "s": True})


@pytest.mark.parametrize("executor", ["compiled", "interpreter"])
def test_tracing_writes_every_level_of_each_graph(tmp_path: Path, executor: str) -> None:
    options = {"trace.enabled": True, "executor": executor}
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        x = torch.ones(3, requires_grad=True)
        compiled_with(options, lambda x: (x * 2 + 0).exp().sum())(x).backward()
    folders = sorted(path.parent for path in tmp_path.rglob("imported.gex"))
    assert len(folders) == 2, "forward and backward"
    for folder in folders:
        assert "graph " in (folder / "imported.gex").read_text()
        if executor == "compiled":
            assert Graph.parse((folder / "graph.gex").read_text()) is not None
            assert "kernel" in (folder / "kernels.txt").read_text()
            assert "launch" in (folder / "program.txt").read_text()


def test_nothing_is_written_by_default(tmp_path: Path) -> None:
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        compiled_with({}, torch.exp)(X)
    assert list(tmp_path.iterdir()) == []


def test_fast_math_contracts_products_and_sums() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y - 1

    x = torch.full((64,), 1 + 2**-12)
    exact = compiled_with({}, fn)(x, x)
    assert torch.equal(exact, fn(x, x)), "the product is rounded before the sum, as in eager mode"
    fast = compiled_with({"fast_math": True}, fn)(x, x)
    assert float(fast[0]) == 2**-11 + 2**-24, "rounded once"
    with pytest.raises(Exception, match="unknown mode 'maximum'"):
        torch.compile(fn, backend="gex", mode="maximum")(x, x)


def compiled_with(options: dict[str, Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend="gex", options=options)


def test_the_interpreter_gives_random_calls_their_own_operands() -> None:
    mean, deviation = torch.full((5, 2, 3), -4.0), torch.full((1, 2, 3), 0.5)
    fn = torch.compile(torch.normal, backend="gex", options={"executor": "interpreter"})
    torch.manual_seed(0)
    expected = torch.normal(mean, deviation)
    torch.manual_seed(0)
    assert torch.equal(fn(mean, deviation), expected)
