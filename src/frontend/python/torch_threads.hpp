#pragma once

namespace gex::python {

// Takes over the number of threads that torch.set_num_threads() has set since the last call; never
// more than the process may use. A few nanoseconds where nothing changed.
void follow_torch_threads();

}  // namespace gex::python
