#pragma once
// Loops in which a thread processes several neighbouring points at once, with vector loads and
// stores.

#include "backend/cuda/body_writer.hpp"

namespace gex::backend::cuda {

class VectorWriter : public BodyWriter {
 protected:
  using BodyWriter::BodyWriter;

  // As loops(), for `inner` that evaluates expressions and stores of the stage in every iteration.
  // If addresses and sizes allow it at run time, accesses that are contiguous along the last range
  // become vector accesses; the remaining points are processed one by one.
  void vector_loops(const loop::Stage& stage, const std::vector<loop::Range>& ranges,
                    const std::string& start, const std::string& step,
                    const std::function<void()>& inner);

  std::string loaded(const loop::Expr& load) override;
  void store(const loop::Store& s) override;

 private:
  struct Access {
    int buffer = -1;
    Dim offset;  // in elements
    bool is_store = false;
    std::string name;  // of the registers
  };
  struct Plan {
    std::vector<Access> accesses;
    int width = 1;                       // points at once
    std::vector<std::string> divisible;  // must be divisible by the width
    std::set<loop::ExprId> before;       // values that addresses need
  };
  Plan plan(const loop::Stage& stage, const std::vector<loop::Range>& ranges);
  bool add_access(const loop::Stage& stage, int buffer, const std::vector<Dim>& index,
                  bool is_store, Dim inner, Plan& out);
  void store_vectors(const Plan& wide);
  bool depends_on(const loop::Stage& stage, loop::ExprId id, Dim index) const;
  const Access* find(int buffer, const std::vector<Dim>& index, bool is_store) const;
  std::string vector_type(const Access& access, int width) const;

  std::vector<Access> active_;  // inside a wide loop
  int next_vector_ = 0;
};

}  // namespace gex::backend::cuda
