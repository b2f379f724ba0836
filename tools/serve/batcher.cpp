#include "serve/batcher.hpp"

#include <algorithm>
#include <cstring>

#include "compile/execute.hpp"
#include "runtime/session/core_limit.hpp"
#include "runtime/session/run_control.hpp"

namespace gex::serve {
namespace {

// The symbol that is the first size of every input and output and appears nowhere else: the rows of
// a batch.
std::optional<Dim> batch_size_of(const deploy::Model& model) {
  if (model.inputs.empty() || model.inputs[0].shape.empty()) return std::nullopt;
  const Dim batch = model.inputs[0].shape[0];
  if (!batch.is_symbol()) return std::nullopt;
  for (const auto* infos : {&model.inputs, &model.outputs})
    for (const deploy::TensorInfo& info : *infos) {
      if (info.shape.empty() || info.shape[0] != batch) return std::nullopt;
      for (std::size_t d = 1; d < info.shape.size(); ++d)
        if (info.shape[d].depends_on(batch)) return std::nullopt;
    }
  return batch;
}

std::int64_t rows_for(const deploy::Model& model, std::int64_t wanted) {
  const std::optional<Dim> batch = batch_size_of(model);
  return batch ? std::max<std::int64_t>(1, std::min(wanted, batch->range().hi)) : 1;
}

std::size_t bytes_of_rows(const HostTensor& tensor, std::int64_t rows) {
  return tensor.bytes() / static_cast<std::size_t>(std::max<std::int64_t>(tensor.shape()[0], 1)) *
         static_cast<std::size_t>(rows);
}

}  // namespace

QueueFull::QueueFull(std::size_t limit)
    : UserError(ErrorCode::device_error,
                str("too many requests: ", limit, " are already waiting; try again later")) {}

TooLate::TooLate() : UserError(ErrorCode::device_error, "the request's time limit has passed") {}

Batcher::Batcher(std::shared_ptr<const deploy::Model> model, const BatchOptions& options)
    : model_(std::move(model)), options_(options), max_rows_(rows_for(*model_, options.max_batch)) {
  runtime::SessionOptions session;
  session.frozen = model_->frozen;
  session.gears = model_->gears;
  session_ = std::make_unique<runtime::Session>(model_->executable, session, model_->specialiser);
  thread_ = std::thread([this] { work(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<HostTensor> Batcher::infer(std::vector<HostTensor> inputs,
                                       std::optional<Clock::time_point> deadline) {
  auto pending = std::make_unique<Pending>();
  pending->inputs = std::move(inputs);
  pending->deadline = deadline;
  if (max_rows_ > 1 && !pending->inputs[0].shape().empty()) {
    pending->rows = pending->inputs[0].shape()[0];
    pending->together = pending->rows > 0 && pending->rows < max_rows_ &&
                        std::all_of(
                            pending->inputs.begin(), pending->inputs.end(),
                            [&](const HostTensor& input) {
                              return !input.shape().empty() && input.shape()[0] == pending->rows;
                            });
  }
  std::future<std::vector<HostTensor>> result = pending->result.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= options_.queue) throw QueueFull(options_.queue);
    waiting_.push_back(std::move(pending));
    counts_.waiting.store(static_cast<std::int64_t>(waiting_.size()));
  }
  changed_.notify_all();
  return result.get();
}

void Batcher::work() {
  const std::optional<runtime::LimitScope> limit =
      options_.threads > 0 ? std::optional<runtime::LimitScope>(std::in_place, options_.threads)
                           : std::nullopt;
  while (true) {
    Batch batch = next();
    if (batch.empty()) return;
    run(std::move(batch));
  }
}

bool Batcher::fits(const Pending& first, const Pending& other) const {
  if (!other.together) return false;
  for (std::size_t k = 0; k < first.inputs.size(); ++k) {
    const auto &a = first.inputs[k].shape(), &b = other.inputs[k].shape();
    if (a.size() != b.size() || !std::equal(a.begin() + 1, a.end(), b.begin() + 1)) return false;
  }
  return true;
}

Batcher::Batch Batcher::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
  if (waiting_.empty()) return {};
  Batch batch;
  batch.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  std::int64_t rows = batch[0]->rows;
  const auto take = [&] {
    for (auto at = waiting_.begin(); at != waiting_.end() && rows < max_rows_;) {
      if (fits(*batch[0], **at) && rows + (*at)->rows <= max_rows_) {
        rows += (*at)->rows;
        batch.push_back(std::move(*at));
        at = waiting_.erase(at);
      } else {
        ++at;
      }
    }
  };
  if (batch[0]->together) {
    const Clock::time_point until = Clock::now() + options_.delay;
    take();
    while (rows < max_rows_ && !stopping_ &&
           changed_.wait_until(lock, until) != std::cv_status::timeout)
      take();
    take();
  }
  counts_.waiting.store(static_cast<std::int64_t>(waiting_.size()));
  return batch;
}

void Batcher::run(Batch batch) {
  const Clock::time_point now = Clock::now();
  std::erase_if(batch, [&](const std::unique_ptr<Pending>& pending) {
    if (!pending->deadline || now < *pending->deadline) return false;
    pending->result.set_exception(std::make_exception_ptr(TooLate()));
    return true;
  });
  if (batch.empty()) return;
  counts_.requests += std::ssize(batch);
  if (batch.size() > 1) {
    run_together(batch);
  } else {
    run_alone(*batch[0]);
  }
}

std::vector<HostTensor> Batcher::execute_with(std::vector<HostTensor> inputs,
                                              std::optional<Clock::time_point> deadline) {
  runtime::RunControl control;
  control.deadline = deadline;
  const runtime::ControlScope scope(&control);
  ++counts_.runs;
  return execute(*session_, inputs);
}

void Batcher::run_alone(Pending& pending) {
  counts_.rows += pending.rows;
  std::exception_ptr problem;
  try {
    pending.result.set_value(execute_with(std::move(pending.inputs), pending.deadline));
    return;
  } catch (const runtime::RunStopped&) {
    problem = std::make_exception_ptr(TooLate());
  } catch (const std::exception&) {
    problem = std::current_exception();
  }
  pending.result.set_exception(problem);
}

void Batcher::run_together(Batch& batch) {
  std::int64_t rows = 0;
  for (const auto& pending : batch) rows += pending->rows;
  std::vector<HostTensor> inputs, outputs;
  for (std::size_t k = 0; k < batch[0]->inputs.size(); ++k) {
    std::vector<std::int64_t> shape = batch[0]->inputs[k].shape();
    shape[0] = rows;
    HostTensor whole(batch[0]->inputs[k].dtype(), std::move(shape));
    std::byte* place = whole.data();
    for (const auto& pending : batch) {
      const HostTensor& part = pending->inputs[k];
      std::memcpy(place, part.data(), part.bytes());
      place += part.bytes();
    }
    inputs.push_back(std::move(whole));
  }
  try {
    outputs = execute_with(std::move(inputs), std::nullopt);
  } catch (const std::exception&) {
    // One of them is invalid: running each alone shows which.
    for (const auto& pending : batch) run_alone(*pending);
    return;
  }
  counts_.rows += rows;
  std::int64_t row = 0;
  for (const auto& pending : batch) {
    std::vector<HostTensor> parts;
    for (const HostTensor& whole : outputs) {
      std::vector<std::int64_t> shape = whole.shape();
      shape[0] = pending->rows;
      parts.push_back(HostTensor::from_bytes(whole.dtype(), std::move(shape),
                                             whole.data() + bytes_of_rows(whole, row)));
    }
    row += pending->rows;
    pending->result.set_value(std::move(parts));
  }
}

}  // namespace gex::serve
