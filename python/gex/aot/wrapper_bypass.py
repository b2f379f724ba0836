"""Calls compiled graphs without AOTAutograd's wrappers if they are not needed.

Most functions mutate no input behind autograd's back and return no view of one. Then only a call,
or an autograd node with a forward and a backward, is needed between Dynamo and the compiled graphs;
AOTAutograd's wrapper costs more than a step of a small model. Anything unusual, at compile time or
in a call (functorch transforms, compiled autograd), uses AOTAutograd's wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gex.compat import aot, batched_gradients
from gex.compat.aot import OutputType, PlainTensorMeta, compiled_autograd
from gex.compat.fake_tensors import is_traceable_wrapper_subclass
from gex.compat.torch_version import mark_dynamic
from gex.compat.tracing import forward_metadata

Compiled = Callable[[list[Any]], Sequence[Any]]
Compiler = Callable[..., Compiled]


class CompiledGraphs:
    """Records what AOTAutograd compiled for one function, and its metadata."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self._returns_subclass = any(
            is_traceable_wrapper_subclass(node.meta.get("example_value"))
            for node in gm.graph.output_node().all_input_nodes
        )
        self._metadata: Any = None
        self._forward: Compiled | None = None
        self._inference: Compiled | None = None
        self._backward: Compiled | None = None
        self._num_arguments = -1
        self._without_gradient: list[int] = []

    def forward(self, compiler: Compiler) -> Compiler:
        def compile_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
            self._forward = self._seen(compiler(gm, inputs), inputs)
            return self._forward

        return compile_graph

    def inference(self, compiler: Compiler) -> Compiler:
        def compile_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
            self._inference = self._seen(compiler(gm, inputs), inputs)
            return self._inference

        return compile_graph

    def backward(self, compiler: Compiler) -> Compiler:
        """The compiler is called later, at the first backward, if that depends on sizes."""

        def compile_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
            compiled = self._backward = compiler(gm, inputs)
            gradients = gm.graph.output_node().args[0]
            self._without_gradient = [i for i, g in enumerate(gradients) if g is None]

            # torch._dynamo.disable() keeps attributes of functions only, and AOTAutograd needs
            # one.
            def backward(arguments: list[Any]) -> Sequence[Any]:
                if any(map(batched_gradients.is_batch, arguments)):
                    return batched_gradients.run(compiled, arguments)
                return compiled(arguments)

            backward._boxed_call = True  # type: ignore[attr-defined]
            return backward

        return compile_graph

    def _seen(self, compiled: Compiled, inputs: Sequence[Any]) -> Compiled:
        self._metadata = forward_metadata()
        self._num_arguments = len(inputs)
        return compiled

    def without_wrappers(
        self, wrapped: Callable[..., Any], inputs: Sequence[Any]
    ) -> Callable[..., Any]:
        """`wrapped` is AOTAutograd's function of these inputs; returns the fastest equivalent
        call."""
        if not self._is_all(inputs):
            return wrapped
        if self._inference is not None:
            return _inference_call(self._inference, self._metadata, wrapped)
        if self._forward is None:
            return wrapped
        with_gradient = [
            i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.requires_grad
        ]
        return self._training_call(wrapped, with_gradient)

    def _is_all(self, inputs: Sequence[Any]) -> bool:
        """Whether a call with these inputs only needs to call the graphs."""
        # AOTAutograd's metadata describes the inner tensors of tensor subclasses.
        if self._returns_subclass or any(is_traceable_wrapper_subclass(x) for x in inputs):
            return False
        flat = all(isinstance(x, torch.Tensor | int | torch.SymInt) for x in inputs)
        return flat and self._num_arguments == len(inputs) and _is_plain(self._metadata)

    def written_without_gradient(self, inputs: Sequence[Any]) -> tuple[int, ...] | None:
        """The arguments that a call without gradients writes; None if it needs more than one
        call of one graph."""
        if self._inference is None or not self._is_all(inputs):
            return None
        return tuple(self._metadata.mutated_graph_handled_indices_seen_by_autograd)

    def _training_call(
        self, wrapped: Callable[..., Any], with_gradient: Sequence[int]
    ) -> Callable[..., Any]:
        apply: Callable[..., Any] | None = None
        written = tuple(self._metadata.mutated_graph_handled_indices_seen_by_autograd)
        detached: list[int] = []
        peek_transforms = aot.peek_transforms
        is_grad_enabled = torch.is_grad_enabled

        def call(*arguments: Any) -> Any:
            nonlocal apply, detached
            if apply is None:
                # The backward may be compiled as late as at the first backward.
                if self._forward is None or self._backward is None:
                    return wrapped(*arguments)
                node = _autograd_node(self._forward, self._backward, self._metadata)
                apply = _shortest_apply(node, arguments)
                detached = [i for i in with_gradient if i in self._without_gradient]
            if (
                peek_transforms() is not None
                or not is_grad_enabled()
                or compiled_autograd.compiled_autograd_enabled
            ):
                return wrapped(*arguments)
            if written:
                torch.autograd.graph.increment_version([arguments[i] for i in written])
            if detached:
                changed = list(arguments)
                for i in detached:
                    changed[i] = changed[i].detach()
                return apply(*changed)
            return apply(*arguments)

        return _marking(call, self._metadata)


def _is_plain(metadata: Any) -> bool:
    if metadata is None or aot.is_autocast_enabled():
        return False
    if aot.compiles_autograd():
        return False
    kinds = {OutputType.non_alias, OutputType.unsafe_view_alias}
    metas = (
        *metadata.subclass_inp_meta,
        *metadata.subclass_fw_graph_out_meta,
        *metadata.subclass_tangent_meta,
    )
    unusual = (
        metadata.num_mutated_inp_runtime_indices,
        metadata.num_intermediate_bases,
        metadata.num_graphsafe_rng_states,
        metadata.num_backward_tokens,
        metadata.is_rng_op_functionalized,
        metadata.tokens,
        metadata.grad_enabled_mutation is not None,
        metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw,
        getattr(metadata, "act_input_indices", None),
        getattr(metadata, "num_opaque_objects_saved_for_bw", None),
    )
    return (
        not any(unusual)
        and all(o.output_type in kinds for o in metadata.output_info)
        and all(issubclass(o.raw_type, torch.Tensor) for o in metadata.output_info)
        and all(type(meta) is PlainTensorMeta for meta in metas)
    )


def _inference_call(
    compiled: Compiled, metadata: Any, wrapped: Callable[..., Any]
) -> Callable[..., Any]:
    written = tuple(metadata.mutated_graph_handled_indices_seen_by_autograd)
    is_grad_enabled = torch.is_grad_enabled

    def call(*arguments: Any) -> Any:
        if is_grad_enabled():
            return wrapped(*arguments)
        if written:
            torch.autograd.graph.increment_version([arguments[i] for i in written])
        return compiled(list(arguments))

    return _marking(call, metadata)


def _marking(call: Callable[..., Any], metadata: Any) -> Callable[..., Any]:
    """Also marks dynamic sizes of the results."""
    dynamic = [(i, o.dynamic_dims) for i, o in enumerate(metadata.output_info) if o.dynamic_dims]
    if not dynamic:
        return call

    def call_and_mark(*arguments: Any) -> Any:
        results = call(*arguments)
        for i, dims in dynamic:
            mark_dynamic(results[i], dims)
        return results

    return call_and_mark


def _shortest_apply(
    node: type[torch.autograd.Function], arguments: Sequence[Any]
) -> Callable[..., Any]:
    """Skips Function.apply in Python, which exists for functorch's transforms and their wrapped
    tensors.

    Dynamo's guards tell wrapped tensors from others, so checking one call is enough.
    """
    is_wrapped = aot.is_transform_tensor
    if any(isinstance(x, torch.Tensor) and is_wrapped(x) for x in arguments):
        return node.apply
    return super(torch.autograd.Function, node).apply


def _autograd_node(
    forward_graph: Compiled, backward_graph: Compiled, metadata: Any
) -> type[torch.autograd.Function]:
    class CompiledNode(torch.autograd.Function):
        boxed_grads_call = True
        forward = staticmethod(_forward_of_node(forward_graph, metadata))
        backward = staticmethod(_backward_of_node(backward_graph, metadata))

    return CompiledNode


def _unchecked_count(metadata: Any) -> int:
    """Number of saved tensors, the last ones, that may be modified before the backward."""
    return getattr(metadata, "num_tensors_saved_with_no_vc_check", None) or 0


def _forward_of_node(graph: Compiled, metadata: Any) -> Callable[..., tuple[Any, ...]]:
    num_outputs = metadata.num_outputs
    saved_slice = metadata.tensors_saved_for_backwards_slice
    unchecked = _unchecked_count(metadata)
    symints_slice = metadata.symints_saved_for_backwards_slice
    has_symints = bool(metadata.num_symints_saved_for_bw)
    views = metadata.unsafe_view_out_indices
    constant = [i for i, o in enumerate(metadata.output_info) if not o.requires_grad]
    is_view = aot.is_view

    def forward(ctx: Any, *arguments: Any) -> tuple[Any, ...]:
        results = graph(list(arguments))
        saved = results[saved_slice]
        if any(map(is_view, saved)):
            saved = [x.detach() if x._is_view() else x for x in saved]
        if unchecked:
            ctx.unchecked = saved[-unchecked:]
            saved = saved[:-unchecked]
        ctx.save_for_backward(*saved)
        if has_symints:
            ctx.symints = results[symints_slice]
        outputs = results[:num_outputs]
        if views:
            outputs = list(outputs)
            for i in views:
                outputs[i] = torch.ops.aten._unsafe_view(outputs[i], outputs[i].shape)
        if constant:
            ctx.mark_non_differentiable(*(outputs[i] for i in constant))
            ctx._materialize_non_diff_grads = False
        return tuple(outputs)

    return forward


def _backward_of_node(graph: Compiled, metadata: Any) -> Callable[..., Any]:
    unchecked = _unchecked_count(metadata)
    has_symints = bool(metadata.num_symints_saved_for_bw)
    tangents = [
        i
        for i, o in enumerate(metadata.output_info)
        if getattr(o, "requires_grad_for_backward", o.requires_grad)
    ]
    expected = [
        (i, meta, _is_contiguous(meta.memory_format))
        for i, meta in zip(tangents, metadata.subclass_tangent_meta, strict=True)
    ]
    must_be_deterministic_as_traced = metadata.deterministic is False
    is_deterministic = aot.is_deterministic
    is_grad_enabled = torch.is_grad_enabled
    is_batch = batched_gradients.is_batch
    tensor = torch.Tensor

    def backward(ctx: Any, *gradients: Any) -> Any:
        boxed = len(gradients) == 1 and type(gradients[0]) is list
        given: Any = gradients[0] if boxed else gradients
        arguments = [*ctx.symints] if has_symints else []
        arguments += ctx.saved_tensors
        if unchecked:
            arguments += ctx.unchecked
        batched = False
        for i, meta, contiguous in expected:
            gradient = given[i]
            if is_batch(gradient):
                batched = True  # each entry gets its layout when it is passed on
            elif not (contiguous and type(gradient) is tensor and gradient.is_contiguous()):
                gradient = aot.tangent_as_traced(gradient, meta)
            arguments.append(gradient)
            del gradient  # only `arguments` holds it now: the graph frees it after reading
        if boxed:
            given.clear()
        if must_be_deterministic_as_traced and is_deterministic():
            _refuse_determinism()
        if batched:
            return tuple(batched_gradients.run(graph, arguments))
        if is_grad_enabled():
            return _OnceDifferentiable.apply(graph, torch.empty(0, requires_grad=True), *arguments)
        ctx.maybe_clear_saved_tensors()
        return tuple(graph(arguments))

    return backward


def _is_contiguous(expected: Any) -> bool:
    """Whether every contiguous tensor of the right sizes has the expected layout."""
    if expected.memory_format is not None:
        return expected.memory_format is torch.contiguous_format
    step = 1
    for size, stride in zip(reversed(expected.size), reversed(expected.stride), strict=True):
        if size < 2 or stride != step:  # the stride of an axis of size 1 does not matter
            return False
        step *= size
    return True


def _refuse_determinism() -> None:
    raise RuntimeError(
        "the backward was compiled before torch.use_deterministic_algorithms(True): compile "
        "the model again"
    )


class _OnceDifferentiable(torch.autograd.Function):
    """The node for backward(create_graph=True): gradients that have no gradients themselves."""

    @staticmethod
    def forward(_: Any, graph: Compiled, __: torch.Tensor, *arguments: Any) -> tuple[Any, ...]:
        return tuple(graph(list(arguments)))

    @staticmethod
    def backward(_: Any, *__: Any) -> None:
        raise RuntimeError(
            "torch.compile with aot_autograd does not currently support double backward"
        )
