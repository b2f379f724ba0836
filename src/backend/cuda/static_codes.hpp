#pragma once
// Static code for hot sizes on a GPU: the kernels of a Program with their sizes as constants. Their
// sums have the same order as those of the generic kernels, so they give the same bits. And kernels
// of the form that was measured to be the fastest, whose sums may have another order.

#include <memory>

#include "backend/cuda/kernel_text.hpp"
#include "backend/parsed_codes.hpp"
#include "program/specialiser.hpp"

namespace gex {
class Store;
}

namespace gex::backend::cuda {

class Tuner;

// `store`: keeps the machine code between processes; may be null. `tuner`: null where nothing is
// measured.
std::shared_ptr<program::Specialiser> static_codes(std::shared_ptr<const program::Program> program,
                                                   std::shared_ptr<const ParsedCodes> codes,
                                                   DeviceLimits limits,
                                                   std::shared_ptr<gex::Store> store,
                                                   std::unique_ptr<Tuner> tuner);

}  // namespace gex::backend::cuda
