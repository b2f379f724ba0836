#pragma once
// Embedding bags, registered by the rows of indexing.

namespace gex::ops {
void register_embedding_rows();
}
