#include "frontend/capi/boundary.hpp"

#include <cstdlib>
#include <new>

#include "base/log.hpp"
#include "base/version.hpp"
#include "frontend/capi/async.hpp"
#include "runtime/session/run_control.hpp"

namespace gex::capi {
namespace {

thread_local std::string last_error;
// Fallback if the message itself can't be stored.
thread_local const char* last_error_text = "";

// The numbers of the C interface are those of ErrorCode, after GEX_OK.
constexpr gex_status status_of(ErrorCode code) { return static_cast<gex_status>(code) + 1; }
static_assert(status_of(ErrorCode::invalid_argument) == GEX_INVALID_ARGUMENT);
static_assert(status_of(ErrorCode::shape_mismatch) == GEX_SHAPE_MISMATCH);
static_assert(status_of(ErrorCode::type_mismatch) == GEX_TYPE_MISMATCH);
static_assert(status_of(ErrorCode::parse_error) == GEX_PARSE_ERROR);
static_assert(status_of(ErrorCode::unsupported) == GEX_UNSUPPORTED);
static_assert(status_of(ErrorCode::not_found) == GEX_NOT_FOUND);
static_assert(status_of(ErrorCode::out_of_memory) == GEX_OUT_OF_MEMORY);
static_assert(status_of(ErrorCode::io_error) == GEX_IO_ERROR);
static_assert(status_of(ErrorCode::invalid_graph) == GEX_INVALID_GRAPH);
static_assert(status_of(ErrorCode::device_error) == GEX_DEVICE_ERROR);
static_assert(status_of(ErrorCode::internal) == GEX_INTERNAL);

}  // namespace

gex_status remember(gex_status status, const char* message) noexcept {
  try {
    last_error = message;
    last_error_text = last_error.c_str();
  } catch (const std::bad_alloc&) {
    last_error_text = "out of memory (while storing the message)";
  }
  return status;
}

gex_status status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const runtime::RunStopped& stopped) {
    const bool cancelled = stopped.why() == runtime::RunStopped::Why::cancelled;
    return remember(cancelled ? GEX_CANCELLED : GEX_DEADLINE, stopped.what());
  } catch (const AsyncQueueFull& full) {
    return remember(GEX_BUSY, full.what());
  } catch (const Error& error) {
    return remember(status_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return remember(GEX_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return remember(GEX_OUT_OF_MEMORY, "out of memory: more elements than memory can hold");
  } catch (const std::exception& error) {
    return remember(GEX_INTERNAL, error.what());
  } catch (...) {
    return remember(GEX_INTERNAL, "an exception of unknown type");
  }
}

void log_misuse(const char* function) noexcept {
  status_of_current_exception();
  log(LogArea::run, LogLevel::error, function, ": ", gex_last_error(), "; nothing was destroyed");
}

void give_text(const std::string& text, char** place) {
  required(place, "text");
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *place = copy;
}

}  // namespace gex::capi

extern "C" {

uint32_t gex_abi_version(void) { return GEX_ABI_VERSION; }
const char* gex_version(void) { return gex::version(); }
const char* gex_last_error(void) { return gex::capi::last_error_text; }
void gex_text_free(char* text) { std::free(text); }

gex_status gex_fail(gex_status status, const char* message) {
  return gex::capi::remember(status, message == nullptr ? "" : message);
}

const char* gex_status_name(gex_status status) {
  if (status == GEX_OK) return "ok";
  if (status == GEX_CANCELLED) return "cancelled";
  if (status == GEX_DEADLINE) return "deadline";
  if (status == GEX_BUSY) return "busy";
  if (status < GEX_OK || status > GEX_INTERNAL) return "unknown status";
  return gex::to_string(static_cast<gex::ErrorCode>(status - 1));
}

}  // extern "C"
