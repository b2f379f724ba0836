"""TensorHolder: a value of a graph under construction, with Python's operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Union

from gex._gex import DType, EsError
from gex._gex import es as _es
from gex.es import literals

if TYPE_CHECKING:
    from gex.es.builder import EsGraphBuilder

# Anything accepted as a tensor: a holder, a number, a nested list, or an array.
TensorLike = Union["TensorHolder", literals.Number, Sequence, Any]
# The result of a user function that builds part of a graph.
Result = Union["TensorHolder", Sequence["TensorHolder"]]
_KEY = object()


class TensorHolder:
    """Created by builders and ops. Keeps its builder alive."""

    def __init__(
        self,
        builder: EsGraphBuilder | None = None,
        native: _es.Holder | None = None,
        key: object = None,
    ) -> None:
        if key is not _KEY or builder is None:
            raise RuntimeError("a TensorHolder is made by an EsGraphBuilder or an op, not directly")
        self._builder = builder
        self._native: Any = native

    name = property(lambda self: self._native.name)
    dtype = property(lambda self: self._native.dtype)
    rank = property(lambda self: self._native.rank)
    type = property(lambda self: self._native.type, doc='"f32[s0, 4]"')
    shape = property(lambda self: self._native.shape, doc="-1 for a size that is not a constant.")

    sizes = property(lambda self: self._native.sizes, doc="With symbols as text.")

    def get_owner_builder(self) -> EsGraphBuilder:
        return self._builder

    def set_data_type(self, dtype: literals.DTypeLike) -> TensorHolder:
        """For inputs that are not used yet; the type of a result is determined by its op."""
        self._native.set_dtype(literals.to_dtype(dtype))
        return self

    def set_shape(self, shape: Sequence[literals.Size]) -> TensorHolder:
        self._native.set_shape(literals.to_sizes(shape))
        return self

    def set_attr(self, name: str, value: bool | int | str) -> TensorHolder:
        """Sets a label of the node that makes this value."""
        self._native.set_label(name, value)
        return self

    def get_attr(self, name: str) -> str:
        """A label in text form: 3, true, "a"."""
        return self._native.label(name)

    def add_control_edge(self, sources: Sequence[TensorHolder]) -> TensorHolder:
        """Orders the node after those of `sources`, so that it sees what they assign."""
        self._native.add_control_edge(natives_of(sources, "a control edge"))
        return self

    SetDataType = set_data_type
    SetShape = set_shape
    SetAttr = set_attr
    GetAttr = get_attr
    AddControlEdge = add_control_edge

    def __repr__(self) -> str:
        try:
            return f"TensorHolder({self.name}: {self.type})"
        except EsError:
            return f"TensorHolder(of the built graph {self._builder.name!r})"

    def __copy__(self) -> TensorHolder:
        raise RuntimeError("a TensorHolder can't be copied; it may be used any number of times")

    def __deepcopy__(self, memo: object) -> TensorHolder:
        return self.__copy__()

    # Makes NumPy arrays return NotImplemented instead of iterating over the holder.
    __array_ufunc__ = None

    def __add__(self, other: TensorLike) -> TensorHolder:
        return _binary("add", self, other)

    def __radd__(self, other: TensorLike) -> TensorHolder:
        return _binary("add", other, self)

    def __sub__(self, other: TensorLike) -> TensorHolder:
        return _binary("sub", self, other)

    def __rsub__(self, other: TensorLike) -> TensorHolder:
        return _binary("sub", other, self)

    def __mul__(self, other: TensorLike) -> TensorHolder:
        return _binary("mul", self, other)

    def __rmul__(self, other: TensorLike) -> TensorHolder:
        return _binary("mul", other, self)

    def __truediv__(self, other: TensorLike) -> TensorHolder:
        return _divide(self, other)

    def __rtruediv__(self, other: TensorLike) -> TensorHolder:
        return _divide(other, self)

    def __mod__(self, other: TensorLike) -> TensorHolder:
        """The remainder of `/`: with the sign of self, as in C++. es.mod behaves as Python's %."""
        return _binary("fmod", self, other)

    def __rmod__(self, other: TensorLike) -> TensorHolder:
        return _binary("fmod", other, self)

    def __matmul__(self, other: TensorLike) -> TensorHolder:
        return _binary("matmul", self, other)

    def __neg__(self) -> TensorHolder:
        return apply("neg", [self], {}, 1, alike=True)[0]

    def __lt__(self, other: TensorLike) -> TensorHolder:
        return _binary("lt", self, other)

    def __le__(self, other: TensorLike) -> TensorHolder:
        return _binary("le", self, other)

    def __gt__(self, other: TensorLike) -> TensorHolder:
        return _binary("gt", self, other)

    def __ge__(self, other: TensorLike) -> TensorHolder:
        return _binary("ge", self, other)

    def __eq__(self, other: object) -> TensorHolder:  # type: ignore[override]
        return _binary("eq", self, other)

    def __ne__(self, other: object) -> TensorHolder:  # type: ignore[override]
        return _binary("ne", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            "a tensor has no value while its graph is built; if_ and while_ branch on tensors"
        )


def make(builder: EsGraphBuilder, native: _es.Holder) -> TensorHolder:
    return TensorHolder(builder, native, _KEY)


def natives_of(result: Result, of: str) -> list[_es.Holder]:
    values = list(result) if isinstance(result, (list, tuple)) else [result]
    natives = []
    for value in values:
        if not isinstance(value, TensorHolder):
            raise TypeError(f"{of} returns {value!r}; it must return tensors of the graph")
        natives.append(value._native)
    return natives


def tensor(builder: EsGraphBuilder, value: TensorLike, beside: DType | None) -> TensorHolder:
    """The holder, or a new constant in the graph of `builder`."""
    if isinstance(value, TensorHolder):
        return value
    native = builder._native
    if literals.is_array(value):
        return make(builder, native.constant_array(value))
    numbers, shape = literals.flatten(value)
    dtype = literals.dtype_beside(numbers, beside)
    return make(builder, literals.constant(native, numbers, shape, dtype))


def owner_of(op: str, operands: Sequence[TensorLike | None]) -> EsGraphBuilder:
    holders = [o for o in operands if isinstance(o, TensorHolder)]
    if not holders:
        raise ValueError(
            f"{op}: no operand is a tensor; pass owner_builder= or make one of them a tensor"
        )
    return holders[0]._builder


def apply(
    op: str,
    operands: Sequence[TensorLike | None],
    attrs: Mapping[str, object],
    count: int | None,
    *,
    alike: bool,
    owner_builder: EsGraphBuilder | None = None,
) -> list[TensorHolder]:
    """Adds a node. `alike`: numbers take the dtype of the tensor operands."""
    builder = owner_builder or owner_of(op, operands)
    beside: DType | None = None
    for operand in operands if alike else ():
        if isinstance(operand, TensorHolder) and beside in (None, DType.boolean):
            beside = operand.dtype
    inputs = [None if o is None else tensor(builder, o, beside)._native for o in operands]
    made = builder._native.apply(op, inputs, dict(attrs), count)
    return [make(builder, native) for native in made]


def _binary(op: str, a: TensorLike, b: TensorLike) -> TensorHolder:
    return apply(op, [a, b], {}, 1, alike=True)[0]


def _divide(a: TensorLike, b: TensorLike) -> TensorHolder:
    """Integers divide towards zero, as in C++."""
    builder = owner_of("div", [a, b])
    beside = next(o.dtype for o in (a, b) if isinstance(o, TensorHolder))
    a, b = tensor(builder, a, beside), tensor(builder, b, beside)
    floats = any(o.dtype in literals._FLOATS for o in (a, b))
    return _binary("div" if floats else "trunc_div", a, b)


def assign(variable: TensorHolder, value: TensorLike) -> TensorHolder:
    """The variable holds `value` after each run; nodes with a control edge from the result see
    it at once."""
    builder = variable._builder
    source = tensor(builder, value, variable.dtype)
    return make(builder, _es.assign(variable._native, source._native))


@contextmanager
def attr_scope(labels: Mapping[str, bool | int | str]) -> Iterator[None]:
    """Nodes created by this thread inside the block get these labels; inner scopes win."""
    _es.push_labels(dict(labels))
    try:
        yield
    finally:
        _es.pop_labels()


@contextmanager
def control_dependency_scope(sources: Sequence[TensorHolder]) -> Iterator[None]:
    """Nodes created by this thread inside the block are ordered after those of `sources`."""
    _es.push_sources(natives_of(sources, "a control dependency"))
    try:
        yield
    finally:
        _es.pop_sources()
