#pragma once
// The page that shows report models: one HTML file that needs nothing from outside.

#include <string>
#include <vector>

namespace gex::report {

// One model, or two to compare: the older first.
std::string html_page(const std::vector<std::string>& models);

}  // namespace gex::report
