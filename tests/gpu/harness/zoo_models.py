"""One model of tests/python/zoo in one mode: compiled, compared with eager on the device."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers

from zoo import harness
from zoo.families import MODELS


def units(mode: str) -> list[str]:
    return [name for name, model in MODELS.items() if mode in harness.modes(model)]


def make(arguments: list[str]) -> Callable[[str], dict[str, Any]]:
    """Arguments: device, mode."""
    device, mode = arguments
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    # Eager is to be as exact as f32 allows.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if device == "cuda":
        torch.zeros(1, device="cuda")
    return lambda unit: _answer(unit, mode, device)


def _answer(name: str, mode: str, device: str) -> dict[str, Any]:
    model = MODELS[name]
    if reason := model.cannot.get(mode):
        return {"outcome": "left out", "detail": f"PyTorch itself can't: {reason}"}
    if not hasattr(transformers, model.config):
        return {"outcome": "left out", "detail": f"transformers has no {model.config}"}
    run = harness.modes(model)[mode]
    try:
        found = run(model, device=device)
    except Exception as problem:  # every failure is a finding about the model
        text = _text(problem)
        outcome = "wrong" if isinstance(problem, harness.Difference) else "error"
        if _fails_without_gex(run, model, device, problem):
            return {"outcome": "left out", "detail": f"fails without gex too: {text}"}
        return {"outcome": outcome, "detail": text}
    if not found.graphs:
        return {"outcome": "error", "detail": "gex compiled no graph"}
    return {"outcome": "call" if found.calls else "right", "figures": _figures(found)}


def _text(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:600]


def _fails_without_gex(run: harness.Mode, model: Any, device: str, problem: Exception) -> bool:
    """Whether PyTorch's own backend fails alike: what is traced is not what eager mode does."""
    try:
        run(model, backend="aot_eager", device=device)
    except harness.Difference:
        return isinstance(problem, harness.Difference)
    except Exception as other:  # of whatever kind gex met
        return _text(other) == _text(problem)
    return False


def _figures(found: harness.Finding) -> dict[str, Any]:
    steady = found.steady
    return {
        "graphs": found.graphs,
        "compiled again": found.recompiled,
        "native share of nodes": round(found.native_share, 4),
        "largest error": float(f"{found.error:.1e}"),
        "first call s": round(found.first_call, 2),
        "launches in a call": steady["launches"],
        "in graphs": steady["graph_launches"],
        "calls through PyTorch": steady["host_calls"],
        "calls": {f"{op}: {found.reasons[op]}": n for op, n in found.calls.items()},
    }
