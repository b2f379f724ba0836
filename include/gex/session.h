/* The C interface of model files (.gexe): load one, query its inputs and outputs, create
 * sessions and run them. Everything here except gex_program_save_model is also in libgex_run, which
 * has no compiler. A session is a gex_program: use gex_program_run, gex_program_run_with,
 * gex_program_run_async_with, gex_program_counters and gex_program_destroy of gex.h.
 */
#ifndef GEX_SESSION_H
#define GEX_SESSION_H

#include "gex/gex.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded file. Any number of threads may use it; all sessions of it share its weights and code.
 */
typedef struct gex_model gex_model;

typedef struct gex_load_options {
  uint32_t struct_size;
  /* 1: run the machine code of the file. Only for files of known origin: such code can do anything.
   * 0: the texts of its kernels are compiled (libgex with libgex_llvm) or interpreted, and only if
   * it can be proven that they stay inside their memory. */
  int32_t trust;
  int32_t check_weights; /* 1: read all weights once and compare their checksums */
  int32_t autotune;      /* 1: as in gex_compile_options; only where texts are compiled */
  const char* level;     /* of the machine code: "v2", "v3", "v4"; NULL: the best that runs here */
  const char* model;     /* by name, in a file with several; NULL: the first */
  /* If there is one, the file must be signed with this key (gex compile --key), which is then
   * trust; with check_weights its weights are compared with the signature too. NULL: signatures are
   * not looked at. */
  const void* key;
  size_t key_size;
} gex_load_options;
#define GEX_LOAD_OPTIONS_INIT {sizeof(gex_load_options), 0, 0, 0, NULL, NULL, NULL, 0}

/* The file is mapped: weights are read when they are first used. It must not be modified while it
 * is loaded; it may be replaced by renaming another file. `options` may be NULL.
 */
GEX_API gex_status gex_model_load(const char* path, const gex_load_options* options,
                                  gex_model** model);
/* From memory, which must stay unchanged until the model and its sessions are destroyed. It is
 * copied if it is not aligned to 64 bytes. */
GEX_API gex_status gex_model_load_memory(const void* data, size_t size,
                                         const gex_load_options* options, gex_model** model);
/* NULL is allowed. Existing sessions stay valid. */
GEX_API void gex_model_destroy(gex_model* model);

/* An input or output. What the pointers point to lives as long as the model. */
typedef struct gex_tensor_info {
  uint32_t struct_size;
  gex_dtype dtype; /* of its memory */
  const char* name;
  const char* type; /* the element type in the words of the model: "f32", "uint16" */
  size_t rank;
  const int64_t* shape;     /* -1 where a size may vary */
  const char* const* sizes; /* as text: "batch", "3", "2*n + 1" */
} gex_tensor_info;
#define GEX_TENSOR_INFO_INIT {sizeof(gex_tensor_info), GEX_F32, NULL, NULL, 0, NULL, NULL}

GEX_API gex_status gex_model_input_count(const gex_model* model, size_t* count);
GEX_API gex_status gex_model_output_count(const gex_model* model, size_t* count);
GEX_API gex_status gex_model_input(const gex_model* model, size_t index, gex_tensor_info* info);
GEX_API gex_status gex_model_output(const gex_model* model, size_t index, gex_tensor_info* info);
GEX_API gex_status gex_model_name(const gex_model* model, char** name);
/* What runs: "machine code (v4)", "llvm (znver4, 64-byte vectors)", "interpreter: ...". */
GEX_API gex_status gex_model_code(const gex_model* model, char** text);

typedef struct gex_session_options {
  uint32_t struct_size;
  int32_t threads;       /* that one run may use; 0: as many as there are */
  int32_t capture_limit; /* sets of sizes that are kept ready */
  int32_t async_limit;   /* asynchronous runs that may wait at once */
  int32_t static_code;   /* 0: no code for hot sizes in the background (only where texts are
                            compiled) */
  int32_t reserved;
  const gex_allocator* allocator;     /* NULL: the heap */
  const gex_thread_pool* thread_pool; /* NULL: threads of the library */
} gex_session_options;
#define GEX_SESSION_OPTIONS_INIT {sizeof(gex_session_options), 0, 64, 1024, 1, 0, NULL, NULL}

/* Sessions of one model may run at the same time; so may runs of one session. */
GEX_API gex_status gex_session_create(const gex_model* model, const gex_session_options* options,
                                      gex_program** session);

/* Messages go to `callback` instead of standard error; NULL: back to standard error. Levels are 0
 * (error), 1 (warning), 2 (info) and 3 (debug); GEX_LOG selects the lowest level. The callback may
 * be called by any thread and must not throw. */
typedef void (*gex_log_callback)(void* user, int32_t level, const char* message);
GEX_API gex_status gex_set_log_callback(gex_log_callback callback, void* user);

typedef struct gex_save_options {
  uint32_t struct_size;
  uint32_t reserved;
  const char* levels;              /* processors that get machine code: "v3,v4" */
  const char* name;                /* of the model; NULL: the program's */
  const char* const* input_names;  /* NULL: those of the graph */
  const char* const* output_names; /* NULL: those of the graph, else output_0, output_1, ... */
  const void* key;                 /* signs the file; NULL: no signature */
  size_t key_size;
} gex_save_options;
#define GEX_SAVE_OPTIONS_INIT {sizeof(gex_save_options), 0, "v3,v4", NULL, NULL, NULL, NULL, 0}

/* Only in libgex. Writes a compiled program as a model file. Programs with steps that need the
 * process they were compiled in are rejected; the message lists all such steps. */
GEX_API gex_status gex_program_save_model(const gex_program* program, const char* path,
                                          const gex_save_options* options);

#ifdef __cplusplus
}
#endif

#endif /* GEX_SESSION_H */
