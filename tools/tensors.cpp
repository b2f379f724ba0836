#include "tensors.hpp"

#include <algorithm>
#include <optional>
#include <random>

#include "base/error.hpp"
#include "base/suggest.hpp"
#include "json.hpp"
#include "npy.hpp"

namespace gex::tool {
namespace {

std::string name_of(const Graph& graph, std::size_t k) {
  const std::string& name = graph.inputs()[k]->name();
  return name.empty() ? std::to_string(k) : name;
}

std::size_t input_called(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < graph.inputs().size(); ++k) {
    names.push_back(name_of(graph, k));
    if (names.back() == name || std::to_string(k) == name) return k;
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  fail(ErrorCode::not_found, "the graph has no input '", name, "'", suggestion(name, views),
       " (it has: ", known.empty() ? "none" : known, ")");
}

Dim symbol_called(const Graph& graph, const std::string& name) {
  std::vector<std::string_view> names;
  const std::vector<Dim> symbols = symbols_of(graph);
  for (const Dim& symbol : symbols) {
    if (symbol.name() == name) return symbol;
    names.push_back(symbol.name());
  }
  std::string known;
  for (const std::string_view n : names) known += str(known.empty() ? "" : ", ", n);
  fail(ErrorCode::not_found, "no input has a size called '", name, "'", suggestion(name, names),
       known.empty() ? " (all sizes are fixed)" : str(" (sizes that vary: ", known, ")"));
}

// Of a file's elements: memory of another type would be read as if it had this one.
void check_dtype(const Graph& graph, std::size_t k, DType found, const std::string& path) {
  const DType expected = graph.inputs()[k]->type().dtype;
  if (found != expected)
    fail(ErrorCode::type_mismatch, "input ", name_of(graph, k), " takes ", expected, ", but ", path,
         " holds ", found, ": convert it (in NumPy, array.astype)");
}

// Uniform in [-1, 1) for floats, 0 .. 9 for integers; the same on every machine.
void fill_random(HostTensor& tensor, std::mt19937_64& random) {
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    if (is_float(tensor.dtype())) {
      tensor.set(k, static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    } else {
      tensor.set_int(
          k, static_cast<std::int64_t>(random() % (tensor.dtype() == DType::boolean ? 2 : 10)));
    }
  }
}

HostTensor generate(DType dtype, std::vector<std::int64_t> shape, const std::string& how,
                    std::mt19937_64& random) {
  HostTensor tensor(dtype, std::move(shape));
  if (how == "random") fill_random(tensor, random);
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    if (how == "ones") tensor.set_int(k, 1);
    if (how == "iota") tensor.set_int(k, k);
  }
  return tensor;
}

bool is_generated(const std::string& source) {
  return source == "random" || source == "ones" || source == "zeros" || source == "iota";
}

}  // namespace

interp::SymbolValues sizes_given(const Graph& graph, const Arguments& arguments) {
  interp::SymbolValues sizes;
  for (const auto& [name, text] : arguments.pairs("--dim")) {
    const Dim symbol = symbol_called(graph, name);
    const std::int64_t size = to_integer(text, "--dim " + name);
    const DimRange range = symbol.range();
    if (size < range.lo || size > range.hi)
      fail(ErrorCode::invalid_argument, "--dim ", name, "=", size, " is outside its range [",
           range.lo, ", ", range.hi, "]");
    sizes[symbol] = size;
  }
  return sizes;
}

std::vector<HostTensor> make_inputs(const Graph& graph, const Arguments& arguments) {
  const std::size_t count = graph.inputs().size();
  std::vector<std::string> source(count, "random");
  for (const auto& [name, from] : arguments.pairs("--input"))
    source[input_called(graph, name)] = from;
  interp::SymbolValues sizes = sizes_given(graph, arguments);
  std::vector<std::optional<HostTensor>> from_file(count);
  for (std::size_t k = 0; k < count; ++k) {
    if (is_generated(source[k])) continue;
    if (!source[k].ends_with(".npy"))
      fail(ErrorCode::invalid_argument, "--input ", name_of(graph, k), "=", source[k],
           ": expected a .npy file, random, ones, zeros or iota");
    from_file[k] = read_npy(source[k]);
    check_dtype(graph, k, from_file[k]->dtype(), source[k]);
    const Shape& shape = graph.inputs()[k]->type().shape;
    for (std::size_t d = 0; d < std::min(shape.size(), from_file[k]->shape().size()); ++d)
      if (shape[d].is_symbol()) sizes.try_emplace(shape[d], from_file[k]->shape()[d]);
  }
  std::mt19937_64 random(static_cast<std::uint64_t>(arguments.integer("--seed").value_or(0)));
  std::vector<HostTensor> inputs;
  for (std::size_t k = 0; k < count; ++k) {
    if (from_file[k]) {
      inputs.push_back(std::move(*from_file[k]));
      continue;
    }
    const Type& type = graph.inputs()[k]->type();
    std::vector<std::int64_t> shape;
    for (Dim size : type.shape) {
      std::vector<Dim> symbols;
      size.collect_symbols(symbols);
      for (Dim symbol : symbols)
        if (!sizes.contains(symbol))
          fail(ErrorCode::invalid_argument, "the size ", symbol, " of input ", name_of(graph, k),
               ", ", type, ", is not known: add --dim ", symbol, "=N or an .npy file");
      shape.push_back(interp::evaluate(size, sizes));
    }
    inputs.push_back(generate(type.dtype, std::move(shape), source[k], random));
  }
  return inputs;
}

namespace {

constexpr std::int64_t kShownWhole = 1000;  // tensors up to this size are printed in full
constexpr std::int64_t kEdge = 3;           // else this many at both ends of an axis

class Printer {
 public:
  explicit Printer(const HostTensor& tensor)
      : tensor_(tensor), whole_(tensor.numel() <= kShownWhole) {}

  std::string text() {
    axis(0, 0);
    return std::move(out_);
  }

 private:
  std::string element(std::int64_t at) const {
    if (tensor_.dtype() == DType::boolean) return tensor_.get_int(at) != 0 ? "true" : "false";
    return is_float(tensor_.dtype()) ? str(tensor_.get(at)) : str(tensor_.get_int(at));
  }

  void axis(std::size_t depth, std::int64_t base) {
    if (depth == tensor_.shape().size()) {
      out_ += element(base);
      return;
    }
    const std::int64_t size = tensor_.shape()[depth];
    std::int64_t step = 1;
    for (std::size_t d = depth + 1; d < tensor_.shape().size(); ++d) step *= tensor_.shape()[d];
    const bool last = depth + 1 == tensor_.shape().size();
    const std::string between = last ? ", " : ",\n" + std::string(depth + 1, ' ');
    out_ += '[';
    for (std::int64_t k = 0; k < size; ++k) {
      if (k > 0) out_ += between;
      if (!whole_ && size > 2 * kEdge && k == kEdge) {
        out_ += "...";
        k = size - kEdge - 1;
        continue;
      }
      axis(depth + 1, base + k * step);
    }
    out_ += ']';
  }

  const HostTensor& tensor_;
  bool whole_;
  std::string out_;
};

}  // namespace

namespace {

constexpr std::int64_t kMostJsonElements = 65'536;

std::string element_json(const HostTensor& tensor, std::int64_t at) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::boolean) return tensor.get_int(at) != 0 ? "true" : "false";
  if (!is_float(dtype)) return str(tensor.get_int(at));
  const double value = tensor.get(at);
  return dtype == DType::f64 ? json_number(value) : json_number(static_cast<float>(value));
}

// The elements of axes `depth` and later, from element `base` on.
std::string values_json(const HostTensor& tensor, std::size_t depth, std::int64_t base) {
  const std::vector<std::int64_t>& shape = tensor.shape();
  if (depth == shape.size()) return element_json(tensor, base);
  std::int64_t step = 1;
  for (std::size_t d = depth + 1; d < shape.size(); ++d) step *= shape[d];
  std::vector<std::string> items;
  for (std::int64_t k = 0; k < shape[depth]; ++k)
    items.push_back(values_json(tensor, depth + 1, base + k * step));
  return json_list(items);
}

}  // namespace

std::string json_of(const std::string& name, const HostTensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.shape()) sizes.push_back(str(size));
  const bool is_small = tensor.numel() <= kMostJsonElements;
  return json_object({{"name", json_text(name)},
                      {"dtype", json_text(str(tensor.dtype()))},
                      {"shape", json_list(sizes)},
                      {"values", is_small ? values_json(tensor, 0, 0) : "null"}});
}

std::string text_of(const HostTensor& tensor) {
  const Shape shape(tensor.shape().begin(), tensor.shape().end());
  return str(tensor.dtype(), gex::text_of(shape), "\n", Printer(tensor).text(), "\n");
}

}  // namespace gex::tool
