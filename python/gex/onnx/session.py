"""An ONNX model that is run on NumPy arrays."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gex import _gex
from gex.onnx.elements import STRING, dtype_of, element_of


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output: its name, kind and, for tensors, element type and sizes."""

    name: str
    kind: str  # "tensor", "sequence" or "optional"
    element: int  # TensorProto.DataType
    shape: tuple[int | str, ...] | None
    type: Mapping[str, Any]


def _packed(value: Any, type_: Mapping[str, Any]) -> Any:
    """The value in the form that the extension takes."""
    if type_["kind"] == "optional":
        return {"optional": None if value is None else _packed(value, type_["inner"])}
    if value is None:
        return None
    if type_["kind"] == "sequence":
        return [_packed(item, type_["inner"]) for item in value]
    array = np.asarray(value)
    element = type_["elem"]
    if element == STRING or array.dtype.kind in "OUS":
        texts = [
            text if isinstance(text, bytes) else str(text).encode()
            for text in array.reshape(-1).tolist()
        ]
        return (STRING, list(array.shape), texts)
    array = np.ascontiguousarray(array).reshape(array.shape)
    given = element_of(array.dtype)
    # One-byte ml_dtypes and bfloat16 have no buffer format, so their bytes are passed.
    return (given, list(array.shape), array.reshape(-1).view(np.uint8) if array.size else b"")


def _unpacked(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    element, shape, contents = value
    if element == STRING:
        array = np.empty(len(contents), dtype=object)
        array[:] = [text.decode() for text in contents]
        return array.reshape(shape)
    return np.frombuffer(contents, dtype=dtype_of(element)).reshape(shape)


def _result(value: Any, type_: Mapping[str, Any]) -> Any:
    """An output. Maps with the same keys come as the keys and the values."""
    result = _unpacked(value)
    if type_["kind"] == "sequence" and type_["inner"]["kind"] == "map":
        keys = result[0].tolist()
        return [dict(zip(keys, row, strict=True)) for row in result[1].tolist()]
    return result


class Model:
    """An ONNX model, compiled at its first call.

    One compiled program serves all sizes that the model leaves open. If sizes or branches depend on
    values (such as the shape input of a Reshape), there is one program for each such value.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.inputs = [self._port(name, type_) for name, type_ in session.inputs]
        self.outputs = [self._port(name, type_) for name, type_ in session.outputs]

    @staticmethod
    def _port(name: str, type_: Mapping[str, Any]) -> Port:
        shape = tuple(type_["shape"]) if "shape" in type_ else None
        return Port(name, type_["kind"], type_["elem"], shape, type_)

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """Runs the model on arrays by name or in order. Returns the outputs in order."""
        if isinstance(inputs, Mapping):
            known = {port.name for port in self.inputs}
            if unknown := sorted(set(inputs) - known):
                raise ValueError(f"unknown inputs: {unknown}; the model has {sorted(known)}")
            inputs = [inputs.get(port.name) for port in self.inputs]
        if len(inputs) != len(self.inputs):
            raise ValueError(f"the model takes {len(self.inputs)} inputs, got {len(inputs)}")
        packed = [_packed(v, port.type) for v, port in zip(inputs, self.inputs, strict=True)]
        results = self._session.run(packed)
        return [_result(v, port.type) for v, port in zip(results, self.outputs, strict=True)]

    __call__ = run

    @property
    def statistics(self) -> dict[str, int]:
        """How often the model was imported, and how many programs were compiled."""
        return dict(self._session.statistics)


def load(
    path: str | pathlib.Path, *, static_shapes: bool = False, level: int = 2, target: str = "cpu"
) -> Model:
    """Loads a model from a file; external data is mapped from the same folder.

    `target` is the device that it is compiled for, "cpu" or "cuda:N". Arrays are NumPy's in both
    cases: calls copy them to the GPU and back.
    """
    return Model(_gex.OnnxSession.load(str(path), static_shapes, level, target=target))


def loads(
    data: bytes, *, static_shapes: bool = False, level: int = 2, target: str = "cpu"
) -> Model:
    """Loads a model from the bytes of its file. For the arguments see `load`."""
    return Model(_gex.OnnxSession.parse(data, static_shapes, level, target=target))
