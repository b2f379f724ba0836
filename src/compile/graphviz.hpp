#pragma once
// The stages of a compile as Graphviz text (dot), for viewers and documents.

#include <string>
#include <string_view>

#include "compile/compile.hpp"

namespace gex {

// The nodes of a graph's text, with subgraphs as clusters.
std::string graphviz_of_graph(std::string_view graph_text);
// What fusion made: one box for each launch or step, with the ops in it.
std::string graphviz_of_kernels(const CompileReport& report);
// The steps of a program; an edge leads from a step to those that read what it wrote.
std::string graphviz_of_program(const program::Program& program);

// By level: graph, kernels or program. UserError for any other.
std::string graphviz_of(const CompileReport& report, const program::Program& program,
                        std::string_view level);

}  // namespace gex
