"""Environment variables that are 0 or 1; docs/environment.md promises errors for other values."""

from __future__ import annotations

import pytest
import torch

import gex
from gex.debug import nan_check
from gex.environment import is_on
from gex.recording import NPUGraph, graph


@pytest.mark.parametrize(("value", "on"), [("", False), ("0", False), ("1", True)])
def test_a_switch_is_one_zero_or_unset(
    monkeypatch: pytest.MonkeyPatch, value: str, on: bool
) -> None:
    monkeypatch.setenv("GEX_CHECK_NAN", value)
    assert is_on("GEX_CHECK_NAN") is on
    assert nan_check.wanted({}) is on
    monkeypatch.delenv("GEX_CHECK_NAN")
    assert not nan_check.wanted({})


def test_other_values_are_errors_that_name_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEX_CHECK_NAN", "yes")
    with pytest.raises(gex.UserError, match="GEX_CHECK_NAN is 'yes': must be 0 or 1"):
        nan_check.wanted({})
    monkeypatch.setenv("TORCH_NPUGRAPH_GC", "on")
    with pytest.raises(gex.UserError, match="TORCH_NPUGRAPH_GC is 'on'"), graph(NPUGraph()):
        torch.ones(2)
