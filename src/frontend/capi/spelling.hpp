#pragma once

#include <string>
#include <string_view>

namespace gex::capi {

// The name of an op in builders: "reduce_sum" is ReduceSum, "constant" is Const.
std::string es_name(std::string_view op_name);

}  // namespace gex::capi
