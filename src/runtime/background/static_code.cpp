#include "runtime/background/static_code.hpp"

#include "base/error.hpp"
#include "runtime/background/background.hpp"

namespace gex::runtime {

namespace {
// Cached results; when full, all are dropped: that costs recompiles and bounds memory.
constexpr std::size_t kMaxKnown = 4096;
}  // namespace

StaticCode::Result StaticCode::specialise(const Image& image, std::span<const std::int64_t> key,
                                          const CodeTable& present) {
  Result result;
  std::vector<std::int64_t> values(static_cast<std::size_t>(image.num_slots), 0);
  evaluate(image, 0, key, values);
  auto table = std::make_shared<CodeTable>(present);
  for (const LaunchOp& op : image.launches) {
    if (background_stopping()) return {};
    if (op.epoch > 0) continue;  // sizes differ from call to call
    std::vector<std::int64_t> dims;
    for (Dim dim : op.launch->dims)
      dims.push_back(values[static_cast<std::size_t>(image.slot(dim))]);
    const program::Callable code = code_for(op.launch->code, dims, result.error);
    if (!code) continue;
    (*table)[static_cast<std::size_t>(op.number)] = code;
    ++result.replaced;
  }
  if (result.replaced > 0) result.code = std::move(table);
  return result;
}

program::Callable StaticCode::code_for(int code, const std::vector<std::int64_t>& dims,
                                       std::string& error) {
  const auto found = known_.find({code, dims});
  if (found != known_.end()) return found->second;
  program::Callable made;
  try {
    made = specialiser_->specialise(code, dims);
  } catch (const std::exception& failure) {
    // The generic code keeps running; the capture's note says why.
    error = str("no static code for code ", code, ": ", failure.what());
  }
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.emplace(std::make_pair(code, dims), made);
  return made;
}

}  // namespace gex::runtime
