#pragma once
// The files of page/, embedded into the library by the build (page/embed.cmake).

#include <string_view>

namespace gex::report::page_files {

std::string_view html();
std::string_view style();   // page.css
std::string_view script();  // all .js files, in the order of their names

}  // namespace gex::report::page_files
