#pragma once

namespace gex::python {

// Lets gex share small launches with PyTorch's own threads (base/host_workers.hpp), through the C
// function that PyTorch promises to extensions; does nothing where that is missing.
void offer_torch_threads();

}  // namespace gex::python
