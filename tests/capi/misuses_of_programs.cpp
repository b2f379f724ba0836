#include "misuse.hpp"

namespace gex::test {

std::vector<Misuse> misuses_of_programs() {
  return {
      {"gex_match_counts", "no match",
       [](Valid& v) { return gex_match_counts(nullptr, &v.count, nullptr, nullptr); }, "NULL"},
      {"gex_match_input", "no match",
       [](Valid& v) { return gex_match_input(nullptr, 0, &v.value); }, "NULL"},
      {"gex_match_output", "no match",
       [](Valid& v) { return gex_match_output(nullptr, 0, &v.value); }, "NULL"},
      {"gex_match_captured", "no match",
       [](Valid& v) { return gex_match_captured(nullptr, 0, &v.value); }, "NULL"},
      {"gex_pass_register", "no pass", [](Valid&) { return gex_pass_register(nullptr); }, "NULL"},
      {"gex_pass_register", "no name",
       [](Valid&) {
         const gex_pass pass = GEX_PASS_INIT;
         return gex_pass_register(&pass);
       },
       "name"},
      {"gex_pass_register", "no patterns",
       [](Valid&) {
         gex_pass pass = GEX_PASS_INIT;
         pass.name = "bad_input.empty";
         return gex_pass_register(&pass);
       },
       "bad_input.empty"},
      {"gex_pass_register", "a stage that is none",
       [](Valid&) {
         gex_pass pass = GEX_PASS_INIT;
         pass.kind = GEX_PASS_GRAPH;
         pass.name = "bad_input.stage";
         pass.stage = "sometime";
         pass.run = [](void*, gex_graph*, int32_t*) -> gex_status { return GEX_OK; };
         return gex_pass_register(&pass);
       },
       "sometime"},
      {"gex_pass_unregister", "that is not there",
       [](Valid&) { return gex_pass_unregister("bad_input.absent"); }, "bad_input.absent"},
      {"gex_fail", "for a reason", [](Valid&) { return gex_fail(GEX_UNSUPPORTED, "a reason"); },
       "a reason"},
      {"gex_list_passes", "no place", [](Valid&) { return gex_list_passes(nullptr); }, "NULL"},
      {"gex_load_plugins", "that are not there",
       [](Valid&) { return gex_load_plugins("absent_plugin.so"); }, "absent_plugin.so"},
      {"gex_list_options", "no place", [](Valid&) { return gex_list_options(nullptr); }, "NULL"},
      {"gex_list_ops", "no place", [](Valid&) { return gex_list_ops(nullptr); }, "NULL"},
      {"gex_compile", "no graph",
       [](Valid& v) { return gex_compile(nullptr, nullptr, &v.compiled_program); }, "NULL"},
      {"gex_compile", "a level that is none",
       [](Valid& v) {
         gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
         options.level = -1;
         return gex_compile(v.g(), &options, &v.compiled_program);
       },
       "-1"},
      {"gex_compile", "no shapes kept",
       [](Valid& v) {
         gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
         options.capture_limit = -5;
         return gex_compile(v.g(), &options, &v.compiled_program);
       },
       "-5"},
      {"gex_compile", "more streams than there may be",
       [](Valid& v) {
         gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
         options.streams = 65;
         return gex_compile(v.g(), &options, &v.compiled_program);
       },
       "65"},
      {"gex_program_save", "a folder that is not there",
       [](Valid& v) { return gex_program_save(v.p(), "absent_folder/p.bin"); },
       "absent_folder/p.bin"},
      {"gex_program_save", "no path", [](Valid& v) { return gex_program_save(v.p(), nullptr); },
       "NULL"},
      {"gex_program_load", "no such file",
       [](Valid& v) { return gex_program_load("absent.bin", nullptr, &v.compiled_program); },
       "absent.bin"},
      {"gex_program_load", "no path",
       [](Valid& v) { return gex_program_load(nullptr, nullptr, &v.compiled_program); }, "NULL"},
      {"gex_cancel_create", "no place", [](Valid&) { return gex_cancel_create(nullptr); }, "NULL"},
      {"gex_cancel_request", "not a handle", [](Valid&) { return gex_cancel_request(nullptr); },
       "NULL"},
      {"gex_program_run_with", "a time limit below 0",
       [](Valid& v) {
         gex_run_options options = GEX_RUN_OPTIONS_INIT;
         options.timeout_nanoseconds = -1;
         return gex_program_run_with(v.p(), &v.in, 1, &v.out, 1, &options);
       },
       "timeout_nanoseconds is -1"},
      {"gex_program_run_with", "a graph for a cancel handle",
       [](Valid& v) {
         gex_run_options options = GEX_RUN_OPTIONS_INIT;
         options.cancel = reinterpret_cast<gex_cancel*>(v.g());
         return gex_program_run_with(v.p(), &v.in, 1, &v.out, 1, &options);
       },
       "is a graph, not a cancel handle"},
      {"gex_program_synchronize", "no program",
       [](Valid&) { return gex_program_synchronize(nullptr, nullptr); }, "NULL"},
      {"gex_program_synchronize", "a program for the CPU",
       [](Valid& v) { return gex_program_synchronize(v.p(), nullptr); }, "runs on no stream"},
      {"gex_program_run_async_with", "no callback",
       [](Valid& v) {
         const gex_run_options options = GEX_RUN_OPTIONS_INIT;
         return gex_program_run_async_with(v.p(), &v.in, 1, &v.out, 1, &options, nullptr, nullptr);
       },
       "callback is NULL"},
      {"gex_compile", "a queue without room",
       [](Valid& v) {
         gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
         options.async_limit = -1;
         return gex_compile(v.g(), &options, &v.compiled_program);
       },
       "async_limit is -1"},
      {"gex_program_input_count", "no program",
       [](Valid& v) { return gex_program_input_count(nullptr, &v.count); }, "NULL"},
      {"gex_program_output_count", "no place",
       [](Valid& v) { return gex_program_output_count(v.p(), nullptr); }, "NULL"},
      {"gex_program_run", "too few inputs",
       [](Valid& v) { return gex_program_run(v.p(), nullptr, 0, &v.out, 1); }, "1"},
      {"gex_program_run", "too many outputs",
       [](Valid& v) {
         std::vector<gex_tensor> outs(3, v.out);
         return gex_program_run(v.p(), &v.in, 1, outs.data(), 3);
       },
       "3"},
      {"gex_program_run", "no memory",
       [](Valid& v) {
         v.in.data = nullptr;
         return v.run(v.in);
       },
       "NULL"},
      {"gex_program_run", "wrong dtype",
       [](Valid& v) {
         v.in.dtype = GEX_I64;
         return v.run(v.in);
       },
       "i64"},
      {"gex_program_run", "wrong rank",
       [](Valid& v) {
         v.in.rank = 1;
         return v.run(v.in);
       },
       "f32[2]"},
      {"gex_program_run", "negative size",
       [](Valid& v) {
         v.shape = {-2, 3};
         return v.run(tensor(GEX_F32, v.shape, v.memory.data()));
       },
       "negative"},
      {"gex_program_run", "more than 64 bits",
       [](Valid& v) {
         v.shape = {std::numeric_limits<std::int64_t>::max(), 3};
         return v.run(tensor(GEX_F32, v.shape, v.memory.data()));
       },
       "64 bits"},
      {"gex_program_run", "a struct that was not set up",
       [](Valid& v) {
         v.in.struct_size = 0;
         return v.run(v.in);
       },
       "GEX_TENSOR_INIT"},
      {"gex_program_print", "a level that is none",
       [](Valid& v) { return gex_program_print(v.p(), 17, &v.text); }, "17"},
      {"gex_program_run_async", "no callback",
       [](Valid& v) { return gex_program_run_async(v.p(), &v.in, 1, &v.out, 1, nullptr, nullptr); },
       "callback is NULL"},
      {"gex_register_op", "no name",
       [](Valid&) {
         const gex_op op = GEX_OP_INIT;
         return gex_register_op(&op);
       },
       "NULL"},
      {"gex_register_op", "a name that is taken",
       [](Valid&) {
         gex_op op = GEX_OP_INIT;
         op.name = "neg";
         op.expand = [](void*, gex_graph*, const gex_value*, std::size_t, gex_value*, std::size_t,
                        std::size_t*) -> gex_status { return GEX_OK; };
         return gex_register_op(&op);
       },
       "neg"},
      {"gex_register_op", "attributes that nobody is given",
       [](Valid&) {
         gex_attr attr = {"slope", GEX_ATTR_FLOAT, 0, {}};
         gex_op op = GEX_OP_INIT;
         op.name = "bad_input.attributes";
         op.expand = [](void*, gex_graph*, const gex_value*, std::size_t, gex_value*, std::size_t,
                        std::size_t*) -> gex_status { return GEX_OK; };
         op.attrs = &attr;
         op.attr_count = 1;
         return gex_register_op(&op);
       },
       "expand_with"},
      {"gex_register_loop_op", "no name",
       [](Valid&) { return gex_register_loop_op(nullptr, nullptr, "kernel"); }, "NULL"},
      {"gex_register_loop_op", "no text",
       [](Valid&) { return gex_register_loop_op("bad_input.loop", nullptr, nullptr); }, "NULL"},
      {"gex_register_loop_op", "a text that is no kernel",
       [](Valid&) { return gex_register_loop_op("bad_input.loop", nullptr, "nothing"); }, "kernel"},
      {"gex_program_report", "no place",
       [](Valid& v) { return gex_program_report(v.p(), nullptr); }, "NULL"},
      {"gex_program_counters", "a struct that was not set up",
       [](Valid& v) {
         gex_counters counters = {};
         return gex_program_counters(v.p(), &counters);
       },
       "struct_size"},
  };
}

}  // namespace gex::test
