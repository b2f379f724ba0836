#pragma once

namespace gex::python {

// Adopts the number of threads that torch.set_num_threads() has set since the last call; never more
// than the process may use. A few nanoseconds if nothing changed.
void follow_torch_threads();

}  // namespace gex::python
