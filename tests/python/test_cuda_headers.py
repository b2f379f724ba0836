"""The entry points, structures and constants of CUDA's driver that src/nvidia/api.hpp declares by
hand are those of NVIDIA's header, where that is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "src" / "nvidia" / "api.hpp"

_COMPARE = """
#include <cuda.h>
#include <cstddef>
#include <type_traits>
#include "nvidia/api.hpp"
using namespace gex::nvidia;
template <class A, class B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
                       std::is_floating_point_v<A> == std::is_floating_point_v<B>;
template <class...> struct List {};
template <class A, class B> struct Alike : std::false_type {};
template <> struct Alike<List<>, List<>> : std::true_type {};
template <class A, class... As, class B, class... Bs>
struct Alike<List<A, As...>, List<B, Bs...>>
    : std::bool_constant<alike<A, B> && Alike<List<As...>, List<Bs...>>::value> {};
template <class A, class B> struct Same : std::false_type {};
template <class R, class... A, class S, class... B>
struct Same<R (*)(A...), S (*)(B...)> : Alike<List<R, A...>, List<S, B...>> {};

#define AT(theirs, a, ours, b) \\
  static_assert(offsetof(theirs, a) == offsetof(ours, b), #theirs "::" #a)
#define EQUAL(theirs, ours) static_assert((long long)theirs == (long long)ours, #theirs)
EQUAL(sizeof(CUlaunchConfig), sizeof(LaunchConfig));
AT(CUlaunchConfig, blockDimX, LaunchConfig, block);
AT(CUlaunchConfig, sharedMemBytes, LaunchConfig, shared_bytes);
AT(CUlaunchConfig, hStream, LaunchConfig, stream);
AT(CUlaunchConfig, attrs, LaunchConfig, attributes);
AT(CUlaunchConfig, numAttrs, LaunchConfig, num_attributes);
EQUAL(sizeof(CUlaunchAttribute), sizeof(LaunchAttribute));
AT(CUlaunchAttribute, value, LaunchAttribute, value);
EQUAL(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, kProgrammaticSerialization);
EQUAL(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, kCooperative);
EQUAL(sizeof(CUgraphNodeParams), sizeof(ConditionalNode));
AT(CUgraphNodeParams, conditional.handle, ConditionalNode, handle);
AT(CUgraphNodeParams, conditional.type, ConditionalNode, kind);
AT(CUgraphNodeParams, conditional.size, ConditionalNode, size);
AT(CUgraphNodeParams, conditional.phGraph_out, ConditionalNode, bodies);
AT(CUgraphNodeParams, conditional.ctx, ConditionalNode, context);
EQUAL(CU_GRAPH_NODE_TYPE_CONDITIONAL, ConditionalNode().type);
EQUAL(CU_GRAPH_COND_TYPE_IF, kConditionalIf);
EQUAL(CU_GRAPH_COND_TYPE_WHILE, kConditionalWhile);
EQUAL(CU_GRAPH_COND_ASSIGN_DEFAULT, kAssignDefault);
EQUAL(CU_STREAM_SET_CAPTURE_DEPENDENCIES, kSetDependencies);
EQUAL(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, kAttributeComputeMajor);
EQUAL(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, kAttributeComputeMinor);
EQUAL(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, kAttributeMultiprocessors);
EQUAL(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kAttributeMaxSharedPerBlock);
EQUAL(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, kAttributeClockKilohertz);
EQUAL(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, kAttributeL2Bytes);
EQUAL(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kFunctionMaxDynamicShared);
EQUAL(CU_STREAM_NON_BLOCKING, kStreamNonBlocking);
EQUAL(CU_EVENT_DISABLE_TIMING, kEventDisableTiming);
EQUAL(CU_EVENT_RECORD_EXTERNAL, kEventRecordExternal);
EQUAL(CU_STREAM_CAPTURE_MODE_RELAXED, kCaptureRelaxed);
EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, kCaptureActive);
EQUAL(CUDA_ERROR_OUT_OF_MEMORY, kOutOfMemory);
EQUAL(CUDA_ERROR_ILLEGAL_ADDRESS, kFirstFault);
EQUAL(CUDA_ERROR_LAUNCH_FAILED, kLastFault);
"""


def folder_of_header() -> Path | None:
    found = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    if nvcc := shutil.which("nvcc"):
        found.append(str(Path(nvcc).resolve().parents[1]))
    folders = (Path(name) / "include" for name in found if name)
    return next((folder for folder in folders if (folder / "cuda.h").exists()), None)


def declared(table: str) -> list[tuple[str, str]]:
    """Symbols and their parameters in a table of the header."""
    text = API.read_text().replace("\\\n", " ")
    found = re.search(rf"#define {table}\(X\)(.*)", text)
    assert found is not None
    entries = re.split(r"X\(\w+, ", " ".join(found[1].split()))[1:]
    matches = [re.match(r'"(\w+)", (\(.*\))\)\s*$', entry) for entry in entries]
    assert matches and all(matches)
    return [(match[1], match[2]) for match in matches if match]


HEADER = folder_of_header()


@pytest.mark.skipif(HEADER is None, reason="CUDA's headers are not installed")
def test_declarations_are_those_of_cuda(tmp_path: Path) -> None:
    functions = declared("GEX_CUDA_DRIVER") + declared("GEX_CUDA_CONDITIONAL")
    assert len(functions) > 45
    text = _COMPARE + "".join(
        f'static_assert(Same<decltype(&::{symbol}), Result (*){parameters}>::value, "{symbol}");\n'
        for symbol, parameters in functions
    )
    source = tmp_path / "compare.cpp"
    source.write_text(text)
    command = ["c++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof"]
    done = subprocess.run(
        [*command, f"-I{HEADER}", f"-I{ROOT / 'src'}", str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
