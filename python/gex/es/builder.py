"""EsGraphBuilder with C++'s names, and with the reference's Python names in snake case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from gex._gex import DType
from gex._gex import es as _es
from gex.es import holder, literals
from gex.es.graph import Graph
from gex.es.holder import TensorHolder, TensorLike
from gex.es.literals import DTypeLike, Number, Size

_INPUT_TYPES = ("Data",)


class EsGraphBuilder:
    """Builds one graph: inputs, constants, nodes, outputs, then Build()."""

    def __init__(self, name: str | None = None) -> None:
        self._native = _es.Builder("graph" if name is None else name)

    name = property(lambda self: self._native.name)

    def __copy__(self) -> EsGraphBuilder:
        raise RuntimeError("an EsGraphBuilder can't be copied")

    def __deepcopy__(self, memo: object) -> EsGraphBuilder:
        return self.__copy__()

    # --- inputs ------------------------------------------------------------------------------

    def CreateInput(
        self,
        index: int,
        name: str | None = None,
        dtype: DTypeLike = DType.f32,
        shape: Sequence[Size] = (),
    ) -> TensorHolder:
        """Indices may be created in any order; Build() requires all of them from 0 on. Sizes are
        numbers or expressions over symbols: 8, "s0", "s0*8 + 1"."""
        dtype = literals.to_dtype(dtype)
        sizes = literals.to_sizes(shape)
        return holder.make(self, self._native.create_input(index, name, dtype, sizes))

    def CreateInputs(self, count: int, start: int = 0) -> list[TensorHolder]:
        return [self.CreateInput(start + k) for k in range(count)]

    def create_input(
        self,
        index: int,
        *,
        name: str | None = None,
        type_str: str = "Data",
        data_type: DTypeLike = DType.f32,
        shape: Sequence[Size] | None = None,
    ) -> TensorHolder:
        if type_str not in _INPUT_TYPES:
            raise ValueError(f"input {index} has the type {type_str!r}; inputs here are 'Data'")
        return self.CreateInput(index, name, data_type, shape or ())

    def create_inputs(self, num: int, start_index: int = 0) -> list[TensorHolder]:
        return self.CreateInputs(num, start_index)

    def CreateVariable(
        self,
        index: int,
        name: str,
        dtype: DTypeLike = DType.f32,
        shape: Sequence[Size] = (),
    ) -> TensorHolder:
        """An input whose memory assign() writes. The same name is the same variable."""
        dtype = literals.to_dtype(dtype)
        sizes = literals.to_sizes(shape)
        return holder.make(self, self._native.create_variable(index, name, dtype, sizes))

    create_variable = CreateVariable

    def DeclareSize(self, name: str, lowest: int, highest: int = 2**63 - 1) -> None:
        """The range of a size symbol; must precede its first use."""
        self._native.declare_size(name, lowest, highest)

    # --- constants ---------------------------------------------------------------------------

    def CreateConst(
        self,
        value: TensorLike,
        shape: Sequence[int] | None = None,
        dtype: DTypeLike | None = None,
    ) -> TensorHolder:
        """A number, a nested list or an array. Arrays keep their dtype, other integers become
        i64 and the rest f32, unless `dtype` is given; the values fill `shape` in row-major
        order."""
        if literals.is_array(value) and shape is None and dtype is None:
            return holder.make(self, self._native.constant_array(value))
        numbers, own_shape = literals.flatten(value)
        if literals.is_array(value):
            kind = literals.to_dtype(cast(Any, value).dtype)
        else:
            kind = literals.dtype_beside(numbers, None)
        dims: Sequence[Size] = own_shape if shape is None else literals.to_sizes(shape)
        chosen = kind if dtype is None else literals.to_dtype(dtype)
        return holder.make(self, literals.constant(self._native, numbers, dims, chosen))

    def CreateVector(
        self, values: Sequence[Number], dtype: DTypeLike | None = None
    ) -> TensorHolder:
        return self.CreateConst(values, [len(values)], dtype)

    def CreateScalar(self, value: Number, dtype: DTypeLike | None = None) -> TensorHolder:
        return self.CreateConst(value, [], dtype)

    def CreateConstFromFile(
        self, path: str | Path, dtype: DTypeLike, shape: Sequence[int]
    ) -> TensorHolder:
        """Reads the first bytes of a file of raw little-endian numbers."""
        dtype = literals.to_dtype(dtype)
        sizes = literals.to_sizes(shape)
        native = self._native.constant_from_file(str(path), dtype, cast("list[int]", sizes))
        return holder.make(self, native)

    def _typed_const(
        self, kind: str, value: TensorLike, shape: Sequence[int] | None
    ) -> TensorHolder:
        numbers, _ = literals.flatten(value)
        if kind != "float":
            signed, bits = kind[0] == "i", int(kind.lstrip("uint"))
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
            for number in numbers:
                if isinstance(number, float) or not low <= number < high:
                    raise ValueError(
                        f"{number} is not a {kind}, which is an integer from {low} to {high - 1}"
                    )
        # There are no unsigned tensor dtypes: values become i64, which must hold them.
        dtype = {"float": DType.f32, "int32": DType.i32}.get(kind, DType.i64)
        return self.CreateConst(value, shape, dtype)

    def create_const_float(
        self, value: TensorLike, shape: Sequence[int] | None = None
    ) -> TensorHolder:
        return self._typed_const("float", value, shape)

    def create_const_int64(
        self, value: TensorLike, shape: Sequence[int] | None = None
    ) -> TensorHolder:
        return self._typed_const("int64", value, shape)

    def create_const_int32(
        self, value: TensorLike, shape: Sequence[int] | None = None
    ) -> TensorHolder:
        return self._typed_const("int32", value, shape)

    def create_const_uint64(
        self, value: TensorLike, shape: Sequence[int] | None = None
    ) -> TensorHolder:
        return self._typed_const("uint64", value, shape)

    def create_const_uint32(
        self, value: TensorLike, shape: Sequence[int] | None = None
    ) -> TensorHolder:
        return self._typed_const("uint32", value, shape)

    def create_vector_int64(self, values: Sequence[int]) -> TensorHolder:
        return self._typed_const("int64", list(values), None)

    def create_scalar_float(self, value: float) -> TensorHolder:
        return self._typed_const("float", value, [])

    def create_scalar_int64(self, value: int) -> TensorHolder:
        return self._typed_const("int64", value, [])

    def create_scalar_int32(self, value: int) -> TensorHolder:
        return self._typed_const("int32", value, [])

    def create_scalar_uint64(self, value: int) -> TensorHolder:
        return self._typed_const("uint64", value, [])

    def create_scalar_uint32(self, value: int) -> TensorHolder:
        return self._typed_const("uint32", value, [])

    # --- nodes -------------------------------------------------------------------------------

    def Apply(self, op: str, inputs: Sequence[TensorLike | None], **attrs: object) -> TensorHolder:
        """Adds a node of any op by name; None is an absent optional input."""
        return holder.apply(op, inputs, attrs, 1, alike=True, owner_builder=self)[0]

    def ApplyAll(
        self, op: str, inputs: Sequence[TensorLike | None], **attrs: object
    ) -> list[TensorHolder]:
        """The same for ops with any number of results."""
        return holder.apply(op, inputs, attrs, None, alike=True, owner_builder=self)

    def SetAttr(self, name: str, value: bool | int | str) -> None:
        """A label of the graph."""
        self._native.set_label(name, value)

    set_graph_attr_int64 = set_graph_attr_string = set_graph_attr_bool = SetAttr

    @staticmethod
    def set_node_attr(node: TensorHolder, name: str, value: bool | int | str) -> None:
        node.set_attr(name, value)

    set_node_attr_int64 = set_node_attr_string = set_node_attr_bool = set_node_attr

    @staticmethod
    def add_control_dependency(after: TensorHolder, before: Sequence[TensorHolder]) -> None:
        after.add_control_edge(before)

    # --- the graph ---------------------------------------------------------------------------

    def SetOutput(self, tensor: TensorHolder, index: int) -> None:
        holder.natives_of(tensor, f"output {index} of {self.name!r}")
        if tensor._builder is not self:
            raise ValueError(
                f"output {index} is a tensor of builder {tensor._builder.name!r}, not of "
                f"{self.name!r}"
            )
        self._native.set_output(tensor._native, index)

    set_graph_output = SetOutput

    def Build(self, outputs: Sequence[TensorHolder] | None = None) -> Graph:
        """Returns the graph; afterwards this builder and its holders can't be used to extend it."""
        for index, tensor in enumerate(outputs or ()):
            self.SetOutput(tensor, index)
        return Graph(self._native.build())

    BuildAndReset = build_and_reset = Build


GraphBuilder = EsGraphBuilder


def builder_of(native: _es.Builder) -> EsGraphBuilder:
    """A builder for an existing graph."""
    builder = EsGraphBuilder.__new__(EsGraphBuilder)
    builder._native = native
    return builder
