# Written by scripts/stubs.py.
"""The C++ side of gex."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from gex._gex import es as es
from gex._gex import passes as passes

class Error(RuntimeError):
    pass

class UserError(Error):
    pass

class InternalError(Error):
    pass

class Dim:
    """A size: a number or an exact expression over symbols."""

    def __init__(self, arg: Dim | int, /) -> None: ...
    @staticmethod
    def symbol(name: str, low: int | None = None, high: int | None = None) -> Dim: ...
    @staticmethod
    def min(arg0: Dim, arg1: Dim, /) -> Dim: ...
    @staticmethod
    def max(arg0: Dim, arg1: Dim, /) -> Dim: ...
    def __add__(self, arg: Dim | int, /) -> Dim: ...
    def __sub__(self, arg: Dim | int, /) -> Dim: ...
    def __mul__(self, arg: Dim | int, /) -> Dim: ...
    def __floordiv__(self, arg: Dim | int, /) -> Dim: ...
    def __mod__(self, arg: Dim | int, /) -> Dim: ...
    def __eq__(self, arg: Any, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __str__(self) -> str: ...
    def __repr__(self) -> str: ...
    @property
    def constant(self) -> int | None:
        """The number, or None if it has symbols."""

    @property
    def is_symbol(self) -> bool: ...
    @property
    def low(self) -> int: ...
    @property
    def symbols(self) -> list[Dim]: ...

class DType(enum.Enum):
    """Element type."""

    f64 = 0

    f32 = 1

    f16 = 2

    bf16 = 3

    i64 = 4

    i32 = 5

    i16 = 6

    i8 = 7

    u8 = 8

    boolean = 9

class Type:
    """dtype, sizes, and strides where they are not the dense ones."""

    def __init__(
        self, dtype: DType, shape: Sequence[Dim], strides: Sequence[Dim] | None = None
    ) -> None: ...
    @staticmethod
    def absent() -> Type:
        """A result that PyTorch does not return."""

    def __str__(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> list[Dim]: ...
    @property
    def strides(self) -> list[Dim] | None: ...

class Value:
    """A value of a graph that is being built."""

    @property
    def type(self) -> Type: ...
    def __repr__(self) -> str: ...

class Graph:
    """A tensor program: pure, typed, printable."""

    @property
    def name(self) -> str: ...
    def text(self) -> str: ...
    def clone(self) -> Graph: ...
    @property
    def num_nodes(self) -> int: ...
    @staticmethod
    def parse(arg: str, /) -> Graph: ...
    def _repr_html_(self) -> str: ...
    def __str__(self) -> str: ...

class Mark:
    """A point in the building of a graph."""

class Importer:
    """Builds a Graph from the nodes of a traced program."""

    def __init__(self, name: str) -> None: ...
    def add_input(self, arg0: Type, arg1: str, /) -> Value: ...
    def add_constant(self, arg: Any, /) -> Value:
        """A contiguous CPU tensor, copied into the graph."""

    def add_dim(self, arg: Dim, /) -> Value: ...
    def add_node(
        self, overload: str, args: Sequence, results: Sequence[Type], location: str
    ) -> Any: ...
    @property
    def expected_sizes(self) -> list[tuple[Value, Dim]]:
        """Of the last add_node: sizes found in data, and what they must be."""

    def mark(self) -> Mark: ...
    def rollback(self, arg: Mark, /) -> None: ...
    def label(self, mark: Mark, labels: Sequence[tuple[str, int]]) -> None:
        """Labels what was added after the mark."""

    def add_call(
        self,
        name: str,
        callee: int,
        operands: Sequence[Value],
        operand_strides: Sequence[Sequence[Dim] | None],
        integers: Sequence[Dim],
        results: Sequence[Type],
        ordered: bool,
        location: str,
        written: Sequence[int] = [],
    ) -> list[Value]:
        """
        `written`: operands that the call writes; the last results are their new contents.
        """

    def add_bind(self, arg0: Value, arg1: Dim, arg2: str, /) -> Value: ...
    def add_if(
        self, condition: Value, inputs: Sequence[Value], yes: Importer, no: Importer, location: str
    ) -> list[Value]: ...
    def add_while(
        self,
        inputs: Sequence[Value],
        carried: int,
        condition: Importer,
        body: Importer,
        location: str,
    ) -> list[Value]: ...
    def add_check(
        self,
        condition: Value,
        operands: Sequence[Value],
        integers: Sequence[Dim],
        name: str,
        callee: int,
        location: str,
    ) -> None: ...
    def add_copy_of(
        self, body: Importer, inputs: Sequence[Value], traced_for: str = "", now: str = ""
    ) -> list[Value]: ...
    def add_output(self, value: Value, strides: Sequence[Dim] | None = None) -> int: ...
    def tie(self, arg0: Value, arg1: int, /) -> None: ...
    def text(self) -> str: ...
    def finish(self) -> Graph: ...

class AtenFacts:
    """Facts about an ATen op for importers: src/ops/rows/aten_facts.hpp."""

    class Indices(enum.Enum):
        none = 0

        along_axis = 1

        along_axis_from_ends = 2

        rows = 3

        each_axis = 4

        each_element = 5

        cells = 6

        classes = 7

    class Values(enum.Enum):
        any = 0

        fractions = 1

        few_trues = 2

        bag_starts = 3

    class Range(enum.Enum):
        unknown = 0

        same = 1

        zero = 2

        filled = 3

        counted = 4

        sum = 5

        difference = 6

        product = 7

        remainder = 8

        clamped = 9

        chosen = 10

        place = 11

    class NoOp(enum.Enum):
        never = 0

        always = 1

        on_integers = 2

        no_padding = 3

        power_of_one = 4

        one_part = 5

    class Padding(enum.Enum):
        unknown = 0

        keeps_positions = 1

        reads_sizes = 2

        contracts = 3

        folds = 4

        along_axis = 5

        from_the_front = 6

        attends = 7

        normalises_last = 8

        normalises_batch = 9

        convolves = 10

    class Decomposition(enum.Enum):
        core = 0

        any = 1

        of_floats = 2

    @property
    def indices(self) -> AtenFacts.Indices: ...
    @property
    def values(self) -> AtenFacts.Values: ...
    @property
    def divisor(self) -> int: ...
    @property
    def range(self) -> AtenFacts.Range: ...
    @property
    def places_axis(self) -> int: ...
    @property
    def no_op(self) -> AtenFacts.NoOp: ...
    @property
    def no_op_argument(self) -> int: ...
    @property
    def padding(self) -> AtenFacts.Padding: ...
    @property
    def padding_argument(self) -> int: ...
    @property
    def decomposition(self) -> AtenFacts.Decomposition: ...

def aten_overloads() -> list[str]:
    """Overloads that some op's row takes."""

def aten_facts(name: str) -> AtenFacts:
    """By a name without overload, such as aten.add."""

class CaptureOptions:
    """How a compiled graph captures."""

    def __init__(
        self,
        gears: str = "exact",
        ladders: Sequence[tuple[Sequence[Dim], Sequence[Sequence[int]]]] = [],
        gears_only: bool = False,
        force_recapture: bool = False,
        share_arena: bool = True,
        pool: tuple[int, int] | None = None,
    ) -> None: ...

def set_current_stream(stream: int) -> None:
    """The stream that this thread is on, by number."""

def set_stream_limit(stream: int, cores: tuple[int, int] | None) -> None: ...
def stream_limit(stream: int) -> tuple[int, int]: ...
def set_device_limit(cores: tuple[int, int]) -> None: ...
def device_limit() -> tuple[int, int]: ...
def pool_bytes(handle: tuple[int, int]) -> int:
    """Bytes that the pool of this handle holds between calls."""

class OutputItem:
    """How one entry of the result list is made."""

    @staticmethod
    def graph(arg: int, /) -> OutputItem: ...
    @staticmethod
    def argument(arg: int, /) -> OutputItem: ...
    @staticmethod
    def argument_view(
        arg0: int, arg1: Sequence[Dim], arg2: Sequence[Dim], arg3: Dim, /
    ) -> OutputItem: ...
    @staticmethod
    def output_view(
        arg0: int, arg1: Sequence[Dim], arg2: Sequence[Dim], arg3: Dim, /
    ) -> OutputItem: ...
    @staticmethod
    def integer(arg: Dim, /) -> OutputItem: ...
    @staticmethod
    def none() -> OutputItem: ...
    @property
    def dims(self) -> list[Dim]: ...

class SymbolSource:
    """Where a symbol gets its value at each call."""

    def __init__(
        self,
        symbol: Dim,
        argument: int = -1,
        axis: int = -1,
        output: int = -1,
        scale: int = 1,
        rest: int = 0,
    ) -> None: ...

class Signature:
    """How arguments and results map to a graph's own."""

    def __init__(
        self,
        num_arguments: int,
        tensors: Sequence[int],
        integers: Sequence[tuple[Dim, int]],
        constants: Sequence[Any],
        outputs: Sequence[OutputItem],
        symbols: Sequence[SymbolSource],
    ) -> None: ...
    def save(self) -> bytes:
        """As bytes, without the constants."""

    @staticmethod
    def load(bytes: bytes, constants: Sequence[Any]) -> Signature: ...

class RunnerOptions:
    """How `compiled_runner` compiles a graph and replays it."""

    def __init__(self) -> None: ...
    @property
    def target(self) -> bool | int | str | list[str]: ...
    @target.setter
    def target(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def level(self) -> bool | int | str | list[str]: ...
    @level.setter
    def level(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def disabled_passes(self) -> bool | int | str | list[str]: ...
    @disabled_passes.setter
    def disabled_passes(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def enabled_passes(self) -> bool | int | str | list[str]: ...
    @enabled_passes.setter
    def enabled_passes(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def switch_file(self) -> bool | int | str | list[str]: ...
    @switch_file.setter
    def switch_file(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def fuse(self) -> bool | int | str | list[str]: ...
    @fuse.setter
    def fuse(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def prologues(self) -> bool | int | str | list[str]: ...
    @prologues.setter
    def prologues(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def fast_math(self) -> bool | int | str | list[str]: ...
    @fast_math.setter
    def fast_math(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def keep_subnormals(self) -> bool | int | str | list[str]: ...
    @keep_subnormals.setter
    def keep_subnormals(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def winograd(self) -> bool | int | str | list[str]: ...
    @winograd.setter
    def winograd(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def place_cats(self) -> bool | int | str | list[str]: ...
    @place_cats.setter
    def place_cats(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def in_place_temps(self) -> bool | int | str | list[str]: ...
    @in_place_temps.setter
    def in_place_temps(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def in_place_inputs(self) -> bool | int | str | list[str]: ...
    @in_place_inputs.setter
    def in_place_inputs(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def streams(self) -> bool | int | str | list[str]: ...
    @streams.setter
    def streams(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def super_kernel(self) -> bool | int | str | list[str]: ...
    @super_kernel.setter
    def super_kernel(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def generate_code(self) -> bool | int | str | list[str]: ...
    @generate_code.setter
    def generate_code(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def dump_dir(self) -> bool | int | str | list[str]: ...
    @dump_dir.setter
    def dump_dir(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def keep_static_code(self) -> bool | int | str | list[str]: ...
    @keep_static_code.setter
    def keep_static_code(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def autotune(self) -> bool | int | str | list[str]: ...
    @autotune.setter
    def autotune(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def capture_limit(self) -> bool | int | str | list[str]: ...
    @capture_limit.setter
    def capture_limit(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def reuse_memory(self) -> bool | int | str | list[str]: ...
    @reuse_memory.setter
    def reuse_memory(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def static_code_at_once(self) -> bool | int | str | list[str]: ...
    @static_code_at_once.setter
    def static_code_at_once(self, arg: bool | int | str | Sequence[str], /) -> None: ...
    @property
    def cache_dir(self) -> str: ...
    @cache_dir.setter
    def cache_dir(self, arg: str, /) -> None: ...
    @property
    def frozen(self) -> list[tuple[int, str]]: ...
    @frozen.setter
    def frozen(self, arg: Sequence[tuple[int, str]], /) -> None: ...
    @property
    def released(self) -> list[int]: ...
    @released.setter
    def released(self, arg: Sequence[int], /) -> None: ...
    @property
    def keep_arena(self) -> bool: ...
    @keep_arena.setter
    def keep_arena(self, arg: bool, /) -> None: ...
    @property
    def tensors_on_host(self) -> bool: ...
    @tensors_on_host.setter
    def tensors_on_host(self, arg: bool, /) -> None: ...

def option_table() -> list:
    """Every option of a compile, one dict each."""

def trim() -> None:
    """Frees memory that is kept from call to call for temporaries."""

def thread_count() -> int:
    """Threads that a launch may use, including the caller's."""

def wait_for_background() -> None:
    """Waits until nothing is compiled in the background."""

def generator_stats() -> dict:
    """
    How many kernels of this process were compiled, loaded from a cache, or already in memory.
    """

def engine_build() -> str:
    """Identifies this build of the engine."""

def stop_background() -> None:
    """Stops background compilation permanently."""

class Runner:
    """A compiled graph: takes the list of arguments and empties it."""

    def __call__(self, arguments: list) -> Any: ...
    def refresh(self) -> None:
        """Makes the next call bind frozen arguments again."""

    @property
    def frozen_tensors(self) -> list: ...
    def text(self, level: str = "program") -> str:
        """Printed form: graph, kernels, program."""

    def graphviz(self, level: str = "graph") -> str:
        """The graph, its kernels or its program as Graphviz text."""

    def reload_from_text(self) -> None:
        """Prints the program, parses the text and runs that from now on."""

    @property
    def counters(self) -> dict: ...
    def watch(self, word: Any, refuse: Any) -> None:
        """
        Calls `refuse`, which raises, when the first element of an i64 host tensor is not 0: at the beginning of the next call, or instead of an error of the device.
        """

    def name_ranges(self, whole: str, capture: str, replay: str) -> None:
        """Names of the ranges of its calls in PyTorch's profiler."""

    def measure_overhead(self, on: bool) -> None: ...
    @property
    def overhead(self) -> dict:
        """Overhead of the last measured call."""

    @property
    def steps(self) -> list:
        """For each capture: a dict for each of its steps."""

    @property
    def memory(self) -> list:
        """For each capture: arena, lower_bound, why, text, ..."""

    @property
    def seconds(self) -> list[tuple[str, float]]: ...
    @property
    def remarks(self) -> list[str]: ...
    @property
    def tuned(self) -> list[str]:
        """Results of autotuning, a line for each problem."""

    @property
    def host_control(self) -> list[str]:
        """
        Why the host decides if and while steps on a GPU, a line for each reason.
        """

    @property
    def captures(self) -> list:
        """
        For each capture, the last used first: key, hits, arena_bytes, reason, note.
        """

def compiled_runner(
    graph: Graph,
    signature: Signature,
    callees: Sequence[Any],
    captures: CaptureOptions,
    options: RunnerOptions,
) -> Runner:
    """Compiles the graph and makes it ready to replay."""

def interpreter_runner(graph: Graph, signature: Signature, callees: Sequence[Any]) -> Runner:
    """
    Runs the graph node by node in the reference executor: slow, for tests and debugging.
    """

class OnnxSession:
    """An ONNX model, compiled on demand."""

    @staticmethod
    def load(
        path: str,
        static_shapes: bool = False,
        level: int = 2,
        generate_code: bool = True,
        target: str = "cpu",
    ) -> OnnxSession: ...
    @staticmethod
    def parse(
        bytes: bytes,
        static_shapes: bool = False,
        level: int = 2,
        generate_code: bool = True,
        target: str = "cpu",
    ) -> OnnxSession: ...
    @property
    def inputs(self) -> list: ...
    @property
    def outputs(self) -> list: ...
    @property
    def statistics(self) -> dict: ...
    def run(self, arg: list, /) -> list: ...

def can_open_target(target: str) -> bool:
    """Whether the device of a target ("cpu", "cuda:N") is there."""

def onnx_operators() -> list[tuple[str, str]]:
    """Domain and name of each supported operator."""

def import_onnx(arg: str, /) -> Graph: ...
def write_log(area: str, level: str, message: str) -> None:
    """As the engine logs: see GEX_LOG."""

def logs(area: str, level: str) -> bool:
    """Whether such a message would be written."""

def memory_usage() -> dict:
    """
    Memory of the engine, all of it and by use: bytes now, their peak, number of allocations.
    """

def reset_memory_peaks() -> None: ...
def fused_units(runner: Runner) -> list[tuple[str, str, int]]:
    """What fusion made: kind, label, number of nodes."""

def pass_changes(runner: Runner) -> list[tuple[str, int, int, int]]:
    """
    Passes that changed the graph: name, number of changes, nodes before and after.
    """

class TraceKeeper:
    """Traces of calls, for reports and trace files."""

    def __init__(self) -> None: ...
    def has(self, runner: Runner) -> bool:
        """Whether a call of the runner was traced."""

    def times(self, runner: Runner) -> list[int]:
        """Nanoseconds of each traced call of the runner."""

    def chrome_trace(self) -> str:
        """
        The fastest call of each graph, as JSON that Perfetto and chrome://tracing open.
        """

def set_tracing(keeper: TraceKeeper | None) -> None:
    """Sets where calls are traced from now on; None: tracing is off."""

def graph_model(runner: Runner, keeper: TraceKeeper | None, machine_code: bool) -> str | None:
    """The report model of one graph: JSON."""

def report_model(
    title: str, graphs: Sequence[str], first_call: Sequence[tuple[str, float]], extra: str
) -> str:
    """A whole report: JSON."""

def report_page(models: Sequence[str]) -> str:
    """One model, or two to compare, as a page of HTML."""

def save_model(
    graph: Graph,
    signature: Signature,
    weights: Sequence[tuple[int, int]],
    input_names: Sequence[str],
    output_names: Sequence[str],
    path: str,
    levels: Sequence[str],
    name: str,
    source: str,
    kernels: Mapping[int, tuple[str, str]],
) -> None:
    """
    Writes an imported graph with its weights as a model file. `kernels`: callees that are kernels there, with their parameters.
    """

class EsError(UserError, ValueError): ...
