#pragma once
// Writes the body of a loop kernel as C statements: sizes and indices, expressions, stores, and
// stages that a single thread runs.

#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/kernel.hpp"

namespace gex::backend::cuda {

class BodyWriter {
 public:
  // `exchanged`: parameters that are written to exchanged memory (persistent_text.hpp); empty:
  // none.
  explicit BodyWriter(const loop::Kernel& kernel, std::vector<bool> exchanged = {})
      : kernel_(kernel), exchanged_(std::move(exchanged)) {}
  virtual ~BodyWriter() = default;

 protected:
  // ---- text ----
  void line(const std::string& text);
  void open(const std::string& text);  // "text {"
  void close();

  // ---- sizes and indices ----
  std::string dim(Dim d);
  std::string index_name(const loop::Range& range);
  // Recovers the indices of several ranges from one linear counter `flat`, innermost fastest.
  void split(const std::vector<loop::Range>& ranges, const std::string& flat);
  // Runs `inner` for all points of the ranges. The first loop starts at `start` and advances by
  // `step`, so that the threads of a block divide the points. Independent ranges become one loop.
  void loops(const std::vector<loop::Range>& ranges, const std::string& start,
             const std::string& step, const std::function<void()>& inner);
  static bool independent(const std::vector<loop::Range>& ranges);

  // ---- expressions and stores ----
  // An element of a buffer as an lvalue; as a register value; a store to it.
  virtual std::string element(int buffer, const std::vector<Dim>& index);
  virtual std::string loaded(const loop::Expr& load);
  virtual void store(const loop::Store& s);
  bool is_exchanged(int buffer) const {
    const auto b = static_cast<std::size_t>(buffer);
    return b < exchanged_.size() && exchanged_[b];
  }
  // The type of a parameter's pointer, and the pointer in word `word` of the launch.
  std::string pointer_type(int buffer) const;
  std::string pointer(int buffer, const std::string& word) const;
  // target = value, or target = combine(target, value).
  void update(const loop::Store& s, const std::string& target, const std::string& value);
  // An atomic store: several threads may write the same element.
  virtual bool atomic(const loop::Store&) const { return false; }
  // Writes every expression that `roots` depend on, operands first, each as a constant of the
  // current C scope.
  void expressions(const loop::Stage& stage, const std::set<loop::ExprId>& roots);
  std::string expression(const loop::Expr& e, const std::function<DType(loop::ExprId)>& dtype_of,
                         const std::string& prefix);
  // The stores of the stage at one position (at each element of its reduction, or after it),
  // preceded by the expressions they use.
  void stores(const loop::Stage& stage, bool at_element,
              const std::set<loop::ExprId>& more_roots = {});

  // ---- reductions ----
  void declare_accumulators(const loop::Stage& stage, const std::string& prefix = "acc");
  // left = combine(left, right), where the state's parts are called left(k), right(k).
  using Part = std::function<std::string(std::size_t)>;
  void combine(const loop::Stage& stage, const Part& left, const Part& right, const Part& result);
  void combine(const loop::Stage& stage, const Part& right);  // acc = combine(acc, right)
  void fold(const loop::Stage& stage, const std::string& start, const std::string& step);
  // One domain point, or the whole stage if it has no domain, on the current thread.
  void point(const loop::Stage& stage);

  const loop::Kernel& kernel_;
  const std::vector<bool> exchanged_;
  bool small_code_ = false;  // loops are not unrolled
  std::ostringstream text_;
  std::unordered_map<Dim, std::string> names_;
  int depth_ = 0;

 private:
  std::string name(Dim symbol);
  std::string joined(Dim d, const char* separator);
  void add_roots(const loop::Store& store, std::set<loop::ExprId>& roots);
  int next_index_ = 0, next_loop_ = 0;
};

// By parameter of a kernel: whether it may be exchanged memory. Parameters that are read always may
// if their elements have 2, 4 or 8 bytes: they are copied to shared memory first. A parameter that
// is written must get every element by one store.
std::vector<bool> exchangeable_params(const loop::Kernel& kernel);

// A name as a C identifier.
std::string identifier(const std::string& name);

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace gex::backend::cuda
