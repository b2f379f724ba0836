#pragma once
// The entry points of NVIDIA's libraries that gex uses, declared by hand and opened at run time:
// one binary runs with and without a GPU, and building needs no CUDA headers.

#include <cstddef>
#include <string>

namespace gex::nvidia {

using Result = int;  // CUresult; 0 is success
using DevicePtr = unsigned long long;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
using GraphNode = struct CUgraphNode_st*;
using ConditionHandle = unsigned long long;

inline constexpr Result kOutOfMemory = 2;
// What kernels do wrong: illegal address, assert, misaligned access, illegal instruction, ...
inline constexpr Result kFirstFault = 700, kLastFault = 719;
inline constexpr int kAttributeComputeMajor = 75, kAttributeComputeMinor = 76;
inline constexpr int kAttributeMultiprocessors = 16, kAttributeMaxSharedPerBlock = 97;
inline constexpr int kAttributeClockKilohertz = 13, kAttributeL2Bytes = 38;
inline constexpr int kFunctionMaxDynamicShared = 8;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
inline constexpr unsigned kEventRecordExternal = 1;  // a node of the graph that is captured
inline constexpr int kCaptureRelaxed = 2, kCaptureActive = 1;

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id = 0;
  int unused = 0;
  union {
    char bytes[64] = {};
    int number;
  } value;
};
inline constexpr int kProgrammaticSerialization = 6, kCooperative = 2;
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  const LaunchAttribute* attributes = nullptr;
  unsigned num_attributes = 0;
};

// CUgraphNodeParams of a conditional node.
struct ConditionalNode {
  int type = 13;
  int reserved[3] = {};
  ConditionHandle handle = 0;
  int kind = 0;  // kConditionalIf, kConditionalWhile
  unsigned size = 1;
  Graph* bodies = nullptr;  // made by the driver
  Context context = nullptr;
  long long padding[25] = {};
  long long unused = 0;
};
static_assert(sizeof(ConditionalNode) == 256);
inline constexpr int kConditionalIf = 0, kConditionalWhile = 1;
inline constexpr unsigned kAssignDefault = 1, kSetDependencies = 1;
// The first driver whose conditional nodes are used: 12.4.
inline constexpr int kConditionalDriver = 12040;

// member(symbol in the library, parameters)
#define GEX_CUDA_DRIVER(X)                                                                       \
  X(init, "cuInit", (unsigned flags))                                                            \
  X(device_count, "cuDeviceGetCount", (int* count))                                              \
  X(device_get, "cuDeviceGet", (int* device, int ordinal))                                       \
  X(device_name, "cuDeviceGetName", (char* name, int bytes, int device))                         \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))           \
  X(context_retain, "cuDevicePrimaryCtxRetain", (Context * context, int device))                 \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
  X(context_set, "cuCtxSetCurrent", (Context context))                                           \
  X(context_get, "cuCtxGetCurrent", (Context * context))                                         \
  X(context_synchronize, "cuCtxSynchronize", ())                                                 \
  X(error_string, "cuGetErrorString", (Result error, const char** text))                         \
  X(memory_alloc, "cuMemAlloc_v2", (DevicePtr * pointer, std::size_t bytes))                     \
  X(memory_free, "cuMemFree_v2", (DevicePtr pointer))                                            \
  X(host_alloc, "cuMemHostAlloc", (void** pointer, std::size_t bytes, unsigned flags))           \
  X(host_free, "cuMemFreeHost", (void* pointer))                                                 \
  X(copy_to_device, "cuMemcpyHtoD_v2", (DevicePtr to, const void* from, std::size_t bytes))      \
  X(copy_to_device_async, "cuMemcpyHtoDAsync_v2",                                                \
    (DevicePtr to, const void* from, std::size_t bytes, Stream stream))                          \
  X(copy_to_host_async, "cuMemcpyDtoHAsync_v2",                                                  \
    (void* to, DevicePtr from, std::size_t bytes, Stream stream))                                \
  X(copy_on_device_async, "cuMemcpyDtoDAsync_v2",                                                \
    (DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream))                            \
  X(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                          \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream stream))                                       \
  X(stream_synchronize, "cuStreamSynchronize", (Stream stream))                                  \
  X(event_create, "cuEventCreate", (Event * event, unsigned flags))                              \
  X(event_destroy, "cuEventDestroy_v2", (Event event))                                           \
  X(event_record, "cuEventRecord", (Event event, Stream stream))                                 \
  X(event_record_with, "cuEventRecordWithFlags", (Event event, Stream stream, unsigned flags))   \
  X(event_synchronize, "cuEventSynchronize", (Event event))                                      \
  X(event_query, "cuEventQuery", (Event event))                                                  \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, Event from, Event to))            \
  X(stream_wait, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))              \
  X(module_load, "cuModuleLoadData", (Module * module, const void* image))                       \
  X(module_unload, "cuModuleUnload", (Module module))                                            \
  X(module_function, "cuModuleGetFunction",                                                      \
    (Function * function, Module module, const char* name))                                      \
  X(function_set_attribute, "cuFuncSetAttribute", (Function function, int attribute, int value)) \
  X(launch, "cuLaunchKernel",                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments, \
     void** extra))                                                                              \
  X(launch_with, "cuLaunchKernelEx",                                                             \
    (const LaunchConfig* config, Function function, void** arguments, void** extra))             \
  X(capture_begin, "cuStreamBeginCapture_v2", (Stream stream, int mode))                         \
  X(capture_status, "cuStreamIsCapturing", (Stream stream, int* status))                         \
  X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                              \
  X(capture_end, "cuStreamEndCapture", (Stream stream, Graph * graph))                           \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                            \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                   \
  X(graph_destroy, "cuGraphDestroy", (Graph graph))                                              \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec exec))                                  \
  X(graph_launch, "cuGraphLaunch", (GraphExec exec, Stream stream))

// Conditional nodes of graphs, which older drivers don't have. The edges of dependencies are given
// back as they were received.
#define GEX_CUDA_CONDITIONAL(X)                                                       \
  X(driver_version, "cuDriverGetVersion", (int* version))                             \
  X(capture_info, "cuStreamGetCaptureInfo_v3",                                        \
    (Stream stream, int* status, unsigned long long* number, Graph* graph,            \
     const GraphNode** dependencies, const void** edges, std::size_t* count))         \
  X(set_dependencies, "cuStreamUpdateCaptureDependencies_v2",                         \
    (Stream stream, GraphNode * dependencies, const void* edges, std::size_t count,   \
     unsigned flags))                                                                 \
  X(capture_into, "cuStreamBeginCaptureToGraph",                                      \
    (Stream stream, Graph graph, const GraphNode* dependencies, const void* edges,    \
     std::size_t count, int mode))                                                    \
  X(add_node, "cuGraphAddNode_v2",                                                    \
    (GraphNode * node, Graph graph, const GraphNode* dependencies, const void* edges, \
     std::size_t count, void* node_params))                                           \
  X(make_condition, "cuGraphConditionalHandleCreate",                                 \
    (ConditionHandle * handle, Graph graph, Context context, unsigned value, unsigned flags))

#define GEX_CUDA_NVRTC(X)                                                                   \
  X(version, "nvrtcVersion", (int* major, int* minor))                                      \
  X(create, "nvrtcCreateProgram",                                                           \
    (void** program, const char* source, const char* name, int headers,                     \
     const char* const* header_texts, const char* const* header_names))                     \
  X(compile, "nvrtcCompileProgram", (void* program, int options, const char* const* texts)) \
  X(destroy, "nvrtcDestroyProgram", (void** program))                                       \
  X(log_size, "nvrtcGetProgramLogSize", (void* program, std::size_t* bytes))                \
  X(log, "nvrtcGetProgramLog", (void* program, char* text))                                 \
  X(cubin_size, "nvrtcGetCUBINSize", (void* program, std::size_t* bytes))                   \
  X(cubin, "nvrtcGetCUBIN", (void* program, char* data))

#define GEX_CUDA_CUBLAS(X)                                                                      \
  X(create, "cublasCreate_v2", (void** handle))                                                 \
  X(destroy, "cublasDestroy_v2", (void* handle))                                                \
  X(set_stream, "cublasSetStream_v2", (void* handle, Stream stream))                            \
  X(set_workspace, "cublasSetWorkspace_v2", (void* handle, void* workspace, std::size_t bytes)) \
  X(gemm, "cublasGemmStridedBatchedEx",                                                         \
    (void* handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha,            \
     const void* a, int a_type, int lda, long long a_step, const void* b, int b_type, int ldb,  \
     long long b_step, const void* beta, void* c, int c_type, int ldc, long long c_step,        \
     int batch, int compute_type, int algorithm))

#define GEX_CUDA_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
struct DriverApi {
  GEX_CUDA_DRIVER(GEX_CUDA_MEMBER)
};
struct ConditionalApi {
  GEX_CUDA_CONDITIONAL(GEX_CUDA_MEMBER)
};
struct NvrtcApi {
  GEX_CUDA_NVRTC(GEX_CUDA_MEMBER)
};
struct CublasApi {
  GEX_CUDA_CUBLAS(GEX_CUDA_MEMBER)
};
#undef GEX_CUDA_MEMBER

// Opened once and kept until the process ends. Null if the library is missing or too old; `why_not`
// then says which. Folders in GEX_CUDA_LIBRARY_PATH are searched first.
const DriverApi* driver_api(std::string& why_not);
const ConditionalApi* conditional_api(std::string& why_not);
const NvrtcApi* nvrtc_api(std::string& why_not);
const CublasApi* cublas_api(std::string& why_not);

// A range of the calling thread in NVIDIA's tools (Nsight Systems and others), if one of them runs
// the process: they set NVTX_INJECTION64_PATH. Otherwise nothing is opened or called.
class ToolRange {
 public:
  explicit ToolRange(const char* name);
  ~ToolRange();
  ToolRange(const ToolRange&) = delete;
  ToolRange& operator=(const ToolRange&) = delete;
};

}  // namespace gex::nvidia
