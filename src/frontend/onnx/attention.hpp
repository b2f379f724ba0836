#pragma once
#include "frontend/onnx/row.hpp"

namespace gex::onnx {

// [batch, time, heads*size] to [batch, heads, time, size] and back; tensors with four axes stay.
Value* split_heads(Graph& g, Value* x, std::int64_t heads);
Value* join_heads(Graph& g, Value* x);
Value* repeat_heads(Graph& g, Value* x, Dim heads);

struct Rotary {
  Value* x = nullptr;                    // [batch, heads, time, size]
  Value *cos = nullptr, *sin = nullptr;  // [positions, size/2], or with a batch axis
  Value* positions = nullptr;            // null: cos and sin are given per element
  bool interleaved = false;
  std::int64_t size = 0;  // rotated elements of a head; 0: all
};
Value* rotated(const Row& r, const Rotary& a);

}  // namespace gex::onnx
