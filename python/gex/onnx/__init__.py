"""ONNX models without PyTorch: ``gex.onnx.load("model.onnx").run({"x": array})``."""

from gex.onnx.session import Model, Port, load, loads

__all__ = ["Model", "Port", "load", "loads"]
