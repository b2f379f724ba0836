#include "base/digest.hpp"
#include "base/error.hpp"
#include "ir/graph.hpp"
#include "ir/text/print_short.hpp"
#include "ir/text/text.hpp"
#include "ir/text/value_names.hpp"

namespace gex {
namespace {

enum class Constants { whole, abbreviated, large_abbreviated, large_digested };

class Printer {
 public:
  explicit Printer(std::string& out, Constants constants = Constants::whole)
      : out_(out), constants_(constants) {}

  void print_symbols(const std::vector<Dim>& symbols) {
    if (symbols.empty()) return;
    out_ += "symbols ";
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (i) out_ += ", ";
      out_ += symbols[i].name();
      DimRange range = symbols[i].range();
      if (range == DimRange{0, DimRange::kInf}) continue;
      out_ += " in [";
      append_bound(range.lo);
      out_ += ", ";
      append_bound(range.hi);
      out_ += ']';
    }
    out_ += '\n';
  }

  void print_graph(const Graph& graph, int indent) {
    ValueNames names(graph);
    out_ += "graph ";
    if (is_identifier(graph.name()))
      out_ += graph.name();
    else if (!graph.name().empty())
      append_quoted(out_, graph.name());
    out_ += '(';
    for (const auto& input : graph.inputs()) {
      if (input->index() > 0) out_ += ", ";
      append_name(names, input.get());
      out_ += ": ";
      out_ += input->type().text();
    }
    out_ += ") -> (";
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      if (i) out_ += ", ";
      out_ += graph.outputs()[i]->type().text();
    }
    out_ += ')';
    print_ties(graph.ties());
    print_labels(graph.labels());
    out_ += " {\n";
    for (const Node& node : graph.nodes()) {
      out_.append(static_cast<std::size_t>(indent) + 2, ' ');
      print_node(node, names, indent + 2);
      if (!node.location().empty()) {
        out_ += "  @ ";
        append_quoted(out_, node.location());
      }
      out_ += '\n';
    }
    out_.append(static_cast<std::size_t>(indent) + 2, ' ');
    out_ += "return";
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      out_ += i ? ", " : " ";
      append_name(names, graph.outputs()[i]);
    }
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent), ' ');
    out_ += '}';
  }

  // A negative indent omits the bodies of subgraphs.
  void print_node(const Node& node, const ValueNames& names, int indent) {
    for (std::size_t i = 0; i < node.num_outputs(); ++i) {
      if (i) out_ += ", ";
      append_name(names, node.output(i));
    }
    if (node.num_outputs() > 0) out_ += " = ";
    out_ += node.op().name;
    out_ += '(';
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      if (i) out_ += ", ";
      append_name(names, node.input(i));
    }
    out_ += ')';
    print_attrs(node);
    print_labels(node.labels());
    if (!node.subgraphs().empty()) print_regions(node, indent);
    for (std::size_t i = 0; i < node.num_outputs(); ++i) {
      out_ += i ? ", " : " : ";
      out_ += node.output(i)->type().text();
    }
  }

 private:
  void append_name(const ValueNames& names, const Value* value) {
    if (value == nullptr) {
      out_ += "none";
      return;
    }
    out_ += '%';
    out_ += names.of(*value);
  }

  void append_bound(std::int64_t bound) {
    if (bound <= -DimRange::kInf)
      out_ += "-inf";
    else if (bound >= DimRange::kInf)
      out_ += "inf";
    else
      append_int(out_, bound);
  }

  void print_ties(const std::vector<Tie>& ties) {
    if (ties.empty()) return;
    out_ += " ties(";
    for (std::size_t i = 0; i < ties.size(); ++i) {
      if (i) out_ += ", ";
      append_int(out_, ties[i].output);
      out_ += " -> ";
      append_int(out_, ties[i].input);
    }
    out_ += ')';
  }

  void print_attrs(const Node& node) {
    bool any = false;
    for (std::size_t i = 0; i < node.attrs().size(); ++i) {
      // A wrong list is reported by the verifier, whose message must still be printable.
      const AttrField* field = i < node.op().attrs.size() ? &node.op().attrs[i] : nullptr;
      if (field && attr_equal(node.attrs()[i], field->default_value)) continue;
      out_ += any ? ", " : " {";
      any = true;
      out_ += field ? field->name : "?";
      out_ += " = ";
      const auto* tensor = std::get_if<TensorPtr>(&node.attrs()[i]);
      if (tensor != nullptr && *tensor != nullptr)
        print_constant(**tensor, node.attrs()[i]);
      else
        append_attr(out_, node.attrs()[i]);
    }
    if (any) out_ += '}';
  }

  void print_constant(const HostTensor& tensor, const AttrValue& attr) {
    const bool large = tensor.bytes() > kLargeConstantBytes;
    if (constants_ == Constants::abbreviated ||
        (constants_ == Constants::large_abbreviated && large))
      return append_abbreviated(out_, tensor);
    if (constants_ != Constants::large_digested || !large) return append_attr(out_, attr);
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
    out_ += str(tensor.dtype(), text_of(Shape(tensor.shape().begin(), tensor.shape().end())),
                " sha256(\"", digest_of(bytes).hex(), "\")");
  }

  void print_labels(const Labels& labels) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      out_ += i ? ", " : " labels(";
      out_ += labels[i].first;
      out_ += " = ";
      append_attr(out_, labels[i].second);
    }
    if (!labels.empty()) out_ += ')';
  }

  void print_regions(const Node& node, int indent) {
    out_ += " regions(";
    if (indent < 0) {
      out_ += "...)";
      return;
    }
    for (std::size_t i = 0; i < node.subgraphs().size(); ++i) {
      out_ += i ? ",\n" : "\n";
      out_.append(static_cast<std::size_t>(indent) + 2, ' ');
      print_graph(*node.subgraphs()[i], indent + 2);
    }
    out_ += ')';
  }

  std::string& out_;
  const Constants constants_;
};

std::string print_whole(const Graph& graph, Constants constants) {
  std::string out;
  Printer printer(out, constants);
  printer.print_symbols(all_symbols_of(graph));
  printer.print_graph(graph, 0);
  out += '\n';
  return out;
}

}  // namespace

std::string print(const Graph& graph) { return print_whole(graph, Constants::whole); }
std::string print_abbreviated(const Graph& graph) {
  return print_whole(graph, Constants::abbreviated);
}
std::string print_for_report(const Graph& graph) {
  return print_whole(graph, Constants::large_abbreviated);
}
std::string print_for_key(const Graph& graph) {
  return print_whole(graph, Constants::large_digested);
}

std::string print_node(const Node& node) {
  std::string out;
  Printer(out).print_node(node, ValueNames(node.graph()), -1);
  return out;
}

}  // namespace gex
