#pragma once
// The device code of a program for one GPU architecture, as it is in a model file: images, and
// which kernel of which image each code and each group of merged launches runs.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "program/executable.hpp"

namespace gex::deploy {

std::string serialise_device_code(const program::Executable& executable);

// UserError(parse_error) if it is not the code of this program.
program::Executable parse_device_code(std::string_view bytes,
                                      std::shared_ptr<const program::Program> program);

// Whether `level` is the name of a GPU architecture: "sm_90".
bool is_architecture(std::string_view level);
// Whether a program for `target` ("cuda:0") can run images for this architecture here. True if
// there is no device to ask: opening it later says what is missing.
bool runs_on_device(std::string_view architecture, std::string_view target);

}  // namespace gex::deploy
