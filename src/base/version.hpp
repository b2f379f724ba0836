#pragma once

namespace gex {

const char* version();  // of this library: "0.1.0"

}  // namespace gex
