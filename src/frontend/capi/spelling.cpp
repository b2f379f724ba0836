#include "frontend/capi/spelling.hpp"

#include <cctype>

namespace gex::capi {

std::string es_name(std::string_view op_name) {
  if (op_name == "constant") return "Const";
  std::string name;
  bool word_starts = true;
  for (char c : op_name) {
    if (c != '_')
      name += word_starts ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    word_starts = c == '_';
  }
  return name;
}

}  // namespace gex::capi
