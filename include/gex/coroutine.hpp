// Runs of a session in coroutines (C++20):
//
//   std::vector<gex::Tensor> outputs = co_await gex::run_later(session, inputs);
//
// The coroutine goes on on the thread of the session that made the run, so that it should leave
// long work to others, and must not destroy the session's last copy there. RunError is thrown where
// the coroutine waits: also GEX_BUSY, if too many runs wait already.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>
#include <vector>

#include "gex/session.hpp"

namespace gex {

class RunLater {
 public:
  RunLater(Session session, std::vector<Tensor> inputs, const RunOptions& options)
      : session_(std::move(session)), inputs_(std::move(inputs)), options_(options) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    // Nothing of *this may be used behind this call: the coroutine may be at its end by then.
    session_.run_async(
        std::move(inputs_),
        [this, waiting](std::vector<Tensor> outputs, const RunError* error) {
          if (error != nullptr)
            error_ = *error;
          else
            outputs_ = std::move(outputs);
          waiting.resume();
        },
        options_);
  }
  std::vector<Tensor> await_resume() {
    if (error_) throw RunError(*error_);
    return std::move(outputs_);
  }

 private:
  Session session_;
  std::vector<Tensor> inputs_, outputs_;
  RunOptions options_;
  std::optional<RunError> error_;
};

// The memory of views stays as it is until the coroutine goes on.
inline RunLater run_later(const Session& session, std::vector<Tensor> inputs,
                          const RunOptions& options = {}) {
  return RunLater(session, std::move(inputs), options);
}

}  // namespace gex
