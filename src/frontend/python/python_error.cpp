#include "frontend/python/python_error.hpp"

namespace gex::python {

namespace nb = nanobind;

std::string one_line(const nb::python_error& error) {
  std::string text = nb::cast<std::string>(error.type().attr("__name__"));
  const auto message = nb::cast<std::string>(nb::str(error.value()));
  if (!message.empty()) text += ": " + message;
  nb::object last;
  for (nb::object at = nb::borrow(error.traceback()); at.is_valid() && !at.is_none();
       at = at.attr("tb_next"))
    last = at;
  if (!last.is_valid()) return text;
  const nb::object file = last.attr("tb_frame").attr("f_code").attr("co_filename");
  return text + " (" + nb::cast<std::string>(file) + ":" +
         nb::cast<std::string>(nb::str(last.attr("tb_lineno"))) + ")";
}

}  // namespace gex::python
