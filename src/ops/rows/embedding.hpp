#pragma once
// Bags of embeddings, which the rows of indexing register.

namespace gex::ops {
void register_embedding_rows();
}
