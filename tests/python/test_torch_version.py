"""Versions of PyTorch that gex was not tested with."""

from __future__ import annotations

import warnings

import pytest
import torch

import gex
from gex.compat import torch_version


def messages() -> list[str]:
    """Of two compilations by each way."""
    torch_version._warn_about.cache_clear()
    with warnings.catch_warnings(record=True) as seen, torch.no_grad():
        warnings.simplefilter("always")
        for factor in (2.0, 3.0):
            torch._dynamo.reset()
            torch.compile(lambda x, factor=factor: x * factor, backend="gex")(torch.ones(2))
            gex.compile(torch.nn.ReLU(), (torch.ones(2),))
    return [str(w.message) for w in seen if "tested with PyTorch" in str(w.message)]


def test_an_unknown_version_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_version, "TESTED", ("1.0", "1.1"))
    assert messages() == [f"gex is tested with PyTorch 1.0 and 1.1; this is {torch.__version__}"]


def test_a_tested_version_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    series = ".".join(torch.__version__.split(".")[:2])
    monkeypatch.setattr(torch_version, "TESTED", ("1.0", series))
    assert messages() == []
