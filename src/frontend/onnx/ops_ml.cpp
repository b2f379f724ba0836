// ai.onnx.ml: classical models as scikit-learn and others export them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/strings.hpp"
#include "frontend/onnx/svm.hpp"
#include "frontend/onnx/trees.hpp"

namespace gex::onnx {
namespace {

constexpr const char* kClassical = "ai.onnx.ml";

Expr row_of(Graph& g, const std::vector<double>& values, DType t) {
  HostTensor tensor(DType::f64, {static_cast<std::int64_t>(values.size())});
  for (std::size_t k = 0; k < values.size(); ++k)
    tensor.set(static_cast<std::int64_t>(k), values[k]);
  return Expr(g, ops::constant(g, std::move(tensor))).to(t);
}

Items feature_extractor(Row& r) {
  Expr index = expr(r, 1);
  Expr flat = reshape(index, {product(index.shape())});
  Expr y = take(expr(r, 0), flat, r.rank() - 1);
  return r.one(r.rank() == 1 ? unsqueeze(y, 0) : y);
}

Items binarizer(Row& r) {
  Expr x = expr(r, 0);
  return r.one((x > r.float_attr("threshold", 0)).to(x.dtype()));
}

Items scaler(Row& r) {
  Expr x = expr(r, 0).to(DType::f32);
  return r.one((x - row_of(r.g, r.floats_attr("offset"), DType::f32)) *
                   row_of(r.g, r.floats_attr("scale"), DType::f32),
               Elem::f32);
}

Items normalizer(Row& r) {
  Expr x = expr(r, 0).to(DType::f32);
  const std::string norm = r.string_attr("norm", "MAX");
  const Ints last{x.rank() - 1};
  Expr size = norm == "MAX"  ? Expr(r.g, ops::reduce_max(r.g, abs(x), last, true))
              : norm == "L1" ? sum(abs(x), last, true)
                             : sqrt(sum(x * x, last, true));
  return r.one(where(size == 0, x, x / size), Elem::f32);
}

Items imputer(Row& r) {
  Expr x = expr(r, 0);
  if (gex::is_float(x.dtype())) {
    Expr fill = row_of(r.g, r.floats_attr("imputed_value_floats"), x.dtype());
    const double missing = r.float_attr("replaced_value_float", 0);
    return r.one(where(std::isnan(missing) ? unary("is_nan", x) : x == missing, fill, x));
  }
  const Ints values = r.ints_attr("imputed_value_int64s");
  Expr fill(r.g, ops::constant(
                     r.g, HostTensor::of_i64({static_cast<std::int64_t>(values.size())}, values)));
  return r.one(where(x == static_cast<double>(r.int_attr("replaced_value_int64", 0)), fill, x));
}

// --- labels, by host function ------------------------------------------------------------

struct Labels {
  HostTensor values;  // in storage dtypes, strings as numbers
  Elem elem = Elem::undefined;
};

std::optional<Labels> labels_of(const Row& r, const std::string& prefix) {
  const auto strings = r.strings_attr(prefix + "_strings");
  const auto ints = r.ints_attr(prefix + "_int64s");
  const auto floats = r.floats_attr(prefix + "_floats");
  if (!strings.empty()) {
    Ints numbers;
    for (const auto& text : strings) numbers.push_back(string_number(text));
    return Labels{HostTensor::of_i64({static_cast<std::int64_t>(numbers.size())}, numbers),
                  Elem::string};
  }
  if (!ints.empty())
    return Labels{HostTensor::of_i64({static_cast<std::int64_t>(ints.size())}, ints), Elem::i64};
  if (!floats.empty()) {
    const std::vector<float> narrow(floats.begin(), floats.end());
    return Labels{HostTensor::of({static_cast<std::int64_t>(narrow.size())}, narrow), Elem::f32};
  }
  if (const AttributeProto* a = r.find(prefix + "_tensor"); a != nullptr && a->tensor)
    return Labels{tensor_of(&r.state.model, *a->tensor), a->tensor->elem};
  return std::nullopt;
}

HostTensor default_label(const Row& r, Elem elem) {
  if (r.has_attr("default_tensor")) return r.tensor_attr("default_tensor");
  HostTensor value(storage_dtype(elem), {1});
  if (elem == Elem::string)
    value.set_int(0, string_number(r.string_attr("default_string", "_Unused")));
  else if (is_float(elem))
    value.set(0, r.float_attr("default_float", -0.0));
  else
    value.set_int(0, r.int_attr("default_int64", -1));
  return value;
}

void copy_element(const HostTensor& from, std::int64_t k, HostTensor& to, std::int64_t at) {
  if (gex::is_float(from.dtype()))
    to.set(at, from.get(k));
  else
    to.set_int(at, from.get_int(k));
}

Items mapped(const Row& r, const Labels& k, const Labels& v) {
  const HostTensor otherwise = default_label(r, v.elem);
  const DType t = storage_dtype(v.elem);
  return r.one(r.host_call(r.attributes_key(), {r.in(0)}, {Type::tensor(t, r.shape())},
                           [k, v, otherwise, t](std::span<const HostTensor> in,
                                                std::span<const std::int64_t>) {
                             std::map<double, std::int64_t> places;
                             std::int64_t nan = -1;
                             for (std::int64_t p = k.values.numel(); p-- > 0;) {
                               const double key = gex::is_float(k.values.dtype())
                                                      ? k.values.get(p)
                                                      : static_cast<double>(k.values.get_int(p));
                               if (std::isnan(key))
                                 nan = p;
                               else
                                 places[key] = p;
                             }
                             HostTensor out(t, in[0].shape());
                             for (std::int64_t p = 0; p < out.numel(); ++p) {
                               const double x = gex::is_float(in[0].dtype())
                                                    ? in[0].get(p)
                                                    : static_cast<double>(in[0].get_int(p));
                               const auto found = places.find(x);
                               const std::int64_t at = std::isnan(x)           ? nan
                                                       : found == places.end() ? -1
                                                                               : found->second;
                               if (at >= 0 && at < v.values.numel())
                                 copy_element(v.values, at, out, p);
                               else
                                 copy_element(otherwise, 0, out, p);
                             }
                             return std::vector{std::move(out)};
                           })[0],
               v.elem);
}

Items label_encoder(Row& r) {
  auto keys = labels_of(r, "keys"), values = labels_of(r, "values");
  if (!keys && r.has_attr("classes_strings")) {  // opset 1: strings and their positions
    keys = labels_of(r, "classes");
    Ints places;
    for (std::int64_t k = 0; k < keys->values.numel(); ++k) places.push_back(k);
    values = Labels{HostTensor::of_i64({keys->values.numel()}, places), Elem::i64};
    if (r.elem() == Elem::i64) std::swap(keys, values);
  }
  if (!keys || !values) r.refuse("it has no keys or no values");
  return mapped(r, *keys, *values);
}

// Strings to numbers or numbers to strings.
Items category_mapper(Row& r) {
  const auto strings = labels_of(r, "cats");
  const Ints numbers = r.ints_attr("cats_int64s");
  if (!strings || strings->elem != Elem::string) r.refuse("it has no cats_strings");
  const Labels ints{HostTensor::of_i64({static_cast<std::int64_t>(numbers.size())}, numbers),
                    Elem::i64};
  return r.elem() == Elem::string ? mapped(r, *strings, ints) : mapped(r, ints, *strings);
}

// Scores by class: a map for each row. All have the same keys, so that a sequence of the keys and
// the scores stands for them; whoever shows results makes maps of it.
Items zip_map(Row& r) {
  const auto keys = labels_of(r, "classlabels");
  if (!keys) r.refuse("it has no class labels");
  Expr x = expr(r, 0);
  if (x.rank() == 1) x = unsqueeze(x, 0);
  if (x.rank() != 2 || !(x.shape()[1] == Dim(keys->values.numel())))
    r.refuse(str("it needs one column for each of ", keys->values.numel(), " classes"));
  Item maps;
  maps.kind = Item::Kind::sequence;
  maps.elem = r.elem();
  maps.items = {Item::tensor(ops::constant(r.g, keys->values), keys->elem),
                Item::tensor(x, r.elem())};
  return {maps};
}

// --- linear models and trees ---------------------------------------------------------------------

// Softmax of the scores that are not 0; the others stay 0.
Expr softmax_of_others(Expr scores) {
  const Expr kept = abs(scores) > 1e-7;
  const Expr others = where(kept, scores, scores.number(-std::numeric_limits<double>::infinity()));
  return where(kept, Expr(scores.g, ops::softmax(scores.g, others, scores.rank() - 1)),
               scores.number(0));
}

Expr transformed(Expr scores, const std::string& transform) {
  if (transform == "LOGISTIC") return sigmoid(scores);
  if (transform == "SOFTMAX") return {scores.g, ops::softmax(scores.g, scores, scores.rank() - 1)};
  if (transform == "SOFTMAX_ZERO") return softmax_of_others(scores);
  if (transform != "NONE" && !transform.empty())
    fail(ErrorCode::unsupported, "post_transform ", transform, " is not supported");
  return scores;
}

Items linear_regressor(Row& r) {
  const Dim targets = r.int_attr("targets", 1);
  const auto weights = r.floats_attr("coefficients"), bias = r.floats_attr("intercepts");
  Expr x = expr(r, 0).to(DType::f32);
  Expr w = reshape(row_of(r.g, weights, DType::f32),
                   {targets, floordiv(Dim(static_cast<std::int64_t>(weights.size())), targets)});
  Expr y = matmul(x, transpose(w, {1, 0}));
  if (!bias.empty()) y = y + row_of(r.g, bias, DType::f32);
  return r.one(transformed(y, r.string_attr("post_transform", "NONE")), Elem::f32);
}

// Labels of the largest scores.
Item labels_at(Row& r, Expr places) {
  if (const auto strings = r.strings_attr("classlabels_strings"); !strings.empty()) {
    Ints numbers;
    for (const auto& text : strings) numbers.push_back(string_number(text));
    Expr table(r.g, ops::constant(r.g, HostTensor::of_i64(
                                           {static_cast<std::int64_t>(numbers.size())}, numbers)));
    return Item::tensor(take(table, places, 0), Elem::string);
  }
  Ints ints = r.ints_attr("classlabels_int64s");
  if (ints.empty()) ints = r.ints_attr("classlabels_ints");
  if (ints.empty()) return Item::tensor(places, Elem::i64);
  Expr table(
      r.g, ops::constant(r.g, HostTensor::of_i64({static_cast<std::int64_t>(ints.size())}, ints)));
  return Item::tensor(take(table, places, 0), Elem::i64);
}

std::size_t class_count(const Row& r) {
  return std::max({r.strings_attr("classlabels_strings").size(),
                   r.ints_attr("classlabels_int64s").size(),
                   r.ints_attr("classlabels_ints").size()});
}

Items linear_classifier(Row& r) {
  const auto weights = r.floats_attr("coefficients"), bias = r.floats_attr("intercepts");
  const std::size_t classes = std::max<std::size_t>(class_count(r), 1);
  Expr x = expr(r, 0).to(DType::f32);
  const auto known = x.shape()[1].as_const();
  const auto total = static_cast<std::int64_t>(weights.size());
  // One row of weights for each class, or one for two classes.
  const std::int64_t rows = !bias.empty() ? std::ssize(bias)
                            : known       ? total / std::max<std::int64_t>(*known, 1)
                                          : static_cast<std::int64_t>(classes);
  if (rows < 1 || total % rows != 0 || (known && total != rows * *known))
    r.refuse(str(total, " coefficients do not fit ", rows, " rows and the features of its input"));
  Expr w = reshape(row_of(r.g, weights, DType::f32), {Dim(rows), Dim(total / rows)});
  Expr scores = matmul(x, transpose(w, {1, 0}));
  if (!bias.empty()) scores = scores + row_of(r.g, bias, DType::f32);
  const std::string transform = r.string_attr("post_transform", "NONE");
  if (rows == 1 && classes == 2) {
    Expr p = transformed(scores, transform == "SOFTMAX" ? "LOGISTIC" : transform);
    Expr other = transform == "NONE" ? -p : 1.0 - p;
    Expr chosen = (scores > 0).to(DType::i64);
    Expr both(r.g, ops::cat(r.g, {other.v, p.v}, 1));
    return {labels_at(r, reshape(chosen, {x.shape()[0]})), Item::tensor(both, Elem::f32)};
  }
  Expr chosen(r.g, ops::argmax(r.g, scores, {1}));
  return {labels_at(r, chosen), Item::tensor(transformed(scores, transform), Elem::f32)};
}

Expr tree_scores(Row& r, const Forest& forest) {
  const DType t = r.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return {r.g, call_forest(r, forest, expr(r, 0).to(t))};
}

Items tree_regressor(Row& r) {
  Expr y = tree_scores(r, forest_of(r, "target", r.int_attr("n_targets", 1)));
  return r.one(transformed(y, r.string_attr("post_transform", "NONE")).to(DType::f32), Elem::f32);
}

Items tree_classifier(Row& r) {
  const auto classes = static_cast<std::int64_t>(std::max<std::size_t>(class_count(r), 1));
  Ints ids = r.ints_attr("class_ids");
  std::ranges::sort(ids);
  const bool binary_case = classes == 2 && !ids.empty() && ids.front() == ids.back();
  bool positive = true;
  for (const double w : r.floats_attr("class_weights")) positive = positive && w >= 0;
  Expr scores = tree_scores(r, forest_of(r, "class", classes)).to(DType::f32);
  const std::string transform = r.string_attr("post_transform", "NONE");
  if (!binary_case) {
    Expr chosen(r.g, ops::argmax(r.g, scores, {1}));
    Item labels = labels_at(r, chosen);
    // Of one class: its label for positive scores, else 0.
    if (classes == 1 && labels.elem == Elem::i64) {
      Expr label(r.g, labels.value);
      labels.value = where(reshape(scores, {r.shape()[0]}) > 0, label, label.number(0));
    }
    return {labels, Item::tensor(transformed(scores, transform), Elem::f32)};
  }
  // One score for two classes: a probability if no weight is negative. onnxruntime adds the other
  // score if the one is that of class 0, and leaves SOFTMAX out then; else the other is 0.
  Expr s = slice(scores, 1, ids.front(), 1);
  Expr chosen = (positive ? s > 0.5 : s > 0).to(DType::i64);
  Item labels = labels_at(r, reshape(chosen, {r.shape()[0]}));
  if (ids.front() == 1) return {labels, Item::tensor(transformed(scores, transform), Elem::f32)};
  Expr p = transform == "LOGISTIC" ? sigmoid(s) : s;
  Expr other = transform == "LOGISTIC" || positive ? 1.0 - p : -p;
  if (transform == "PROBIT")
    r.refuse("post_transform PROBIT of a classifier with one score is not supported");
  Expr both(r.g, ops::cat(r.g, {other.v, p.v}, 1));
  return {labels, Item::tensor(both, Elem::f32)};
}

Items tree_ensemble(Row& r) {
  Expr y = tree_scores(r, forest_of_tensors(r));
  static const char* names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::int64_t transform = r.int_attr("post_transform", 0);
  if (transform < 0 || transform > 4) r.refuse("an unknown post_transform");
  return r.one(transformed(y, names[transform]));
}

Items feature_vectorizer(Row& r) {
  std::vector<Value*> parts;
  for (std::size_t i = 0; i < r.num_inputs(); ++i) {
    Expr x = expr(r, i).to(DType::f32);
    parts.push_back(x.rank() == 1 ? unsqueeze(x, 1) : x);
  }
  return r.one(parts.size() == 1 ? parts[0] : ops::cat(r.g, parts, 1), Elem::f32);
}

Items one_hot_encoder(Row& r) {
  Ints cats = r.ints_attr("cats_int64s");
  for (const auto& text : r.strings_attr("cats_strings")) cats.push_back(string_number(text));
  Expr x = expr(r, 0);
  Expr table(
      r.g, ops::constant(r.g, HostTensor::of_i64({static_cast<std::int64_t>(cats.size())}, cats)));
  Expr hit = unsqueeze(x.to(DType::i64), r.rank()) == table;
  return r.one(hit.to(DType::f32), Elem::f32);
}

}  // namespace

void add_ml_rows() {
  const auto add = [](const char* op, RowFunction row) { add_row(kClassical, op, std::move(row)); };
  add_svm_rows();
  add("ArrayFeatureExtractor", feature_extractor);
  add("Binarizer", binarizer);
  add("Scaler", scaler);
  add("Normalizer", normalizer);
  add("Imputer", imputer);
  add("LabelEncoder", label_encoder);
  add("CategoryMapper", category_mapper);
  add("ZipMap", zip_map);
  add("LinearRegressor", linear_regressor);
  add("LinearClassifier", linear_classifier);
  add("TreeEnsembleRegressor", tree_regressor);
  add("TreeEnsembleClassifier", tree_classifier);
  add("TreeEnsemble", tree_ensemble);
  add("FeatureVectorizer", feature_vectorizer);
  add("OneHotEncoder", one_hot_encoder);
}

}  // namespace gex::onnx
