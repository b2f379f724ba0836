// Strings: host functions on numbers of the string table.

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/strings.hpp"

namespace gex::onnx {
namespace {

using Tensors = std::span<const HostTensor>;
using Integers = std::span<const std::int64_t>;

Items string_concat(Row& r) {
  const Shape shape = broadcast_shapes(r.shape(0), r.shape(1), "StringConcat");
  Value *a = ops::expand(r.g, r.in(0), shape), *b = ops::expand(r.g, r.in(1), shape);
  return r.one(r.host_call("", {a, b}, {Type::tensor(DType::i64, shape)}, [](Tensors in, Integers) {
    HostTensor out(DType::i64, in[0].shape());
    for (std::int64_t k = 0; k < out.numel(); ++k)
      out.set_int(k, string_number(string_of(in[0].get_int(k)) + string_of(in[1].get_int(k))));
    return std::vector{std::move(out)};
  })[0]);
}

Items full_match(Row& r) {
  const std::string pattern = r.string_attr("pattern", "");
  std::shared_ptr<const std::regex> regex;
  try {
    regex = std::make_shared<const std::regex>(pattern);
  } catch (const std::regex_error&) {
    r.refuse("the pattern is not a supported regular expression: " + pattern);
  }
  return r.one(r.host_call(pattern, {r.in(0)}, {Type::tensor(DType::boolean, r.shape())},
                           [regex](Tensors in, Integers) {
                             HostTensor out(DType::boolean, in[0].shape());
                             for (std::int64_t k = 0; k < out.numel(); ++k)
                               out.set_int(k,
                                           std::regex_match(string_of(in[0].get_int(k)), *regex));
                             return std::vector{std::move(out)};
                           })[0],
               Elem::boolean);
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Python's str.split: without a delimiter at runs of white space. `most` < 0: no limit.
std::vector<std::string> split(const std::string& text, const std::string& delimiter,
                               std::int64_t most) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  if (delimiter.empty()) {
    while (true) {
      while (at < text.size() && is_space(text[at])) ++at;
      if (at >= text.size()) return parts;
      if (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most) {
        std::size_t end = text.size();
        while (end > at && is_space(text[end - 1])) --end;
        parts.push_back(text.substr(at, end - at));
        return parts;
      }
      const std::size_t begin = at;
      while (at < text.size() && !is_space(text[at])) ++at;
      parts.push_back(text.substr(begin, at - begin));
    }
  }
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t found = text.find(delimiter, at);
    if (found == std::string::npos) break;
    parts.push_back(text.substr(at, found - at));
    at = found + delimiter.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

Items string_split(Row& r) {
  const std::string delimiter = r.string_attr("delimiter", "");
  const std::int64_t most = r.int_attr("maxsplit", -1);
  const Dim width = r.state.fresh_symbol("parts");
  Shape shape = r.shape();
  shape.push_back(width);
  const auto results =
      r.host_call(str(most, " ", delimiter), {r.in(0)},
                  {Type::tensor(DType::i64, shape), Type::tensor(DType::i64, r.shape())},
                  [delimiter, most](Tensors in, Integers) {
                    std::vector<std::vector<std::string>> all;
                    std::size_t widest = 0;
                    for (std::int64_t k = 0; k < in[0].numel(); ++k) {
                      all.push_back(split(string_of(in[0].get_int(k)), delimiter, most));
                      widest = std::max(widest, all.back().size());
                    }
                    auto sizes = in[0].shape();
                    HostTensor counts(DType::i64, sizes);
                    sizes.push_back(static_cast<std::int64_t>(widest));
                    HostTensor out(DType::i64, sizes);
                    for (std::size_t k = 0; k < all.size(); ++k) {
                      counts.as<std::int64_t>()[k] = static_cast<std::int64_t>(all[k].size());
                      for (std::size_t p = 0; p < all[k].size(); ++p)
                        out.as<std::int64_t>()[k * widest + p] = string_number(all[k][p]);
                    }
                    return std::vector{std::move(out), std::move(counts)};
                  });
  return {Item::tensor(results[0], Elem::string), Item::tensor(results[1], Elem::i64)};
}

// Case conversion of ASCII and two-byte Latin letters, which is what exported models contain.
std::string with_case(const std::string& text, bool upper) {
  std::string out;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const auto c = static_cast<unsigned char>(text[k]);
    if (c < 0x80) {
      out += static_cast<char>(upper ? std::toupper(c) : std::tolower(c));
      continue;
    }
    if (c == 0xc3 && k + 1 < text.size()) {  // Latin-1 letters
      auto next = static_cast<unsigned char>(text[++k]);
      if (upper && next >= 0xa0 && next != 0xb7 && next != 0xbf)
        next = static_cast<unsigned char>(next - 0x20);
      if (!upper && next >= 0x80 && next <= 0x9e && next != 0x97)
        next = static_cast<unsigned char>(next + 0x20);
      out += static_cast<char>(c);
      out += static_cast<char>(next);
      continue;
    }
    out += static_cast<char>(c);
  }
  return out;
}

struct Normalizer {
  std::string action;
  bool sensitive = false;
  std::set<std::string> stops;

  std::string changed(const std::string& text) const {
    return action == "NONE" ? text : with_case(text, action == "UPPER");
  }
  bool stopped(const std::string& text) const {
    if (sensitive) return stops.contains(text);
    return stops.contains(with_case(text, false));
  }
};

Items string_normalizer(Row& r) {
  Normalizer n;
  n.action = r.string_attr("case_change_action", "NONE");
  n.sensitive = r.int_attr("is_case_sensitive", 0) != 0;
  std::string key = str(n.action, " ", n.sensitive);
  for (const std::string& stop : r.strings_attr("stopwords")) {
    n.stops.insert(n.sensitive ? stop : with_case(stop, false));
    key += " " + stop;
  }
  Shape shape = r.shape();
  shape.back() = r.state.fresh_symbol("words");
  return r.one(
      r.host_call(key, {r.in(0)}, {Type::tensor(DType::i64, shape)}, [n](Tensors in, Integers) {
        std::vector<std::int64_t> words;
        for (std::int64_t k = 0; k < in[0].numel(); ++k) {
          const std::string& text = string_of(in[0].get_int(k));
          if (!n.stopped(text)) words.push_back(string_number(n.changed(text)));
        }
        if (words.empty()) words.push_back(string_number(""));
        auto sizes = in[0].shape();
        sizes.back() = static_cast<std::int64_t>(words.size());
        return std::vector{HostTensor::of_i64(sizes, words)};
      })[0]);
}

// --- TfIdfVectorizer
// -------------------------------------------------------------------------------

struct NGrams {
  std::map<std::vector<std::int64_t>, std::int64_t> places;  // n-gram -> column
  std::int64_t shortest = 1, longest = 1, skips = 0, columns = 0;
  std::string mode;
  std::vector<double> weights;  // of columns

  void count(const std::int64_t* row, std::int64_t size, std::vector<double>& counts) const {
    std::int64_t first = shortest;
    for (std::int64_t step = 1; step <= skips + 1; ++step) {
      for (std::int64_t length = first; length <= longest; ++length)
        for (std::int64_t at = 0; at + (length - 1) * step < size; ++at) {
          std::vector<std::int64_t> gram;
          for (std::int64_t k = 0; k < length; ++k) gram.push_back(row[at + k * step]);
          if (const auto found = places.find(gram); found != places.end())
            counts[static_cast<std::size_t>(found->second)] += 1;
        }
      // Single items are the same for every distance: counted once.
      if (first == 1 && ++first > longest) break;
    }
  }
  double value(double count, std::size_t column) const {
    const double weight = weights.empty() ? 1 : weights[column];
    if (mode == "TF") return count;
    return mode == "IDF" ? (count > 0 ? weight : 0) : weight * count;
  }
};

Items tf_idf(Row& r) {
  NGrams n;
  n.shortest = r.int_attr("min_gram_length", 1);
  n.longest = r.int_attr("max_gram_length", 1);
  n.skips = r.int_attr("max_skip_count", 0);
  n.mode = r.string_attr("mode", "TF");
  const Ints starts = r.ints_attr("ngram_counts"), columns = r.ints_attr("ngram_indexes");
  Ints pool = r.ints_attr("pool_int64s");
  if (r.has_attr("pool_strings")) {
    pool.clear();
    for (const std::string& text : r.strings_attr("pool_strings"))
      pool.push_back(string_number(text));
  }
  std::size_t gram = 0;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const std::int64_t end =
        k + 1 < starts.size() ? starts[k + 1] : static_cast<std::int64_t>(pool.size());
    const auto length = static_cast<std::int64_t>(k) + 1;
    for (std::int64_t at = starts[k]; at + length <= end; at += length, ++gram) {
      if (at < 0 || end > static_cast<std::int64_t>(pool.size()) || gram >= columns.size())
        r.refuse("ngram_counts, ngram_indexes and the pool are inconsistent");
      if (length >= n.shortest && length <= n.longest)
        n.places[{pool.begin() + at, pool.begin() + at + length}] = columns[gram];
    }
  }
  for (const std::int64_t c : columns) {
    if (c < 0) r.refuse("a negative ngram index");
    n.columns = std::max(n.columns, c + 1);
  }
  const auto weights = r.floats_attr("weights");
  if (!weights.empty()) {
    n.weights.assign(static_cast<std::size_t>(n.columns), 0);
    for (std::size_t k = 0; k < weights.size() && k < columns.size(); ++k)
      n.weights[static_cast<std::size_t>(columns[k])] = weights[k];
  }
  const bool batched = r.rank() == 2;
  const Shape shape = batched ? Shape{r.shape()[0], Dim(n.columns)} : Shape{Dim(n.columns)};
  Value* x = ops::cast(r.g, r.in(0), DType::i64);
  return r.one(
      r.host_call(
          r.attributes_key() + (batched ? " batch" : ""), {x}, {Type::tensor(DType::f32, shape)},
          [n, batched](Tensors in, Integers) {
            const auto& s = in[0].shape();
            const std::int64_t rows = batched ? s[0] : 1;
            const std::int64_t size = s.empty() ? 1 : s.back();
            HostTensor out(DType::f32, batched ? Ints{rows, n.columns} : Ints{n.columns});
            for (std::int64_t row = 0; row < rows; ++row) {
              std::vector<double> counts(static_cast<std::size_t>(n.columns), 0);
              n.count(in[0].as<std::int64_t>() + row * size, size, counts);
              for (std::size_t c = 0; c < counts.size(); ++c)
                out.set(row * n.columns + static_cast<std::int64_t>(c), n.value(counts[c], c));
            }
            return std::vector{std::move(out)};
          })[0],
      Elem::f32);
}

}  // namespace

void add_string_rows() {
  add_row("StringConcat", string_concat);
  add_row("RegexFullMatch", full_match);
  add_row("StringSplit", string_split);
  add_row("StringNormalizer", string_normalizer);
  add_row("TfIdfVectorizer", tf_idf);
}

}  // namespace gex::onnx
