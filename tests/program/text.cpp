#include <gtest/gtest.h>

#include "base/error.hpp"
#include "program/program.hpp"

namespace gex::program {
namespace {

const char* const kEverything = R"(program "every \"thing\""
target "cuda:1"
streams 2
events 1
symbol s0 in [1, 4096]
symbol t0 in [0, inf]
symbol u0 in [0, 99]
input 0 "x" f32 [s0, 8] -> %0
input 1 "w" f32 [8, 4] strides [1, t0] -> %1 released
input 2 "n" integer [s0*2 + 1]
output 0 "y" fresh f32 [s0, 4] strides [1, s0] -> %2
output 1 "v" view_of_input 0 f32 [8, s0] strides [1, 8] offset [4]
output 2 "o" view_of_output 0 f32 [4] offset [s0]
output 3 "e" external i64 [u0, 2] -> %5
output 4 "i" integer [(s0 + 7)//8]
output 5 "-" none
buffer %0 "x" input 0 f32 [s0, 8] bytes [s0*32]
buffer %1 "w" input 1 f32 [8, 4] strides [1, t0] bytes [t0*16]
buffer %2 "y" output 0 f32 [s0, 4] strides [1, s0] bytes [s0*16]
buffer %3 "t" temp f32 [s0, 8] bytes [s0*32]
buffer %4 "t2" temp f32 [min(s0, 4), 8] bytes [min(s0, 4)*32] alias %3 at [64]
buffer %5 "nz" external i64 [u0, 2] bytes [u0*16]
buffer %6 "c" constant i16 [2] bytes [4] data i16 [2] 0x0100ff7f
buffer %7 "b" temp bool [] bytes [1]
buffer %8 "f" constant f32 [2] bytes [8] frozen 0
kernel 0
  | kernel relu(x) {
  | 
  |   body "with quotes" [and brackets]
  | }
kernel 1
code 0 "relu" kernel 0
code 1 "product" problem "matmul f32 f32 f32 0 0 1 0" algorithm "tiled" kernel 1 extra 2 prologue 0 operand 0 buffers 2 1 dims 3
code 2 "empty" kernel 1
guard [s0 % 8] == [0] "s0 must be a multiple of 8"
count "operators" 12
main 0 1
segment 0 "first"
  launch "relu" code 0 read %0 read %6 write %3 dims [s0, 8] grid [s0] scratch [128] work [s0*8] ordered matrix block 128 stream 1 threads 2 at "model.py:12"
  record 0 stream 1
  wait 0
  copy %3 + [8] from %0 + [s0] bytes [16]
  fill %7 bytes [1] pattern 1 width 1
  if %7 then 2 else 3
  while 4 %7 do 5
  call "nonzero" callee 3 (%3 f32 [s0, 8] strides [8, 1] offset [2]) (%7 bool []) integers [s0, 3] output %5 writes 0
segment 1 "second"
  launch "empty" code 2 read %5 write %2 grid [u0]
segment 2 "then"
segment 3 "else"
  fill %4 bytes [4] pattern 1065353216 width 4
segment 4 "condition"
  fill %7 bytes [1] pattern 0 width 1
segment 5 "body"
)";

TEST(ProgramText, every_construct_prints_as_it_was_parsed) {
  const Program program = parse_program(kEverything);
  EXPECT_EQ(print(program), kEverything);
  verify(program);
}

TEST(ProgramText, source_keeps_empty_and_trailing_lines) {
  Program program = parse_program(kEverything);
  program.kernels = {"\na\n\n"};
  EXPECT_EQ(parse_program(print(program)).kernels[0], "\na\n\n");
}

TEST(ProgramText, constants_can_be_left_out_of_the_text) {
  const Program program = parse_program(kEverything);
  const std::string text = print(program, {.constant_data = false});
  EXPECT_EQ(text.find("0x0100ff7f"), std::string::npos);
  EXPECT_EQ(parse_program(text).buffers[6].data->get_int(1), 0);
}

void expect_parse_error(const std::string& text, const std::string& part) {
  try {
    parse_program(text);
    FAIL() << "no error for: " << text;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::parse_error);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ProgramText, errors_name_the_line_and_the_offending_word) {
  expect_parse_error("program \"p\"\nsegment 0 \"m\"\n  jump 3", "line 3: unknown step 'jump'");
  expect_parse_error("program \"p\"\nbuffer %1 \"x\" temp f32 [] bytes [4]", "expected %0");
  expect_parse_error("program \"p\"\nbuffer %0 \"x\" temp f33 [] bytes [4]", "f33");
  expect_parse_error("program \"p\"\nbuffer %0 \"x\" temp f32 [s9] bytes [4]", "s9");
  expect_parse_error("program \"p\"\nbuffer %0 \"x\" temp f32 [ bytes", "without");
  expect_parse_error(
      "program \"p\"\nsymbol s0 in [1, 2]\nbuffer %0 \"x\" constant f32 [s0] bytes [4] data f32 "
      "[s0] 0x00",
      "data has the size s0, which is not a number");
  expect_parse_error("streams 1", "program \"name\"");
  expect_parse_error("program \"p\"\nsymbol s0 in [1, 2]\nsymbol s0 in [1, 2]", "twice");
}

void expect_invalid(const std::string& from, const std::string& to, const std::string& part) {
  std::string text = kEverything;
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const Program program = parse_program(text);
  try {
    verify(program);
    FAIL() << "no error for: " << to;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_graph);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ProgramVerify, rejects_what_could_not_run) {
  expect_invalid("code 0 read", "code 9 read", "code 9");
  expect_invalid("grid [u0]", "grid [u0] at \"x\"\n  while 0 %7 do 5", "two places");
  expect_invalid("read %0 read %6", "read %4 read %6", "before it is written");
  expect_invalid("write %3 dims", "write %6 dims", "writes the constant");
  expect_invalid("bytes [8] frozen 0", "bytes [8]", "frozen memory");
  expect_invalid("bytes [8] frozen 0", "bytes [s0*8] frozen 0", "not constant");
  expect_invalid("grid [s0]", "grid [u0]", "which is bound later");
  expect_invalid("main 0 1", "main 0", "never run");
  expect_invalid("if %7 then", "if %3 then", "must be bool");
  expect_invalid("width 1\n  if", "width 3\n  if", "3 bytes");
  expect_invalid("stream 1 threads", "stream 2 threads", "stream 2");
  expect_invalid("record 0", "record 1", "event 1");
  expect_invalid("output %5 writes", "output %3 writes", "external");
  expect_invalid("view_of_input 0", "view_of_input 7", "views input 7");
  expect_invalid("-> %5", "-> %3", "no call returns");
  expect_invalid("alias %3 at [64]", "alias %3 at [s0*32]", "past the end");
  expect_invalid("alias %3 at [64]", "alias %4", "alias of itself");
  expect_invalid("then 2 else 3", "then 2 else 33", "segment 33");
}

TEST(ProgramVerify, rejects_a_symbol_that_nothing_defines) {
  Program program = parse_program(kEverything);
  program.symbols.push_back(Dim::symbol("lost", {0, 4}));
  try {
    verify(program);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("lost"), std::string::npos);
  }
}

TEST(Program, aliases_resolve_to_their_root_with_summed_offsets) {
  Program program = parse_program(kEverything);
  BufferDesc view;
  view.name = "view";
  view.bytes = 4;
  view.alias_of = 4;
  view.alias_offset = 8;
  program.buffers.push_back(view);
  program.buffers[4].alias_offset = Dim::symbol("s0", {1, 4096});
  const auto last = static_cast<BufferId>(program.buffers.size()) - 1;
  EXPECT_EQ(root_of(program, last), 3);
  EXPECT_EQ(offset_from_root(program, last), Dim::symbol("s0", {1, 4096}) + Dim(8));
}

TEST(Program, reads_and_writes_of_a_call_include_mutated_inputs) {
  const Program program = parse_program(kEverything);
  const Step& call = program.segments[0].steps.back();
  EXPECT_EQ(reads_of(call), (std::vector<BufferId>{3, 7}));
  EXPECT_EQ(writes_of(call), (std::vector<BufferId>{5, 3}));
}

}  // namespace
}  // namespace gex::program
