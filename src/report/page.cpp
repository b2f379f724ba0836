#include "report/page.hpp"

#include <string_view>

#include "base/error.hpp"
#include "report/page_files.hpp"

namespace gex::report {

std::string html_page(const std::vector<std::string>& models) {
  GEX_CHECK(!models.empty(), "a page without a model");
  std::string data = "[";
  for (std::size_t k = 0; k < models.size(); ++k) data += (k ? ",\n" : "") + models[k];
  data += "]";
  // The text of the page has each marker once.
  std::string page(page_files::html());
  const auto put = [&](std::string_view marker, std::string_view content) {
    const std::size_t at = page.find(marker);
    GEX_CHECK(at != std::string::npos, "no ", marker, " in the page");
    page.replace(at, marker.size(), content);
  };
  put("/*STYLE*/", page_files::style());
  put("/*SCRIPT*/", page_files::script());
  put("/*DATA*/", data);
  return page;
}

}  // namespace gex::report
