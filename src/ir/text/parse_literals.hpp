#pragma once
// The parts of the text form that are not graphs: sizes, types and attribute values.

#include <map>
#include <string>

#include "base/text/lexer.hpp"
#include "ir/attrs.hpp"
#include "ir/type.hpp"

namespace gex {

using SymbolTable = std::map<std::string, Dim, std::less<>>;

Dim parse_dim(Lexer& lexer, const SymbolTable& symbols);
Type parse_type(Lexer& lexer, const SymbolTable& symbols);
// A value of the same type as `like`.
AttrValue parse_attr(Lexer& lexer, const SymbolTable& symbols, const AttrValue& like);

}  // namespace gex
