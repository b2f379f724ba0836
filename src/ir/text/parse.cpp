#include <unordered_map>

#include "base/suggest.hpp"
#include "base/text/lexer.hpp"
#include "ir/check_node.hpp"
#include "ir/text/parse_literals.hpp"

namespace gex {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text, kGraphText) {}

  std::unique_ptr<Graph> parse_all() {
    while (lexer_.accept("symbols")) parse_symbols();
    std::unique_ptr<Graph> graph = parse_graph("'symbols' or 'graph'", 0);
    if (lexer_.peek().kind != Token::Kind::end) lexer_.expected("the end of the text");
    return graph;
  }

 private:
  using Names = std::unordered_map<std::string_view, Value*>;

  void parse_symbols() {
    do {
      std::size_t offset = lexer_.peek().offset;
      std::string name(lexer_.expect_identifier("the name of a symbol"));
      DimRange range{0, DimRange::kInf};
      if (lexer_.accept("in")) {
        lexer_.expect("[", "to open a range");
        range.lo = parse_bound();
        lexer_.expect(",", "between the bounds of a range");
        range.hi = parse_bound();
        lexer_.expect("]", "to close a range");
        if (range.lo > range.hi) lexer_.fail_at(offset, str("the range of ", name, " is empty"));
      }
      if (symbols_.contains(name))
        lexer_.fail_at(offset, str("the symbol ", name, " is declared twice"));
      try {
        symbols_.emplace(name, Dim::symbol(name, range));
      } catch (const UserError& error) {
        lexer_.fail_at(offset, error.what());
      }
    } while (lexer_.accept(","));
  }

  std::int64_t parse_bound() {
    std::size_t offset = lexer_.peek().offset;
    if (lexer_.accept("inf")) return DimRange::kInf;
    bool negative = lexer_.accept("-");
    if (negative && lexer_.accept("inf")) return -DimRange::kInf;
    std::int64_t bound = lexer_.expect_int("an integer, inf or -inf");
    if (bound < -DimRange::kInf || bound > DimRange::kInf)
      lexer_.fail_at(offset, "this bound is too large; write inf");
    return negative ? -bound : bound;
  }

  std::unique_ptr<Graph> parse_graph(std::string_view expected, int depth) {
    if (!lexer_.at("graph")) lexer_.expected(expected);
    if (depth > kDeepestSubgraph)
      lexer_.fail_at(lexer_.peek().offset,
                     str("subgraphs are nested more than ", kDeepestSubgraph, " deep"));
    lexer_.next();
    auto graph = std::make_unique<Graph>(parse_graph_name());
    Names names;
    parse_inputs(*graph, names);
    lexer_.expect("->", "and the result types after the inputs of a graph");
    std::size_t results_offset = lexer_.peek().offset;
    std::vector<Type> results;
    lexer_.expect("(", "to open the result types");
    if (!lexer_.accept(")")) {
      do results.push_back(parse_type(lexer_, symbols_));
      while (lexer_.accept(","));
      lexer_.expect(")", "or ',' in the result types");
    }
    std::size_t ties_offset = lexer_.peek().offset;
    if (lexer_.accept("ties")) parse_ties(*graph);
    graph->set_labels(parse_labels());
    lexer_.expect("{", "to open the body of a graph");
    while (!lexer_.at("return")) parse_node(*graph, names, depth);
    parse_return(*graph, names);
    lexer_.expect("}", "to close the body of a graph");

    if (results.size() != graph->outputs().size())
      lexer_.fail_at(results_offset, str("the signature has ", results.size(),
                                         " results, the graph returns ", graph->outputs().size()));
    for (std::size_t i = 0; i < results.size(); ++i)
      if (const Type& real = graph->outputs()[i]->type(); results[i] != real)
        lexer_.fail_at(results_offset, str("result ", i, " is written as ", results[i],
                                           ", the graph returns ", real));
    for (const Tie& tie : graph->ties())
      if (std::string problem = tie_problem(*graph, tie); !problem.empty())
        lexer_.fail_at(ties_offset, problem);
    return graph;
  }

  std::string parse_graph_name() {
    if (lexer_.peek().kind == Token::Kind::string) return lexer_.expect_string("a name");
    if (lexer_.at("(")) return {};
    return std::string(lexer_.expect_identifier("the name of the graph or '('"));
  }

  void define(Names& names, const Token& token, Value* value) {
    if (!names.emplace(token.text, value).second)
      lexer_.fail_at(token.offset, str("%", token.text, " is defined twice"));
    bool number = token.text[0] >= '0' && token.text[0] <= '9';
    if (!number) value->set_name(std::string(token.text));
  }

  void parse_inputs(Graph& graph, Names& names) {
    lexer_.expect("(", "to open the inputs of a graph");
    if (lexer_.accept(")")) return;
    do {
      Token name = expect_value("an input such as '%x: f32[4]'");
      lexer_.expect(":", "and a type after the name of an input");
      define(names, name, graph.add_input(parse_type(lexer_, symbols_)));
    } while (lexer_.accept(","));
    lexer_.expect(")", "or ',' in the inputs of a graph");
  }

  void parse_ties(Graph& graph) {
    lexer_.expect("(", "after ties");
    do {
      int output = parse_index();
      lexer_.expect("->", "between the output and the input of a tie");
      graph.ties().push_back({output, parse_index()});
    } while (lexer_.accept(","));
    lexer_.expect(")", "or ',' in the ties");
  }

  int parse_index() {
    std::size_t offset = lexer_.peek().offset;
    std::int64_t index = lexer_.expect_int("the number of an output or input");
    if (index < 0 || index > 1 << 30)
      lexer_.fail_at(offset, "there is no output or input with this number");
    return static_cast<int>(index);
  }

  Token expect_value(std::string_view what) {
    if (lexer_.peek().kind != Token::Kind::value) lexer_.expected(what);
    return lexer_.next();
  }

  Value* lookup(const Names& names, const Token& token) {
    auto it = names.find(token.text);
    if (it == names.end())
      lexer_.fail_at(token.offset, str("%", token.text,
                                       " is not defined before this line in this graph (a subgraph "
                                       "sees only its own inputs)"));
    return it->second;
  }

  void parse_return(Graph& graph, const Names& names) {
    lexer_.expect("return", "at the end of a graph");
    std::vector<Value*> outputs;
    if (!lexer_.at("}")) {
      do outputs.push_back(lookup(names, expect_value("a value to return or '}'")));
      while (lexer_.accept(","));
    }
    graph.set_outputs(std::move(outputs));
  }

  void parse_node(Graph& graph, Names& names, int depth) {
    std::vector<Token> results;
    if (lexer_.peek().kind == Token::Kind::value) {
      do results.push_back(expect_value("the name of a result"));
      while (lexer_.accept(","));
      lexer_.expect("=", "and an op after the results");
    }
    std::size_t offset = lexer_.peek().offset;
    const OpDef& def = parse_op_name(results.empty());
    std::vector<Value*> inputs = parse_operands(names);
    AttrList attrs = parse_attrs(def);
    Labels labels = parse_labels();
    std::vector<std::unique_ptr<Graph>> subgraphs;
    if (lexer_.accept("regions")) {
      lexer_.expect("(", "after regions");
      do subgraphs.push_back(parse_graph("'graph'", depth + 1));
      while (lexer_.accept(","));
      lexer_.expect(")", "or ',' in the regions");
    }
    Node* node = nullptr;
    try {
      node = graph.add(def, std::move(inputs), std::move(attrs), std::move(subgraphs));
    } catch (const UserError& error) {
      lexer_.fail_at(offset, error.what());
    }
    node->set_labels(std::move(labels));
    parse_types(*node, results.size(), offset);
    if (lexer_.accept("@")) node->set_location(lexer_.expect_string("a location in double quotes"));
    for (std::size_t i = 0; i < results.size(); ++i) define(names, results[i], node->output(i));
  }

  const OpDef& parse_op_name(bool may_return) {
    if (lexer_.peek().kind != Token::Kind::identifier)
      lexer_.expected(may_return ? "'%result = op(...)' or 'return'" : "the name of an op");
    const OpDef* def = nullptr;
    try {
      def = &op(lexer_.peek().text);
    } catch (const UserError& error) {
      lexer_.fail_at(lexer_.peek().offset, error.what());
    }
    lexer_.next();
    return *def;
  }

  std::vector<Value*> parse_operands(const Names& names) {
    std::vector<Value*> inputs;
    lexer_.expect("(", "and the inputs after the name of an op");
    if (lexer_.accept(")")) return inputs;
    do {
      bool absent = lexer_.accept("none");
      inputs.push_back(absent ? nullptr : lookup(names, expect_value("a value or none")));
    } while (lexer_.accept(","));
    lexer_.expect(")", "or ',' in the inputs of an op");
    return inputs;
  }

  AttrList parse_attrs(const OpDef& def) {
    AttrList attrs;
    for (const AttrField& field : def.attrs) attrs.push_back(field.default_value);
    if (!lexer_.accept("{")) return attrs;
    std::vector<bool> given(attrs.size());
    do {
      Token name = lexer_.peek();
      lexer_.expect_identifier("the name of an attribute");
      std::size_t i = find_attr(def, name);
      if (given[i]) lexer_.fail_at(name.offset, str("attribute '", name.text, "' is set twice"));
      given[i] = true;
      lexer_.expect("=", "after the name of an attribute");
      attrs[i] = parse_attr(lexer_, symbols_, def.attrs[i].default_value);
    } while (lexer_.accept(","));
    lexer_.expect("}", "or ',' in the attributes");
    return attrs;
  }

  Labels parse_labels() {
    Labels labels;
    if (!lexer_.accept("labels")) return labels;
    lexer_.expect("(", "after labels");
    do {
      Token name = lexer_.peek();
      lexer_.expect_identifier("the name of a label");
      if (find_label(labels, name.text) != nullptr)
        lexer_.fail_at(name.offset, str("label '", name.text, "' is set twice"));
      lexer_.expect("=", "after the name of a label");
      AttrValue kind = std::int64_t{0};
      if (lexer_.at("true") || lexer_.at("false")) kind = false;
      if (lexer_.peek().kind == Token::Kind::string) kind = std::string();
      set_label(labels, std::string(name.text), parse_attr(lexer_, symbols_, kind));
    } while (lexer_.accept(","));
    lexer_.expect(")", "or ',' in the labels");
    return labels;
  }

  std::size_t find_attr(const OpDef& def, const Token& name) {
    std::vector<std::string_view> known;
    for (std::size_t i = 0; i < def.attrs.size(); ++i) {
      if (def.attrs[i].name == name.text) return i;
      known.push_back(def.attrs[i].name);
    }
    lexer_.fail_at(name.offset, str(def.name, " has no attribute '", name.text, "'",
                                    suggestion(name.text, known)));
  }

  // The shape rule determines the types; the text may only add strides or write sizes in another,
  // equal form.
  void parse_types(Node& node, std::size_t results, std::size_t offset) {
    if (results != node.num_outputs())
      lexer_.fail_at(offset, str(node.op().name, " gives ", node.num_outputs(),
                                 " results, the text names ", results));
    if (results == 0) return;
    lexer_.expect(":", "and the types of the results");
    for (std::size_t i = 0; i < results; ++i) {
      if (i > 0) lexer_.expect(",", "and the type of the next result");
      std::size_t type_offset = lexer_.peek().offset;
      Type type = parse_type(lexer_, symbols_);
      if (!same_data_type(type, node.output(i)->type()))
        lexer_.fail_at(type_offset, str("result ", i, " of ", node.op().name, " has type ",
                                        node.output(i)->type(), ", but the text says ", type));
      node.output(i)->set_type(std::move(type));
    }
  }

  Lexer lexer_;
  SymbolTable symbols_;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(std::string_view text) { return Parser(text).parse_all(); }

}  // namespace gex
