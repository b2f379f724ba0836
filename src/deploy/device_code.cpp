#include "deploy/device_code.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <unordered_map>

#include "base/error.hpp"
#include "nvidia/device.hpp"
#include "program/bytes.hpp"
#include "target/target.hpp"

namespace gex::deploy {

namespace {

using program::ByteReader;
using program::ByteWriter;
using program::DeviceCode;
using program::Executable;
using program::Launch;
using program::Program;
using Image = std::shared_ptr<const std::string>;

constexpr std::uint32_t kNoImage = 0xffffffff;
constexpr std::string_view kArchitecture = "sm_";

std::vector<const Launch*> all_launches(const Program& program) {
  std::vector<const Launch*> launches;
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      if (const auto* launch = std::get_if<Launch>(&step.op)) launches.push_back(launch);
  return launches;
}

// Images in the order in which codes refer to them, each once.
class ImageTable {
 public:
  std::uint32_t number_of(const Image& image) {
    if (image == nullptr) return kNoImage;
    const auto [at, is_new] =
        numbers_.try_emplace(*image, static_cast<std::uint32_t>(images_.size()));
    if (is_new) images_.push_back(image);
    return at->second;
  }
  const std::vector<Image>& images() const { return images_; }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<Image> images_;
};

void write(const DeviceCode& code, ImageTable& images, ByteWriter& out) {
  out.u32(images.number_of(code.image));
  out.text(code.entry);
  out.u8(code.only_merged ? 1 : 0);
  out.u8(code.waits ? 1 : 0);
  out.u32(static_cast<std::uint32_t>(code.blocks));
  out.u32(static_cast<std::uint32_t>(code.threads));
  out.i64(code.shared_bytes);
}

Image image_of(std::uint32_t number, const std::vector<Image>& images) {
  if (number == kNoImage) return nullptr;
  if (number >= images.size())
    fail(ErrorCode::parse_error, "its device code refers to image ", number, " of ", images.size());
  return images[number];
}

DeviceCode read(ByteReader& in, const std::vector<Image>& images) {
  DeviceCode code;
  code.image = image_of(in.u32(), images);
  code.entry = in.text();
  code.only_merged = in.u8() != 0;
  code.waits = in.u8() != 0;
  code.blocks = static_cast<int>(in.u32());
  code.threads = static_cast<int>(in.u32());
  code.shared_bytes = in.i64();
  if (code.blocks < 0 || code.threads < 0 || code.shared_bytes < 0)
    fail(ErrorCode::parse_error,
         "its device code has a kernel of fewer than 0 blocks, threads or bytes");
  return code;
}

constexpr std::uint64_t kLeastCodeBytes = 4 + 8 + 1 + 1 + 4 + 4 + 8;

}  // namespace

std::string serialise_device_code(const Executable& executable) {
  ImageTable images;
  ByteWriter codes;
  codes.u64(executable.device_codes.size());
  for (const DeviceCode& code : executable.device_codes) write(code, images, codes);
  const std::vector<const Launch*> launches = all_launches(*executable.program);
  codes.u64(executable.merged.size());
  for (std::size_t k = 0; k < launches.size(); ++k) {
    const auto at = executable.merged.find(launches[k]);
    if (at == executable.merged.end()) continue;
    codes.u64(k);
    write(at->second, images, codes);
  }
  codes.u32(images.number_of(executable.step_image));
  ByteWriter out;
  out.u64(images.images().size());
  for (const Image& image : images.images()) out.text(*image);
  out.raw(codes.take());
  return out.take();
}

Executable parse_device_code(std::string_view bytes, std::shared_ptr<const Program> program) {
  ByteReader in(bytes);
  std::vector<Image> images(in.count(8));
  for (Image& image : images) {
    // The driver reads an image up to the end that its own headers state.
    image = std::make_shared<const std::string>(in.text());
    if (image->empty()) fail(ErrorCode::parse_error, "its device code has an empty image");
  }
  Executable executable;
  executable.device_codes.resize(in.count(kLeastCodeBytes));
  if (executable.device_codes.size() != program->codes.size())
    fail(ErrorCode::parse_error, "it has device code for ", executable.device_codes.size(),
         " codes, but ", program->codes.size(), " codes");
  for (DeviceCode& code : executable.device_codes) code = read(in, images);
  const std::vector<const Launch*> launches = all_launches(*program);
  for (std::size_t left = in.count(8 + kLeastCodeBytes); left > 0; --left) {
    const std::uint64_t launch = in.u64();
    if (launch >= launches.size())
      fail(ErrorCode::parse_error, "its device code refers to launch ", launch, " of ",
           launches.size());
    DeviceCode code = read(in, images);
    if (code.image == nullptr)
      fail(ErrorCode::parse_error, "its merged launch ", launch, " has no image");
    executable.merged[launches[launch]] = std::move(code);
  }
  executable.step_image = image_of(in.u32(), images);
  in.must_end();
  executable.program = std::move(program);
  return executable;
}

bool is_architecture(std::string_view level) {
  if (!level.starts_with(kArchitecture)) return false;
  const std::string_view digits = level.substr(kArchitecture.size());
  return digits.size() >= 2 && digits.size() <= 3 &&
         std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool runs_on_device(std::string_view architecture, std::string_view target) {
  const auto device = nvidia::device_properties(parse_target(target).device);
  if (!device) return nvidia::device_count() == 0;
  const std::string_view digits = architecture.substr(kArchitecture.size());
  // An image runs on devices of its generation that are not older: all but the last digit equal.
  return digits.substr(0, digits.size() - 1) == str(device->major) &&
         digits.back() - '0' <= device->minor;
}

}  // namespace gex::deploy
