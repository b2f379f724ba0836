#include "runtime/background/static_code.hpp"

#include <atomic>

#include "base/error.hpp"
#include "runtime/background/background.hpp"

namespace gex::runtime {

namespace {
// Cached results; when full, all are dropped: that costs recompiles and bounds memory.
constexpr std::size_t kMaxKnown = 4096;
}  // namespace

StaticCode::Result StaticCode::specialise(const Image& image, std::span<const std::int64_t> key,
                                          const CodeTable& present,
                                          const program::DeviceCodeRequest* request) {
  Result result;
  std::vector<std::int64_t> values(static_cast<std::size_t>(image.num_slots), 0);
  evaluate(image, 0, key, values);
  if (request != nullptr) return specialise_on_device(image, values, present, *request);
  auto table = std::make_shared<CodeTable>(present);
  for (const LaunchOp& op : image.launches) {
    if (background_stopping()) return {};
    if (op.epoch > 0) continue;  // sizes differ from call to call
    std::vector<std::int64_t> dims;
    for (Dim dim : op.launch->dims)
      dims.push_back(values[static_cast<std::size_t>(image.slot(dim))]);
    const program::Callable code = code_for(op.launch->code, dims, result.error);
    if (!code) continue;
    table->functions[static_cast<std::size_t>(op.number)] = code;
    ++result.replaced;
  }
  if (result.replaced > 0) result.code = std::move(table);
  return result;
}

StaticCode::Result StaticCode::specialise_on_device(const Image& image,
                                                    std::span<const std::int64_t> values,
                                                    const CodeTable& present,
                                                    const program::DeviceCodeRequest& request) {
  static std::atomic<std::uint64_t> next_number{1};
  Result result;
  program::LaunchDims dims;
  for (const LaunchOp& op : image.launches) {
    if (op.epoch > 0) continue;  // sizes differ from call to call
    for (Dim dim : op.launch->dims)
      dims[op.launch].push_back(values[static_cast<std::size_t>(image.slot(dim))]);
  }
  auto table = std::make_shared<CodeTable>(present);
  try {
    table->device.codes = specialiser_->device_codes(dims, request);
  } catch (const std::exception& failure) {
    result.error = str("no static code: ", failure.what());  // as in code_for
    return result;
  }
  table->device.number = next_number++;
  result.replaced = static_cast<std::int64_t>(table->device.codes.size());
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
