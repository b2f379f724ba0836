"""Random ONNX models of one operator, compared with onnxruntime.

    python tests/python/onnx_random.py --seconds 600 [--only CASE] [--seed 0]

prints each model on which gex and onnxruntime differ, with the seed that makes it again. Models
that onnxruntime refuses are left out, and those where gex agrees with the reference implementation
of the onnx package. tests/python/test_onnx_random.py runs a fixed number of them."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import gex.onnx

onnxruntime.set_default_logger_severity(4)

Rng = np.random.Generator
FLOATS = [np.float32, np.float64, np.float16]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@dataclasses.dataclass
class Case:
    """One node; inputs are arrays, None where left out, or Fixed arrays: initialisers."""

    op: str
    inputs: list[Any]
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    outputs: int | list[str] = 1
    domain: str = ""
    opset: int | None = None
    # Relative to the largest number of an output; integers may differ by `steps`.
    tolerance: float = 1e-5
    steps: int = 0


@dataclasses.dataclass
class Fixed:
    array: np.ndarray


CASES: dict[str, Callable[[Rng], Case]] = {}


def case(make: Callable[[Rng], Case]) -> Callable[[Rng], Case]:
    CASES[make.__name__] = make
    return make


def choose(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def chance(rng: Rng, probability: float = 0.5) -> bool:
    return bool(rng.random() < probability)


def shape(
    rng: Rng, low: int = 0, high: int = 4, largest: int = 7, empty: float = 0.02
) -> list[int]:
    sizes = [int(d) for d in rng.integers(1, largest + 1, rng.integers(low, high + 1))]
    return [0 if chance(rng, empty) else d for d in sizes]


def numbers(rng: Rng, sizes: Any, dtype: Any = np.float32, low: float = -3, high: float = 3) -> Any:
    if dtype == np.bool_:
        return rng.integers(0, 2, sizes).astype(np.bool_)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        first, last = max(info.min, int(low)), min(info.max, int(high))
        return rng.integers(first, last + 1, sizes).astype(dtype)
    return np.asarray(rng.uniform(low, high, sizes)).astype(dtype)


def broadcast_pair(rng: Rng) -> tuple[list[int], list[int]]:
    """Two shapes that broadcast."""
    whole = shape(rng)

    def part() -> list[int]:
        kept = whole[int(rng.integers(len(whole) + 1)) if chance(rng, 0.3) else 0 :]
        return [1 if chance(rng, 0.25) else d for d in kept]

    return part(), part()


def axis_of(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def maybe_fixed(rng: Rng, array: np.ndarray, probability: float = 0.5) -> Any:
    return Fixed(array) if chance(rng, probability) else array


def some(rng: Rng, **attrs: Any) -> dict[str, Any]:
    """Some of these attributes."""
    return {name: value for name, value in attrs.items() if chance(rng)}


def node_of(made: Case) -> tuple[Any, dict[str, Any], list[Any]]:
    """The node, its inputs and its initialisers."""
    names, feeds, weights = [], {}, []
    for k, value in enumerate(made.inputs):
        names.append("" if value is None else f"x{k}")
        if isinstance(value, Fixed):
            weights.append(numpy_helper.from_array(value.array, f"x{k}"))
        elif value is not None:
            feeds[f"x{k}"] = value
    outputs = made.outputs
    if isinstance(outputs, int):
        outputs = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(made.op, names, outputs, domain=made.domain, **made.attrs)
    return node, feeds, weights


def model_of(made: Case, rng: Rng) -> tuple[bytes, dict[str, Any]]:
    """Sizes of inputs are numbers or names."""
    node, feeds, weights = node_of(made)
    named = chance(rng)
    inputs = []
    for name, array in feeds.items():
        sizes = [f"{name}_{k}" if named and d > 1 else d for k, d in enumerate(array.shape)]
        elem = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(name, elem, sizes))
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    opsets = {"": made.opset or int(rng.integers(13, 23)), "ai.onnx.ml": 3, "com.microsoft": 1}
    if made.domain == "ai.onnx.ml" and made.opset:
        opsets["ai.onnx.ml"], opsets[""] = made.opset, 18
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    made_model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return bytes(made_model.SerializeToString()), feeds


def difference(ours: Any, theirs: Any, made: Case) -> str | None:
    """What differs, or None."""
    if isinstance(theirs, list):
        if len(ours) != len(theirs):
            return f"{len(ours)} entries, not {len(theirs)}"
        return next((d for a, b in zip(ours, theirs) if (d := difference(a, b, made))), None)
    if isinstance(theirs, dict):
        return difference(list(ours.values()), [np.asarray(v) for v in theirs.values()], made)
    if theirs is None or ours is None:
        return None if ours is theirs else "one is absent"
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape:
        return f"shape {a.shape}, not {b.shape}"
    if a.dtype != b.dtype and b.dtype != object:
        return f"dtype {a.dtype}, not {b.dtype}"
    if b.dtype == object or b.dtype == np.bool_:
        return None if (a == b).all() else f"{a.ravel()[:8]}, not {b.ravel()[:8]}"
    return number_difference(a, b, made)


def number_difference(a: np.ndarray, b: np.ndarray, made: Case) -> str | None:
    if np.issubdtype(b.dtype, np.integer):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
        if apart.max(initial=0) <= made.steps:
            return None
    else:
        wide, other = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(other)
        special = np.isnan(wide) == np.isnan(other)
        special &= (np.isinf(wide) == np.isinf(other)) | finite
        scale = max(1e-3, np.abs(other[finite]).max(initial=0))
        tolerance = max(made.tolerance, 4e-3 if b.dtype == np.float16 else 0)
        apart = np.where(finite, np.abs(wide - np.where(finite, other, 0)), 0) / scale
        if special.all() and not (apart > tolerance).any() and not np.isnan(apart).any():
            return None
    at = np.unravel_index(int(np.argmax(np.nan_to_num(apart, nan=np.inf))), a.shape)
    return f"{a[at]}, not {b[at]}, at {tuple(int(k) for k in at)} of {a.shape}"


def theirs_of(model: bytes, feeds: dict[str, Any]) -> list[Any] | None:
    """onnxruntime's outputs; None if it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception:  # any of its exception types: it says that the model is not for it
        return None


def check(made: Case, rng: Rng) -> str | None:
    """What is wrong, "" if onnxruntime refuses the model, else None."""
    try:
        model, feeds = model_of(made, rng)
    except (ValueError, TypeError) as error:
        raise AssertionError(f"{made}: {error}") from error
    theirs = theirs_of(model, feeds)
    if theirs is None:
        return ""
    try:
        ours = list(gex.onnx.loads(model).run(feeds))
    except gex.Error as error:
        return f"refused: {error}"
    wrong = difference(ours, theirs, made)
    return None if wrong is None or is_as_defined(model, feeds, ours, made) else wrong


def is_as_defined(model: bytes, feeds: dict[str, Any], ours: list[Any], made: Case) -> bool:
    """Whether the reference implementation of the onnx package gives what gex gives."""
    if made.domain == "com.microsoft":
        return False
    try:
        expected = ReferenceEvaluator(onnx.load_from_string(model)).run(None, feeds)
    except Exception:  # any of NumPy's: it does not know the case either
        return False
    return difference(ours, list(expected), made) is None


def one(name: str, seed: int) -> tuple[Case, str | None]:
    rng = np.random.default_rng([seed, len(name), *name.encode()])
    made = CASES[name](rng)
    return made, check(made, rng)


def describe(made: Case) -> str:
    inputs = [
        "-" if x is None
        else f"{'fixed ' if isinstance(x, Fixed) else ''}{array.dtype}{list(array.shape)}"
        + (f"={array.tolist()}" if array.size < 7 else "")
        for x in made.inputs
        for array in [x.array if isinstance(x, Fixed) else x]
    ]  # fmt: skip
    return f"{made.domain}.{made.op}-{made.opset} {made.attrs} {inputs}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=3, help="differences shown of each case")
    arguments = parser.parse_args()
    shown: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    failed: collections.Counter[str] = collections.Counter()
    names = [name for name in CASES if arguments.only in name]
    end, seed = time.monotonic() + arguments.seconds, arguments.seed
    while time.monotonic() < end:
        for name in names:
            try:
                made, wrong = one(name, seed)
            except Exception:  # reported and counted: the run goes on
                failed[name] += 1
                print(f"{name} {seed}: {traceback.format_exc(limit=3)}", flush=True)
                continue
            counts[name] += 1
            refused[name] += wrong == ""
            if wrong:
                shown[name] += 1
                if shown[name] <= arguments.show:
                    print(f"{name} {seed}: {describe(made)}\n    {wrong[:300]}", flush=True)
        seed += 1
    useless = [name for name in names if refused[name] == counts[name]]
    print(f"{sum(counts.values())} models, {sum(refused.values())} refused by onnxruntime,")
    print(f"{sum(shown.values())} differ: {dict(shown)}; never run by onnxruntime: {useless}")
    print(f"{sum(failed.values())} raised an error other than gex.Error: {dict(failed)}")
    return 1 if shown or failed else 0


if __name__ == "__main__":
    # The cases register themselves with the module of this name.
    import onnx_random
    import onnx_random_contrib  # noqa: F401
    import onnx_random_neural  # noqa: F401
    import onnx_random_tensor  # noqa: F401

    sys.exit(onnx_random.main())
