// libgex_grpc: the KServe v2 protocol over gRPC. Each request waits in a thread of gRPC's pool, of
// which there are as many as --connections allows; more requests get RESOURCE_EXHAUSTED.

#include <grpcpp/grpcpp.h>

#include <kserve.grpc.pb.h>
#include "base/error.hpp"
#include "base/log.hpp"
#include "gex/gex.h"
#include "serve/grpc.hpp"
#include "serve_grpc/requests.hpp"

namespace gex::serve {
namespace {

namespace kserve = inference;
using grpc::ServerContext;
using grpc::Status;

grpc::StatusCode code_of(int http_status) {
  switch (http_status) {
    case 400:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case 404:
      return grpc::StatusCode::NOT_FOUND;
    case 429:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 503:
      return grpc::StatusCode::UNAVAILABLE;
    case 504:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

Status status_for(const std::exception& error) {
  const int status = status_of(error);
  if (status == 500) log(LogArea::serve, LogLevel::error, "", error.what());
  return {code_of(status), error.what()};
}

// Every error becomes a status: the service stays up.
template <class Use>
Status guarded(Use use) {
  try {
    use();
    return Status::OK;
  } catch (const std::exception& error) {
    return status_for(error);
  }
}

std::optional<Clock::time_point> limit_of(const ServerContext& context) {
  const auto limit = context.deadline();
  const auto now = std::chrono::system_clock::now();
  // "None" is the largest time point: too large for the difference.
  if (limit > now + std::chrono::hours(24 * 365)) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(limit - now);
}

class Inference final : public kserve::GRPCInferenceService::Service {
 public:
  explicit Inference(serve::Service& service) : service_(service) {}

  Status ServerLive(ServerContext*, const kserve::ServerLiveRequest*,
                    kserve::ServerLiveResponse* out) override {
    out->set_live(true);
    return Status::OK;
  }
  Status ServerReady(ServerContext*, const kserve::ServerReadyRequest*,
                     kserve::ServerReadyResponse* out) override {
    out->set_ready(!service_.stopping());
    return Status::OK;
  }
  Status ModelReady(ServerContext*, const kserve::ModelReadyRequest* in,
                    kserve::ModelReadyResponse* out) override {
    out->set_ready(service_.registry().find(in->name(), in->version()) != nullptr);
    return Status::OK;
  }
  Status ServerMetadata(ServerContext*, const kserve::ServerMetadataRequest*,
                        kserve::ServerMetadataResponse* out) override {
    out->set_name("gex");
    out->set_version(gex_version());
    out->add_extensions("model_repository");
    return Status::OK;
  }
  Status ModelMetadata(ServerContext*, const kserve::ModelMetadataRequest* in,
                       kserve::ModelMetadataResponse* out) override {
    return guarded([&] {
      const ServedPtr model = service_.model(in->name(), in->version());
      write_metadata(*model, service_.registry().versions(model->name), *out);
    });
  }
  Status ModelInfer(ServerContext* context, const kserve::ModelInferRequest* in,
                    kserve::ModelInferResponse* out) override {
    return infer(*context, *in, *out);
  }
  Status ModelStreamInfer(ServerContext* context,
                          grpc::ServerReaderWriter<kserve::ModelStreamInferResponse,
                                                   kserve::ModelInferRequest>* stream) override {
    kserve::ModelInferRequest in;
    while (stream->Read(&in)) {
      kserve::ModelStreamInferResponse out;
      const Status status = infer(*context, in, *out.mutable_infer_response());
      if (!status.ok()) {
        out.set_error_message(status.error_message());
        out.mutable_infer_response()->set_id(in.id());
      }
      if (!stream->Write(out)) break;  // the client is gone
    }
    return Status::OK;
  }
  Status RepositoryIndex(ServerContext*, const kserve::RepositoryIndexRequest*,
                         kserve::RepositoryIndexResponse* out) override {
    for (const ServedPtr& model : service_.registry().all()) {
      auto& entry = *out->add_models();
      entry.set_name(model->name);
      entry.set_version(model->version);
      entry.set_state("READY");
    }
    return Status::OK;
  }
  Status RepositoryModelLoad(ServerContext*, const kserve::RepositoryModelLoadRequest* in,
                             kserve::RepositoryModelLoadResponse*) override {
    return guarded([&] { service_.registry().reload(in->model_name()); });
  }
  Status RepositoryModelUnload(ServerContext*, const kserve::RepositoryModelUnloadRequest* in,
                               kserve::RepositoryModelUnloadResponse*) override {
    return guarded([&] { service_.registry().unload(in->model_name()); });
  }

 private:
  Status infer(const ServerContext& context, const kserve::ModelInferRequest& in,
               kserve::ModelInferResponse& out) {
    const Clock::time_point start = Clock::now();
    std::string name = "unknown";
    int http_status = 200;
    Status status = Status::OK;
    try {
      const ServedPtr model = service_.model(in.model_name(), in.model_version());
      name = model->name;
      InferRequest request = parse_request(in, *model->model);
      write_response(*model, request, service_.run(*model, request, start, limit_of(context)), out);
    } catch (const std::exception& error) {
      http_status = status_of(error);
      status = status_for(error);
    }
    service_.metrics().answered(name, http_status, Clock::now() - start);
    return status;
  }

  serve::Service& service_;
};

class RunningServer final : public GrpcServer {
 public:
  RunningServer(Service& service, const ServerOptions& options) : inference_(service) {
    const bool ipv6 = options.host.find(':') != std::string::npos;
    const std::string host = ipv6 ? "[" + options.host + "]" : options.host;
    const int wanted = options.grpc_port.value();
    grpc::ResourceQuota quota("gex");
    quota.SetMaxThreads(options.connections + kOwnThreads);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(str(host, ":", wanted), grpc::InsecureServerCredentials(), &port_);
    // Otherwise two servers could share a port, each with a part of the requests.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(
        static_cast<int>(std::min<std::size_t>(options.max_body, std::numeric_limits<int>::max())));
    builder.SetMaxSendMessageSize(-1);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&inference_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0)
      fail(ErrorCode::io_error, "can't listen for gRPC on ", host, ":", wanted,
           "; another program may have the port");
  }
  int port() const override { return port_; }
  void stop() override {
    server_->Shutdown();
    server_->Wait();
  }

 private:
  static constexpr int kOwnThreads = 2;  // that wait for new requests
  Inference inference_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) GrpcServer* gex_open_grpc(
    Service& service, const ServerOptions& options) {
  return new RunningServer(service, options);
}

}  // namespace gex::serve
