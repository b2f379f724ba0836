#pragma once

namespace gex::python {

// Lets gex share small launches with PyTorch's own threads (base/host_workers.hpp), through the C
// function that PyTorch promises to extensions; does nothing where that is missing.
void offer_torch_threads();

// Takes over the number of threads that torch.set_num_threads() has set since the last call; never
// more than the process may use. A few nanoseconds where nothing changed.
void follow_torch_threads();

}  // namespace gex::python
