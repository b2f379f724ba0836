#pragma once
// Matches the inputs of a call with the Program's input descriptions: a symbol takes its value from
// the first size or integer that is just that symbol, else from a size like 2*s + 1; everything
// else is checked. The values of the symbols are the key.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/session/image.hpp"
#include "runtime/session/session.hpp"

namespace gex::runtime {

class InputMatcher {
 public:
  explicit InputMatcher(const Image& image);

  // Fills `key` (one value per input symbol). Checks count, dtype, rank, constants, repeated
  // symbols and ranges. The UserError names the input, what was expected, what was passed and what
  // to do.
  void bind(std::span<const InputArg> inputs, std::span<std::int64_t> key) const;
  // Checks expressions and strides, after the sizes of epoch 0 were evaluated.
  void check(std::span<const InputArg> inputs, std::span<const std::int64_t> values) const;

  // By input: whether some step writes it.
  const std::vector<bool>& written() const { return written_; }

  // "dim 1 of input 0": where the value of a symbol comes from.
  const std::string& source_of(int symbol) const {
    return sources_[static_cast<std::size_t>(symbol)];
  }

 private:
  struct Rule {
    int input;
    enum class Where : std::uint8_t { shape, stride, integer } where;
    int axis;
    int target;                        // bind rules: symbol; check rules: slot
    std::int64_t scale = 1, rest = 0;  // bind rules: the size is scale*symbol + rest
  };
  void bind_by_sums(std::vector<bool>& bound);
  std::int64_t actual(const Rule& rule, const InputArg& arg) const;
  [[noreturn]] void fail_mismatch(const Rule& rule, const InputArg& arg, std::int64_t expected,
                                  const char* why) const;
  // `strides`: the expected strides of the input.
  [[noreturn]] void fail_layout(const Rule& rule, const InputArg& arg,
                                std::vector<std::int64_t> strides) const;
  std::string mismatch_message(const Rule& rule, const InputArg& arg, std::int64_t expected,
                               const char* why) const;
  void check_dense(int input, const InputArg& arg) const;

  // An input whose sizes and strides are all constants: checked with one comparison.
  struct Fixed {
    int rank = -1;  // -1: not all are constants
    int first = 0;  // in fixed_numbers_: shape, then strides
  };
  void fix(const program::InputDesc& desc);
  bool fits_exactly(std::size_t input, const TensorRef& tensor) const;
  void check_form(std::size_t input, const InputArg& arg) const;
  void check_fixed(std::size_t input, const InputArg& arg) const;

  const Image& image_;
  std::vector<Fixed> fixed_;
  std::vector<std::int64_t> fixed_numbers_;
  std::vector<Rule> bind_rules_, check_rules_;  // of the other inputs
  std::vector<int> dense_inputs_;
  std::vector<bool> written_;  // by input
  std::vector<std::string> sources_;
};

}  // namespace gex::runtime
