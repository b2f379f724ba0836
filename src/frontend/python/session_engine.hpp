#pragma once
// A compiled Program and the Session that replays it.

#include <memory>
#include <span>

#include "compile/compile.hpp"
#include "frontend/python/runner.hpp"

namespace gex::python {

class SessionEngine final : public Engine {
 public:
  // `integers`: what the integer arguments of a call are; those that no tensor tells become inputs.
  // `released`: graph inputs that the host lets go of at their last use.
  SessionEngine(std::unique_ptr<Graph> graph, std::span<const Dim> integers,
                std::span<const int> released, const CompileOptions& options,
                const runtime::SessionOptions& session_options, bool tensors_on_host = false);

  std::vector<Input> inputs() const override;
  std::size_t num_outputs() const override { return session_->program().outputs.size(); }
  TorchDevice device() const override { return device_; }
  void run(std::span<const runtime::InputArg> inputs, runtime::Host& host) override {
    session_->run(inputs, host);
  }

  const CompileReport& report() const { return report_; }
  const runtime::Session& session() const { return *session_; }

 private:
  CompileReport report_;
  TorchDevice device_;
  std::unique_ptr<runtime::Session> session_;
};

}  // namespace gex::python
