/* The C interface of gex: build or parse a graph, print it, compile it, run it.
 *
 * - Every function that can fail returns a gex_status; gex_last_error() has the message, per
 *   thread. A failed call changes nothing but that message. No exception leaves the library.
 * - Structs with a `struct_size` may grow at the end in later versions: set it with sizeof, or use
 *   the *_INIT macros. Structs without one never change.
 * - A graph may be used by one thread at a time; a program by any number of threads.
 * - NULL for a required handle, name or result pointer is an error with a message, not a crash; so
 *   is a handle that was destroyed or has another kind. Destroying a handle twice only logs an
 * error.
 */
#ifndef GEX_GEX_H
#define GEX_GEX_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GEX_API __attribute__((visibility("default")))
#else
#define GEX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Changes only when the meaning of something here changes: a library works with programs that
 * were built with the same number. */
#define GEX_ABI_VERSION 1
GEX_API uint32_t gex_abi_version(void);
GEX_API const char* gex_version(void); /* "0.1.0" */

/* --- errors ---------------------------------------------------------------------------------- */

typedef int32_t gex_status;
enum {
  GEX_OK = 0,
  GEX_INVALID_ARGUMENT = 1,
  GEX_SHAPE_MISMATCH = 2,
  GEX_TYPE_MISMATCH = 3,
  GEX_PARSE_ERROR = 4,
  GEX_UNSUPPORTED = 5,
  GEX_NOT_FOUND = 6,
  GEX_OUT_OF_MEMORY = 7,
  GEX_IO_ERROR = 8,
  GEX_INVALID_GRAPH = 9,
  GEX_DEVICE_ERROR = 10,
  GEX_INTERNAL = 11,  /* a bug in gex; the message says where it was noticed */
  GEX_CANCELLED = 12, /* gex_cancel_request stopped the run */
  GEX_DEADLINE = 13,  /* the run took longer than its time limit */
  GEX_BUSY = 14       /* too many asynchronous runs are waiting */
};
GEX_API const char* gex_status_name(gex_status status); /* "shape_mismatch" */
/* The message of this thread's last failed call; valid until its next failed call. "" if none
 * failed. */
GEX_API const char* gex_last_error(void);

/* --- dtypes, sizes, tensors ------------------------------------------------------------------ */

typedef int32_t gex_dtype;
enum {
  GEX_F64 = 0,
  GEX_F32 = 1,
  GEX_F16 = 2,
  GEX_BF16 = 3,
  GEX_I64 = 4,
  GEX_I32 = 5,
  GEX_I16 = 6,
  GEX_I8 = 7,
  GEX_U8 = 8,
  GEX_BOOL = 9 /* one byte, 0 or 1 */
};

/* A size: `number` if `expression` is NULL, else the value of the expression: "s0", "s0*8 + 1",
 * "(s0 + 7)//8". */
typedef struct gex_size {
  int64_t number;
  const char* expression;
} gex_size;

/* Elements in memory. Strides are in elements; NULL means dense, row-major. */
typedef struct gex_tensor {
  uint32_t struct_size;
  gex_dtype dtype;
  void* data;
  size_t rank;
  const int64_t* shape;
  const int64_t* strides;
  void* owner; /* set by the library for its own memory: free it with gex_tensor_release */
} gex_tensor;
#define GEX_TENSOR_INIT {sizeof(gex_tensor), GEX_F32, NULL, 0, NULL, NULL, NULL}

/* Frees library memory and makes *tensor empty. Does nothing for memory of the caller. */
GEX_API void gex_tensor_release(gex_tensor* tensor);

/* Texts that functions return through char** belong to the caller. NULL is allowed. */
GEX_API void gex_text_free(char* text);

/* --- graphs ---------------------------------------------------------------------------------- */

typedef struct gex_graph gex_graph;
/* A value of one graph; another graph rejects it. Lives as long as its graph. */
typedef uint64_t gex_value;
#define GEX_NO_VALUE ((gex_value)0) /* an optional input that is absent */

GEX_API gex_status gex_graph_create(const char* name, gex_graph** graph);
GEX_API void gex_graph_destroy(gex_graph* graph); /* NULL is allowed */
GEX_API gex_status gex_graph_clone(const gex_graph* graph, gex_graph** clone);
/* The text form (docs/text.md). Errors start with line:column. */
GEX_API gex_status gex_graph_parse(const char* text, size_t length, gex_graph** graph);
GEX_API gex_status gex_graph_print(const gex_graph* graph, char** text);
/* For people: the same with at most the first and last three values of a constant. */
GEX_API gex_status gex_graph_print_abbreviated(const gex_graph* graph, char** text);
/* For viewers: an ONNX ModelProto in protobuf's text format, with gex's own ops. */
GEX_API gex_status gex_graph_print_onnx(const gex_graph* graph, char** text);
/* A graph from an ONNX file; external data is read from the file's folder. Inputs and outputs are
 * the model's, in order; sizes that are unknown in the file are symbols. uint16, uint32 and uint64
 * tensors are passed as i16, i32 and i64 with the same bits. The error lists all unsupported
 * operators. A model whose sizes or branches depend on input values is not a single graph:
 * GEX_UNSUPPORTED. */
GEX_API gex_status gex_import_onnx(const char* path, gex_graph** graph);
/* Checks everything that can be checked without running the graph. gex_compile does so too. */
GEX_API gex_status gex_graph_verify(const gex_graph* graph);

/* Declares a size symbol with its range; must precede its first use. A bare new name in an input's
 * shape declares a symbol with range [0, infinity]. */
GEX_API gex_status gex_graph_symbol(gex_graph* graph, const char* name, int64_t lowest,
                                    int64_t highest);
#define GEX_NO_LIMIT INT64_MAX

/* Inputs are numbered in the order they are made. `name` may be NULL. */
GEX_API gex_status gex_graph_input(gex_graph* graph, const char* name, gex_dtype dtype,
                                   const gex_size* shape, size_t rank, gex_value* input);
/* An input with the dtype and sizes of a value of `other`: for the inputs of subgraphs. */
GEX_API gex_status gex_graph_input_like(gex_graph* graph, const char* name, const gex_graph* other,
                                        gex_value value, gex_value* input);
/* Changes the dtype or shape of an input that nothing uses yet. */
GEX_API gex_status gex_graph_set_input_dtype(gex_graph* graph, gex_value input, gex_dtype dtype);
GEX_API gex_status gex_graph_set_input_shape(gex_graph* graph, gex_value input,
                                             const gex_size* shape, size_t rank);
/* Reorders the inputs: new input k is the former input order[k]. `order` is a permutation of all
 * inputs. */
GEX_API gex_status gex_graph_order_inputs(gex_graph* graph, const size_t* order, size_t count);

/* A constant with a copy of these elements, converted to `dtype`. Integer results must be exact. */
GEX_API gex_status gex_graph_constant(gex_graph* graph, const gex_tensor* elements, gex_dtype dtype,
                                      gex_value* constant);

/* The first elements of a file of raw little-endian numbers; it may be longer. */
GEX_API gex_status gex_graph_constant_from_file(gex_graph* graph, const char* path, gex_dtype dtype,
                                                const int64_t* shape, size_t rank,
                                                gex_value* constant);

typedef int32_t gex_attr_kind;
enum {
  GEX_ATTR_BOOL = 0,    /* integer */
  GEX_ATTR_INT = 1,     /* integer */
  GEX_ATTR_FLOAT = 2,   /* real */
  GEX_ATTR_STRING = 3,  /* string */
  GEX_ATTR_DTYPE = 4,   /* integer: a gex_dtype */
  GEX_ATTR_SIZE = 5,    /* sizes, one */
  GEX_ATTR_INTS = 6,    /* integers, count */
  GEX_ATTR_FLOATS = 7,  /* reals, count */
  GEX_ATTR_SIZES = 8,   /* sizes, count */
  GEX_ATTR_STRINGS = 9, /* strings, count */
  GEX_ATTR_TENSOR = 10  /* tensor */
};
typedef struct gex_attr {
  const char* name;
  gex_attr_kind kind;
  size_t count; /* of lists */
  union {
    int64_t integer;
    double real;
    const char* string;
    const int64_t* integers;
    const double* reals;
    const char* const* strings;
    const gex_size* sizes;
    const gex_tensor* tensor;
  } value;
} gex_attr;

/* One node of any op ("add", "softmax", ...; gex_list_ops lists them), checked at once. Omitted
 * attributes have their defaults; a negative axis counts from the end. Operands of
 * elementwise ops that differ in dtype are cast to the wider one, as in PyTorch. Fills
 * `outputs`, which must have one entry per result of the op. The node is named "<Op>_<n>", where n
 * counts the nodes made by these functions, from 0. */
GEX_API gex_status gex_graph_add(gex_graph* graph, const char* op, const gex_value* inputs,
                                 size_t input_count, const gex_attr* attrs, size_t attr_count,
                                 gex_value* outputs, size_t output_count);

/* A node with everything that it can have. */
typedef struct gex_node {
  uint32_t struct_size;
  const char* op;
  const gex_value* inputs;
  size_t input_count;
  const gex_attr* attrs;
  size_t attr_count;
  const gex_graph* const* subgraphs; /* copied, unless take_subgraphs is 1 */
  size_t subgraph_count;
  const char* location; /* location in the user's code, for messages; may be NULL */
  /* 1: the subgraphs are verified and become part of the node without a copy. Their handles are
   * destroyed, also if the call fails, unless one of them can't be taken (it is given twice). */
  int32_t take_subgraphs;
  int32_t reserved;
} gex_node;
/* Named subgraphs of one graph must have different names. */
#define GEX_NODE_INIT {sizeof(gex_node), NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0}
GEX_API gex_status gex_graph_add_node(gex_graph* graph, const gex_node* node, gex_value* outputs,
                                      size_t output_count);

/* The same if the number of results is not known in advance: writes *count entries to `outputs`,
 * which has room for `capacity`. */
GEX_API gex_status gex_graph_add_node_counted(gex_graph* graph, const gex_node* node,
                                              gex_value* outputs, size_t capacity, size_t* count);

/* Labels: user data of the graph or of the node that computes a value, a bool, an integer or a
 * string. Nodes with different labels are never merged. Reading returns the text form: 3, true,
 * "a". */
GEX_API gex_status gex_graph_set_label(gex_graph* graph, const gex_attr* label);
GEX_API gex_status gex_graph_label(const gex_graph* graph, const char* name, char** text);
GEX_API gex_status gex_value_set_label(gex_graph* graph, gex_value value, const gex_attr* label);
GEX_API gex_status gex_value_label(const gex_graph* graph, gex_value value, const char* name,
                                   char** text);

/* At the end of each run, `value`, converted to the dtype of input `variable`, is written to it.
 * Nodes that read the variable get its contents from before the run, except those ordered after the
 * assignment (gex_graph_order): they get `assigned`. */
GEX_API gex_status gex_graph_assign(gex_graph* graph, gex_value variable, gex_value value,
                                    gex_value* assigned);
/* A control edge: the node of `after` comes after the nodes of `before`. */
GEX_API gex_status gex_graph_order(gex_graph* graph, gex_value after, const gex_value* before,
                                   size_t count);

GEX_API gex_status gex_graph_set_outputs(gex_graph* graph, const gex_value* outputs, size_t count);
/* Output `output` is written into the memory of input `input` at each run, and is no longer a
 * separate result. */
GEX_API gex_status gex_graph_tie(gex_graph* graph, size_t output, size_t input);

GEX_API gex_status gex_graph_name(const gex_graph* graph, char** name);
GEX_API gex_status gex_graph_input_count(const gex_graph* graph, size_t* count);
GEX_API gex_status gex_graph_output_count(const gex_graph* graph, size_t* count);
GEX_API gex_status gex_graph_get_input(gex_graph* graph, size_t index, gex_value* input);
GEX_API gex_status gex_graph_get_output(gex_graph* graph, size_t index, gex_value* output);
/* As printed: "x", "Softmax_3"; "" if it has none. */
GEX_API gex_status gex_value_name(const gex_graph* graph, gex_value value, char** name);
/* Result pointers may be NULL. Symbolic sizes are -1 in `shape`, which has room for `capacity`
 * sizes; `text` is the whole type: "f32[s0, 4]". */
GEX_API gex_status gex_value_type(const gex_graph* graph, gex_value value, gex_dtype* dtype,
                                  size_t* rank, int64_t* shape, size_t capacity, char** text);

/* A line for each op: "matmul(a, b) {wide = false}  Matrix product ...". */
GEX_API gex_status gex_list_ops(char** text);

/* Registers a user-defined op, composed of other ops, for gex_graph_add in this process. `expand`
 * builds it from `inputs` in `graph` and writes *output_count entries to `outputs`, which has room
 * for `capacity`. It is called for each node, to infer its types and to replace it; it must return
 * the same for the same types, may be called from any thread, and must not throw. */
typedef struct gex_op {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;          /* a new one: "my.scaled" */
  const char* doc;           /* may be NULL */
  const char* const* inputs; /* names: "x", "bias?" (may be absent), "xs..." (any number, last) */
  size_t input_count;
  void* user;
  gex_status (*expand)(void* user, gex_graph* graph, const gex_value* inputs, size_t input_count,
                       gex_value* outputs, size_t capacity, size_t* output_count);
  const gex_attr* attrs; /* names and defaults, which determine the kinds; no tensors */
  size_t attr_count;
  /* If not NULL, called instead of `expand`: also gets all declared attributes of the node, in the
   * order of declaration, valid until it returns. */
  gex_status (*expand_with)(void* user, gex_graph* graph, const gex_value* inputs,
                            size_t input_count, const gex_attr* attrs, size_t attr_count,
                            gex_value* outputs, size_t capacity, size_t* output_count);
} gex_op;
#define GEX_OP_INIT {sizeof(gex_op), 0, NULL, NULL, NULL, 0, NULL, NULL, NULL, 0, NULL}
GEX_API gex_status gex_register_op(const gex_op* op);

/* Registers a user-defined op whose body is the text of a loop kernel; it fuses with its
 * neighbours. Parameters `in` of the kernel are the inputs of the op, `out` its results. It has one
 * stage without a reduction, which stores each result once, at the indices of the grid: symbols n
 *   kernel k(x: in f32[n], y: out f32[n]) grid(i < n) {
 *     stage {
 *       v0 = load x[i] : f32
 *       v1 = tanh v0 : f32
 *       store y[i] = v1
 *     }
 *   } */
GEX_API gex_status gex_register_loop_op(const char* name, const char* doc, const char* text);

/* --- programs -------------------------------------------------------------------------------- */

typedef struct gex_program gex_program;

/* The caller's allocator for temporaries and for results in library memory. Both functions may be
 * called from any thread. All memory is released when the program and the results are destroyed.
 * Constants stay in the graph's own memory. */
typedef struct gex_allocator {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  void* (*allocate)(void* user, size_t bytes, size_t alignment); /* NULL: out of memory */
  void (*release)(void* user, void* memory, size_t bytes);
} gex_allocator;
#define GEX_ALLOCATOR_INIT {sizeof(gex_allocator), 0, NULL, NULL, NULL}

/* The caller's threads. `run` calls task(context, k) for each k from 0 to count - 1, on any
 * threads and in any order, and returns when all are done. It may be called by several threads at
 * once, and must not throw. */
typedef struct gex_thread_pool {
  uint32_t struct_size;
  int32_t threads; /* how many tasks run at once */
  void* user;
  void (*run)(void* user, int64_t count, void (*task)(void* context, int64_t k), void* context);
} gex_thread_pool;
#define GEX_THREAD_POOL_INIT {sizeof(gex_thread_pool), 1, NULL, NULL}

/* An option by name: "target" = "cuda:0", "fuse" = "false", "level" = "3", "disabled_passes" =
 * "cse,dce". gex_list_options lists all of them. */
typedef struct gex_option {
  const char* name;
  const char* value;
} gex_option;
/* A line for each option: name, type, default, what it does. */
GEX_API gex_status gex_list_options(char** text);

/* Every option has a name; the older ones have a field too. */
typedef struct gex_compile_options {
  uint32_t struct_size;
  int32_t level;         /* 0 .. 3: which passes run */
  int32_t fuse;          /* 0: a separate kernel for every node */
  int32_t fast_math;     /* 1: reassociation and reciprocals, bits may differ */
  int32_t generate_code; /* 0: kernels run in the reference executor */
  int32_t keep_apart;    /* 1: temporaries never share memory, to find out-of-bounds writes */
  int64_t capture_limit; /* shapes kept ready for replay */
  const char* const* disabled_passes;
  size_t disabled_pass_count;
  const char* dump_dir;              /* NULL, or a folder for the graph after each pass */
  const char* const* enabled_passes; /* regardless of the level */
  size_t enabled_pass_count;
  const char* switch_file;        /* NULL, or a JSON file that switches passes on and off by name */
  const gex_allocator* allocator; /* NULL: the library's; copied */
  const gex_thread_pool* thread_pool; /* NULL: the library's; copied */
  int32_t streams;  /* 0: as labelled; 1: one; 2..64: independent launches use up to this many */
  int32_t in_place; /* 0: in_place_temps and in_place_inputs are off */
  int32_t autotune; /* 1: measure algorithms of matmuls and convolutions for hot sizes */
  int32_t operands_in_memory; /* 1: no prologues: all operands are read from memory */
  /* 1: indices out of range are not errors: gathers read the nearest element, scatters skip them.
   * 0: a run with such an index (less than -size, or at least size) fails. */
  int32_t unchecked_indices;
  /* 1: the compile cache is not used, even if GEX_CACHE_DIR names a folder. */
  int32_t no_cache;
  int32_t async_limit; /* asynchronous runs that may wait at once */
  int32_t reserved;
  const gex_option* options; /* by name, in order; they take precedence over the fields above */
  size_t option_count;
} gex_compile_options;
/* clang-format off */
#define GEX_COMPILE_OPTIONS_INIT                                                              \
  {sizeof(gex_compile_options), 2, 1, 0, 1, 0, 64, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, \
   0, 1, 0, 0, 0, 0, 1024, 0, NULL, 0}
/* clang-format on */

/* Does not change the graph. `options` may be NULL. If GEX_CACHE_DIR names a folder, it is used as
 * a cache of compiled programs. */
GEX_API gex_status gex_compile(const gex_graph* graph, const gex_compile_options* options,
                               gex_program** program);
/* Writes a file that another process of the same build on the same kind of processor can load,
 * without the graph and without the passes and ops that made it. */
GEX_API gex_status gex_program_save(const gex_program* program, const char* path);
/* Only options about running are used: generate_code, reuse_memory (keep_apart),
 * capture_limit, static_code_at_once, autotune, cache (no_cache), allocator, thread_pool and
 * async_limit. The file must belong to the user or to root, and nobody else may be able to write
 * it. */
GEX_API gex_status gex_program_load(const char* path, const gex_compile_options* options,
                                    gex_program** program);
/* NULL is allowed. Must not be called while another thread runs the program. Waits for asynchronous
 * runs. */
GEX_API void gex_program_destroy(gex_program* program);

GEX_API gex_status gex_program_input_count(const gex_program* program, size_t* count);
/* Tied outputs are not counted. */
GEX_API gex_status gex_program_output_count(const gex_program* program, size_t* count);

/* Inputs are borrowed for the call; tied ones are written. An output whose `data` is NULL gets
 * dense library memory; otherwise the result is written to the caller's memory, which must have the
 * right dtype and shape and may have any strides. */
GEX_API gex_status gex_program_run(gex_program* program, const gex_tensor* inputs,
                                   size_t input_count, gex_tensor* outputs, size_t output_count);

/* Stops runs from another thread. May be passed to any number of runs; a request can't be undone.
 */
typedef struct gex_cancel gex_cancel;
GEX_API gex_status gex_cancel_create(gex_cancel** cancel);
GEX_API gex_status gex_cancel_request(gex_cancel* cancel);
/* NULL is allowed. Must not be called before the runs that it was passed to have finished. */
GEX_API void gex_cancel_destroy(gex_cancel* cancel);

/* The inputs' `data`, and that of the outputs, which must then not be NULL, are addresses of the
 * program's device ("cuda:N"): nothing is copied. Inputs must be complete before the call; when it
 * returns, the results are. A result must be laid out densely and overlap no other tensor. */
#define GEX_INPUTS_ON_DEVICE 1u
#define GEX_OUTPUTS_ON_DEVICE 2u
/* With both of the above: the work is enqueued on `stream`, after what is there already, and the
 * call returns without waiting for it. The memory of inputs and outputs must stay valid until the
 * stream has reached the end of the run; work enqueued there later may read the results. The host
 * waits for the stream only where the program needs a value on the host (the result of an index
 * check, a condition, a size that depends on data, operands of host functions). What fails on the
 * device is an error of a later run or of gex_program_synchronize. A stream that is being captured
 * gets the run as part of its graph; then the program and the memory must outlive the graph. */
#define GEX_ON_STREAM 4u

typedef struct gex_run_options {
  uint32_t struct_size;
  uint32_t on_device;          /* of the three above; 0: none */
  gex_cancel* cancel;          /* NULL: none */
  int64_t timeout_nanoseconds; /* from the start of the run; 0: no limit */
  void* stream; /* GEX_ON_STREAM: a CUstream or cudaStream_t of the program's device; NULL: its
                   default stream */
} gex_run_options;
#define GEX_RUN_OPTIONS_INIT {sizeof(gex_run_options), 0, NULL, 0, NULL}

/* As gex_program_run, but can be stopped with GEX_CANCELLED or GEX_DEADLINE. A run checks between
 * launches and at each loop iteration, so a running launch completes first. Tied inputs may then be
 * partly written. `options` may be NULL. */
GEX_API gex_status gex_program_run_with(gex_program* program, const gex_tensor* inputs,
                                        size_t input_count, gex_tensor* outputs,
                                        size_t output_count, const gex_run_options* options);

/* Waits for all work on a stream that was given to runs with GEX_ON_STREAM, and reports what failed
 * there. */
GEX_API gex_status gex_program_synchronize(gex_program* program, void* stream);

/* Returns at once; a thread of the program executes these runs in order and calls `callback` after
 * each. The arrays and their contents must stay unchanged until then. `message` is "" on success
 * and valid during the callback, which must not destroy the program. An exception thrown by the
 * callback is logged and not propagated. GEX_BUSY if `async_limit` runs are waiting. In a forked
 * child, runs started by the parent do not exist; new runs work. */
typedef void (*gex_run_callback)(void* user, gex_status status, const char* message);
GEX_API gex_status gex_program_run_async(gex_program* program, const gex_tensor* inputs,
                                         size_t input_count, gex_tensor* outputs,
                                         size_t output_count, gex_run_callback callback,
                                         void* user);
/* The same with options, which are copied; the time limit starts when the run starts executing.
 * Not with GEX_ON_STREAM: gex_program_run_with is asynchronous then. */
GEX_API gex_status gex_program_run_async_with(gex_program* program, const gex_tensor* inputs,
                                              size_t input_count, gex_tensor* outputs,
                                              size_t output_count, const gex_run_options* options,
                                              gex_run_callback callback, void* user);

enum {
  GEX_LEVEL_GRAPH = 0,   /* after the passes */
  GEX_LEVEL_KERNELS = 1, /* after fusion */
  GEX_LEVEL_PROGRAM = 2, /* steps and buffers */
  GEX_LEVEL_PASSES = 3   /* matches and changes of each pass, as JSON */
};
GEX_API gex_status gex_program_print(const gex_program* program, int32_t level, char** text);
/* A readable report: times of the stages, counts, nodes that were not fused and why, results of
 * autotuning so far. */
GEX_API gex_status gex_program_report(const gex_program* program, char** text);

typedef struct gex_counters {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t calls, captures, replays, evictions, uncaptured;
  int64_t launches, host_calls, bytes_copied, specialised;
  int64_t arena_bytes, arena_lower_bound, allocations;
} gex_counters;
#define GEX_COUNTERS_INIT {sizeof(gex_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
GEX_API gex_status gex_program_counters(const gex_program* program, gex_counters* counters);

/* --- inspecting and changing graphs ------------------------------------------------------------
 * For passes. A node is identified by any of its results. At most `capacity` entries of a list are
 * written; *count is its full length (with a capacity of 0 the list may be NULL). */

/* The first result of each node, in order. */
GEX_API gex_status gex_graph_nodes(gex_graph* graph, gex_value* values, size_t capacity,
                                   size_t* count);
/* "matmul"; "" for an input of the graph. */
GEX_API gex_status gex_value_op(const gex_graph* graph, gex_value value, char** op);
/* GEX_NO_VALUE for absent optional operands. */
GEX_API gex_status gex_value_operands(gex_graph* graph, gex_value value, gex_value* operands,
                                      size_t capacity, size_t* count);
/* All results of the node of `value`. */
GEX_API gex_status gex_value_results(gex_graph* graph, gex_value value, gex_value* results,
                                     size_t capacity, size_t* count);
/* The nodes that read `value`, by their first results, and which operand it is; for a graph output
 * GEX_NO_VALUE and its position. */
GEX_API gex_status gex_value_readers(gex_graph* graph, gex_value value, gex_value* readers,
                                     size_t* operands, size_t capacity, size_t* count);
/* Number of uses, including uses as a graph output. */
GEX_API gex_status gex_value_uses(const gex_graph* graph, gex_value value, size_t* count);
/* As printed: 3, 0.5, [1, 2], "add", f32. */
GEX_API gex_status gex_value_attr(const gex_graph* graph, gex_value value, const char* name,
                                  char** text);
/* Bools, integers, sizes that are numbers, and lists of them. */
GEX_API gex_status gex_value_attr_integers(const gex_graph* graph, gex_value value,
                                           const char* name, int64_t* numbers, size_t capacity,
                                           size_t* count);
/* A copy of the contents of a constant; GEX_NOT_FOUND if the value is not a constant. */
GEX_API gex_status gex_value_constant(const gex_graph* graph, gex_value value, gex_tensor* tensor);

/* Inserts new nodes before the node of `value`, or with GEX_NO_VALUE at the end. */
GEX_API gex_status gex_graph_insert_before(gex_graph* graph, gex_value value);
/* Redirects all uses of `from` to `to`, which must be computed before them. */
GEX_API gex_status gex_graph_replace(gex_graph* graph, gex_value from, gex_value to);
/* Makes `operand` the operand `index` of the node of `value`, or with GEX_NO_VALUE the output
 * `index` of the graph. It must have the type of what it replaces and be computed before the node.
 */
GEX_API gex_status gex_graph_set_operand(gex_graph* graph, gex_value value, size_t index,
                                         gex_value operand);
/* Removes the node of `value`, whose results must have no uses. */
GEX_API gex_status gex_graph_erase(gex_graph* graph, gex_value value);
/* Copies the nodes of another graph, with `inputs` in place of its inputs; writes one value for
 * each of its outputs. */
GEX_API gex_status gex_graph_inline(gex_graph* graph, const gex_graph* callee,
                                    const gex_value* inputs, size_t input_count, gex_value* outputs,
                                    size_t output_count);

/* --- user passes ---------------------------------------------------------------------------------
 * They run in every compile after their registration, at their stage, on any thread. */

/* A match: values of the graph that is passed to the callback, valid until it returns. */
typedef struct gex_match gex_match;
GEX_API gex_status gex_match_counts(const gex_match* match, size_t* inputs, size_t* outputs,
                                    size_t* captures);
/* The values matched by the pattern's inputs; for a decompose pass the operands of the node,
 * GEX_NO_VALUE if absent. */
GEX_API gex_status gex_match_input(const gex_match* match, size_t index, gex_value* value);
GEX_API gex_status gex_match_output(const gex_match* match, size_t index, gex_value* value);
GEX_API gex_status gex_match_captured(const gex_match* match, size_t index, gex_value* value);
GEX_API void gex_match_destroy(gex_match* match); /* of gex_matcher_next; NULL is allowed */

/* A graph whose inputs match any values. Its types only have to be consistent. */
typedef struct gex_pattern {
  const gex_graph* graph;    /* copied */
  const gex_value* captures; /* values of it that callbacks get */
  size_t capture_count;
} gex_pattern;

/* Finds a pattern in a graph, which must outlive it and may be changed between two matches.
 * any_constants, any_attributes: as in gex_pass. */
typedef struct gex_matcher gex_matcher;
GEX_API gex_status gex_matcher_create(gex_graph* graph, const gex_pattern* pattern,
                                      int32_t any_constants, int32_t any_attributes,
                                      gex_matcher** matcher);
GEX_API void gex_matcher_destroy(gex_matcher* matcher); /* NULL is allowed */
/* The next match, in the order of the nodes that compute the pattern's first output; each of them
 * is tried once. NULL if there is none. Not in subgraphs. Matches may overlap. */
GEX_API gex_status gex_matcher_next(gex_matcher* matcher, gex_match** match);
/* Replaces the nodes that compute `outputs` from `inputs` by a copy of another graph, which has as
 * many inputs and outputs. Values inside may only be used inside. */
GEX_API gex_status gex_graph_rewrite(gex_graph* graph, const gex_value* inputs, size_t input_count,
                                     const gex_value* outputs, size_t output_count,
                                     const gex_graph* replacement);

typedef int32_t gex_pass_kind;
enum {
  GEX_PASS_PATTERN = 0,   /* finds patterns, and replaces each match */
  GEX_PASS_DECOMPOSE = 1, /* replaces nodes of the ops it names */
  GEX_PASS_GRAPH = 2      /* gets the whole graph */
};

typedef struct gex_pass {
  uint32_t struct_size;
  gex_pass_kind kind;
  const char* name;
  const char* summary; /* may be NULL */
  /* "early": before the passes of gex; "middle": after its first cleanup; "late": composite ops
   * are expanded. Or BEFORE_INFER_SHAPE, AFTER_INFER_SHAPE, AFTER_BUILTIN_FUSION_PASS,
   * AFTER_ORIGIN_GRAPH_OPTIMIZE. NULL is early. */
  const char* stage;
  int32_t level;          /* runs at this level and above */
  int32_t any_constants;  /* constants of a pattern match any constants */
  int32_t any_attributes; /* nodes of a pattern match any attributes */
  int32_t reserved;
  const gex_pattern* patterns; /* GEX_PASS_PATTERN: tried in order */
  size_t pattern_count;
  const char* const* ops; /* GEX_PASS_DECOMPOSE */
  size_t op_count;
  /* Sets *agrees to whether to replace the match. NULL: always. */
  gex_status (*condition)(void* user, gex_graph* graph, const gex_match* match, int32_t* agrees);
  /* Adds nodes to the graph at the match and returns a value for each output of the match. */
  gex_status (*replacement)(void* user, gex_graph* graph, const gex_match* match,
                            gex_value* outputs, size_t output_count);
  /* GEX_PASS_GRAPH: changes the graph and sets whether it did. */
  gex_status (*run)(void* user, gex_graph* graph, int32_t* changed);
  void* user;
  void (*release)(void* user); /* NULL, or called once when the pass is removed or rejected */
  /* Must change whenever the behaviour of the pass changes: programs that it changed are then
   * stored in the compile cache. NULL or "": they are not stored. */
  const char* version;
} gex_pass;
#define GEX_PASS_INIT \
  {sizeof(gex_pass),  \
   GEX_PASS_PATTERN,  \
   NULL,              \
   NULL,              \
   NULL,              \
   2,                 \
   0,                 \
   0,                 \
   0,                 \
   NULL,              \
   0,                 \
   NULL,              \
   0,                 \
   NULL,              \
   NULL,              \
   NULL,              \
   NULL,              \
   NULL,              \
   NULL}

/* A callback that fails returns a status; its message is gex_last_error(), set by gex_fail() or by
 * the function that failed. The compile then fails with the name of the pass and that message.
 * Patterns that could never match are rejected here. */
GEX_API gex_status gex_pass_register(const gex_pass* pass);
GEX_API gex_status gex_pass_unregister(const char* name);
/* Sets this thread's message and returns `status`. */
GEX_API gex_status gex_fail(gex_status status, const char* message);
/* A line for each pass, of gex and of the user: name, stage, level, summary. */
GEX_API gex_status gex_list_passes(char** text);

/* Shared libraries whose static objects register passes, "a.so:b.so". Those in GEX_PLUGINS are
 * loaded by the first compile. */
GEX_API gex_status gex_load_plugins(const char* list);
/* For such objects: reports an error to the caller that loads the library. */
GEX_API void gex_plugin_failed(const char* message);

#ifdef __cplusplus
}
#endif

#endif /* GEX_GEX_H */
