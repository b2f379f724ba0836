#pragma once
// Static code for hot sizes on a GPU: the kernels of a Program with their sizes as constants. Their
// sums have the same order as those of the generic kernels, so they give the same bits.

#include <memory>

#include "backend/cuda/kernel_text.hpp"
#include "backend/parsed_codes.hpp"
#include "program/specialiser.hpp"

namespace gex {
class Store;
}

namespace gex::backend::cuda {

// `store`: keeps the machine code between processes; may be null.
std::shared_ptr<program::Specialiser> static_codes(std::shared_ptr<const program::Program> program,
                                                   std::shared_ptr<const ParsedCodes> codes,
                                                   DeviceLimits limits,
                                                   std::shared_ptr<gex::Store> store);

}  // namespace gex::backend::cuda
