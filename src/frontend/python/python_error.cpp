#include "frontend/python/python_error.hpp"

namespace gex::python {

namespace nb = nanobind;

namespace {

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

}  // namespace

std::string one_line(const nb::python_error& error) {
  std::string text = text_of(error.type().attr("__name__"));
  const std::string message = text_of(error.value());
  if (!message.empty()) text += ": " + message;
  nb::object last;
  for (nb::object at = error.traceback(); at.is_valid() && !at.is_none();
       at = nb::getattr(at, "tb_next"))
    last = at;
  if (!last.is_valid()) return text;
  return text + " (" + text_of(last.attr("tb_frame").attr("f_code").attr("co_filename")) + ":" +
         text_of(last.attr("tb_lineno")) + ")";
}

}  // namespace gex::python
