#pragma once
// What every C function does at the boundary: exceptions become a status and a message, pointers
// are checked, strings and versioned structs are copied.

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/error.hpp"
#include "frontend/capi/tagged.hpp"
#include "gex/gex.h"

namespace gex::capi {

// Converts the current exception to a status; keeps its message for gex_last_error().
gex_status status_of_current_exception() noexcept;

// Keeps a message for gex_last_error() and returns the status.
gex_status remember(gex_status status, const char* message) noexcept;

template <class Body>
gex_status guarded(Body&& body) noexcept {
  try {
    body();
    return GEX_OK;
  } catch (...) {
    return status_of_current_exception();
  }
}

template <class T>
T& required(T* pointer, const char* what) {
  if (pointer == nullptr) fail(ErrorCode::invalid_argument, what, " is NULL");
  if constexpr (requires { std::remove_cv_t<T>::kTag; })
    check_tag(pointer, std::remove_cv_t<T>::kTag, what);
  return *pointer;
}

// Errors are logged, because functions that destroy return nothing.
void log_misuse(const char* function) noexcept;

// Null is allowed; a handle that is not a live one of this kind is ignored.
template <class T>
void destroy(T* handle, const char* function, const char* what) noexcept {
  if (handle == nullptr) return;
  try {
    delete &required(handle, what);
  } catch (...) {
    log_misuse(function);
  }
}

// A list given as pointer and length: NULL only if it is empty.
template <class T>
void require_list(const T* pointer, std::size_t count, const char* what) {
  if (pointer == nullptr && count != 0)
    fail(ErrorCode::invalid_argument, what, " is NULL but should have ", count, " elements");
}

// The caller's struct in the current layout: fields missing in an older struct keep their defaults;
// fields unknown to this library must be zero.
template <class T>
T read_versioned(const T* given, const T& defaults, std::size_t smallest, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t size = required(given, what).struct_size;
  constexpr std::size_t kLargest = 1 << 16;
  if (size < smallest || size > kLargest)
    fail(ErrorCode::invalid_argument, what, ".struct_size is ", size, ", expected ", sizeof(T),
         ": set it with sizeof or start from the INIT macro");
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t k = sizeof(T); k < size; ++k)
    if (bytes[k] != 0)
      fail(ErrorCode::unsupported, what, " has fields of a newer gex than this library ",
           gex_version());
  T result = defaults;
  std::memcpy(&result, given, std::min(size, sizeof(T)));
  return result;
}

void give_text(const std::string& text, char** place);

}  // namespace gex::capi
