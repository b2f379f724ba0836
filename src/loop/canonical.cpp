#include <unordered_map>

#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::loop {
namespace {

class Renamer {
 public:
  explicit Renamer(Kernel kernel) : kernel_(std::move(kernel)) {}

  Kernel run(std::vector<Dim>& symbols) {
    std::unordered_map<Dim, Dim> original;
    for (Dim s : kernel_.symbols()) {
      Dim renamed = Dim::symbol(str("s", original.size()), s.range());
      renamed_.emplace(s, renamed);
      original.emplace(renamed, s);
    }
    kernel_.name = "k";
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      Buffer& b = kernel_.buffers[i];
      b.name = str("b", i);
      rename(b.shape);
      rename(b.strides);
    }
    rename(kernel_.grid, "g");
    for (Stage& stage : kernel_.stages) rename(stage);
    symbols.clear();
    for (Dim s : kernel_.symbols()) symbols.push_back(original.at(s));
    return std::move(kernel_);
  }

 private:
  Dim rename(Dim d) const {
    return d.substitute([this](Dim symbol) -> std::optional<Dim> {
      auto it = renamed_.find(symbol);
      return it == renamed_.end() ? std::nullopt : std::optional(it->second);
    });
  }
  void rename(std::vector<Dim>& dims) const {
    for (Dim& d : dims) d = rename(d);
  }
  void rename(std::vector<Range>& ranges, const char* prefix) {
    int n = 0;
    for (Range& r : ranges) {
      Dim renamed = Dim::index(str(prefix, n++), rename(r.extent()));
      renamed_.insert_or_assign(r.index, renamed);
      r.index = renamed;
    }
  }
  void rename(Stage& stage) {
    stage.name.clear();
    rename(stage.domain, "d");
    rename(stage.reduce, "r");
    for (Expr& e : stage.exprs) {
      if (e.kind == Expr::Kind::index) e.dim = rename(e.dim);
      rename(e.index);
    }
    for (Store& s : stage.stores) rename(s.index);
    if (!stage.reduction) return;
    int n = 0;
    for (Accumulator& a : stage.reduction->accumulators) a.name = str("a", n++);
  }

  Kernel kernel_;
  std::unordered_map<Dim, Dim> renamed_;
};

}  // namespace

Kernel canonical(const Kernel& kernel, std::vector<Dim>& symbols) {
  return Renamer(kernel).run(symbols);
}

Hash structural_hash(const Kernel& kernel) {
  std::vector<Dim> symbols;
  return hash_text(print(canonical(kernel, symbols)));
}

}  // namespace gex::loop
