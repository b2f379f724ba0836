#pragma once
// The part of the DLPack 1.x C ABI that gex uses (https://dmlc.github.io/dlpack). PyTorch provides
// the function table as the capsule `torch.Tensor.__dlpack_c_exchange_api__`.

#include <cstdint>

namespace gex::dlpack {

extern "C" {

struct Version {
  std::uint32_t major, minor;
};

struct Device {
  std::int32_t type, id;
};
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::int32_t kCudaHost = 3;  // pinned memory of the CPU

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
inline constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6;

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
  std::uint64_t flags;
  Tensor dl_tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader* prev_api;
};

struct ExchangeApi {
  ExchangeHeader header;
  int (*allocate)(Tensor* prototype, ManagedTensor** out, void* error_ctx,
                  void (*set_error)(void* error_ctx, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*managed_to_object)(ManagedTensor* tensor, void** out_object);
  int (*borrow)(void* object, Tensor* out);  // valid while the object lives; null if unsupported
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out_stream);
};

}  // extern "C"

inline constexpr std::uint32_t kMajor = 1;

}  // namespace gex::dlpack
