#pragma once
// Helpers that write JSON text.

#include <string>
#include <utility>
#include <vector>

namespace gex::tool {

std::string json_text(const std::string& text);  // in quotes
std::string json_texts(const std::vector<std::string>& texts);
// The shortest text that gives the number back; "nan", "inf" and "-inf" in quotes.
std::string json_number(double number);
std::string json_number(float number);
std::string json_list(const std::vector<std::string>& items);
std::string json_object(const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace gex::tool
