"""The ``onnx.backend.base.Backend`` of gex, which the tests of the onnx package use."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from gex import _gex
from gex.onnx import Model, loads
from gex.onnx.elements import element_of


class GexRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **_kwargs: Any) -> tuple[Any, ...]:
        """The outputs of the model, in order."""
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        # Trailing optional inputs may be omitted.
        if not isinstance(inputs, dict) and len(inputs) < len(self.model.inputs):
            inputs = list(inputs) + [None] * (len(self.model.inputs) - len(inputs))
        return tuple(self.model.run(inputs))


def _target_of(device: str) -> str:
    where = Device(device)
    return f"cuda:{where.device_id}" if where.type == DeviceType.CUDA else "cpu"


class GexBackend(Backend):
    """Runs models on the CPU or a CUDA device."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> GexRep:
        """Imports nothing yet: that happens with the first inputs."""
        target = _target_of(device)
        return GexRep(loads(model.SerializeToString(), target=target, **kwargs))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node of the default domain (or `opset_imports`) as a model of its own."""
        arrays = [np.asarray(array) for array in inputs]
        names = [name for name in node.input if name]
        infos = [
            onnx.helper.make_tensor_value_info(name, element_of(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", infos, results)
        model = onnx.helper.make_model(graph, opset_imports=kwargs.pop("opset_imports", None))
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The CPU, and CUDA devices that are there."""
        return _gex.can_open_target(_target_of(device))


prepare = GexBackend.prepare
run_model = GexBackend.run_model
run_node = GexBackend.run_node
supports_device = GexBackend.supports_device
