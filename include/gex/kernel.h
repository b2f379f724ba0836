/* User kernels for ops that gex lacks: CPU functions by name. A graph calls one with
 * gex_graph_call_kernel, usually in the `expand` of an op (gex_register_op), which is then its
 * shape rule. Ops whose `expand` only uses other ops need no kernel and are fused. A model file
 * stores the name of the kernel: register it before loading the file. Both libraries have these
 * functions, except gex_graph_call_kernel, which only libgex has. */
#ifndef GEX_KERNEL_H
#define GEX_KERNEL_H

#include "gex/gex.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gex_kernel {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name; /* "my.scaled": no spaces */
  void* user;
  /* Reads dense inputs and writes dense outputs, whose shapes and memory are set. `parameters` is
   * the text given in the graph, "" if none. Any status but GEX_OK makes the run fail with the
   * message of gex_fail. May be called from any thread; must not throw. */
  gex_status (*run)(void* user, const gex_tensor* inputs, size_t input_count,
                    const gex_tensor* outputs, size_t output_count, const char* parameters);
} gex_kernel;
#define GEX_KERNEL_INIT {sizeof(gex_kernel), 0, NULL, NULL, NULL}

/* A registration lasts as long as the process. */
GEX_API gex_status gex_register_kernel(const gex_kernel* kernel);
/* Opens shared libraries, "a.so:b.so", whose static objects register kernels (and, in libgex, ops
 * and passes). A library that could not register everything is an error. */
GEX_API gex_status gex_load_kernels(const char* list);

typedef struct gex_result {
  gex_dtype dtype;
  const gex_size* shape;
  size_t rank;
} gex_result;

/* Adds a node that calls a kernel; the results have these types. `parameters` may be NULL. */
GEX_API gex_status gex_graph_call_kernel(gex_graph* graph, const char* kernel,
                                         const char* parameters, const gex_value* inputs,
                                         size_t input_count, const gex_result* results,
                                         size_t result_count, gex_value* outputs);

#ifdef __cplusplus
}
#endif

#endif /* GEX_KERNEL_H */
