#include "deploy/build/update_model.hpp"

#include <set>

#include "base/error.hpp"
#include "deploy/build/save_model.hpp"
#include "deploy/signature.hpp"
#include "ir/type.hpp"
#include "program/bytes.hpp"
#include "program/program.hpp"

namespace gex::deploy {

namespace {

using program::BufferDesc;
using program::Program;

struct OpenModel {
  Metadata metadata;
  Program program;
  std::set<std::uint64_t> updatable;  // slots
};

std::set<std::uint64_t> updatable_slots(const Container& container, std::size_t model) {
  std::set<std::uint64_t> slots;
  const std::string name = section_name(model, kUpdatableSection);
  if (!container.has(name)) return slots;
  const std::string_view bytes = container.section(name);
  program::ByteReader in(bytes);
  for (std::size_t k = 0; k < bytes.size() / 8; ++k) slots.insert(in.u64());
  in.must_end();
  return slots;
}

std::vector<OpenModel> models_of(const Container& container) {
  std::vector<OpenModel> models;
  for (std::size_t k = 0; k < model_names(container).size(); ++k)
    models.push_back({parse_metadata(container.section(section_name(k, "meta"))),
                      program::parse_program(container.section(section_name(k, "program"))),
                      updatable_slots(container, k)});
  return models;
}

// The slot's weight, if the file allows it to be replaced; else null.
const BufferDesc* updatable(const OpenModel& model, std::size_t slot) {
  if (!model.updatable.contains(slot)) return nullptr;
  for (const BufferDesc& buffer : model.program.buffers)
    if (buffer.kind == BufferDesc::Kind::constant && buffer.alias_of < 0 &&
        buffer.slot == static_cast<int>(slot))
      return &buffer;
  return nullptr;
}

std::vector<std::int64_t> sizes_of(const BufferDesc& buffer) {
  std::vector<std::int64_t> sizes;
  for (const Dim size : buffer.shape) sizes.push_back(size.constant());
  return sizes;
}

std::string listed(const std::vector<UpdatableWeight>& weights) {
  std::string text;
  for (const UpdatableWeight& weight : weights)
    text += str(text.empty() ? "" : ", ", "\"", weight.name, "\"");
  return text.empty() ? "none: compile the model with --updatable" : text;
}

void check_fits(const std::string& name, const BufferDesc& buffer, const HostTensor& contents) {
  if (contents.dtype() == buffer.dtype && contents.shape() == sizes_of(buffer)) return;
  fail(ErrorCode::shape_mismatch, "weight \"", name, "\" is ",
       Type::tensor(buffer.dtype, buffer.shape), ", got ",
       Type::tensor(contents.dtype(), Shape(contents.shape().begin(), contents.shape().end())));
}

// Gives the places of all models new offsets: old weights once each, then the new ones.
class Layout {
 public:
  explicit Layout(std::string_view weights) : weights_(weights) {}

  void keep(WeightPlace& place) {
    const auto [at, is_new] = moved_.try_emplace({place.offset, place.bytes}, 0);
    if (is_new) at->second = add(weights_.substr(place.offset, place.bytes));
    place.offset = at->second;
  }
  void replace(WeightPlace& place, const HostTensor& contents) {
    const std::string_view bytes(reinterpret_cast<const char*>(contents.data()), contents.bytes());
    place.offset = add(bytes);
    place.bytes = bytes.size();
    place.checksum = checksum_of(bytes);
  }
  std::vector<Part> take() { return std::move(parts_); }

 private:
  std::uint64_t add(std::string_view bytes) {
    const std::uint64_t offset = size_;
    parts_.push_back({bytes, kAlignment});
    size_ = (size_ + bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }

  std::string_view weights_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> moved_;
  std::vector<Part> parts_;
  std::uint64_t size_ = 0;
};

}  // namespace

std::vector<UpdatableWeight> updatable_weights(const Container& container) {
  std::vector<UpdatableWeight> found;
  for (const OpenModel& model : models_of(container))
    for (std::size_t slot = 0; slot < model.metadata.weights.size(); ++slot)
      if (const BufferDesc* buffer = updatable(model, slot))
        found.push_back({model.metadata.name, model.metadata.weights[slot].name, buffer->dtype,
                         sizes_of(*buffer)});
  return found;
}

void update_weights(const std::string& from, const std::map<std::string, HostTensor>& contents,
                    const std::string& to, const std::string& key) {
  const OpenFile file = open_model_file(from);
  const Container container = Container::view(file.bytes);
  std::vector<OpenModel> models = models_of(container);
  const std::string_view weights =
      container.has(kWeightsSection) ? container.section(kWeightsSection) : std::string_view();
  Layout layout(weights);
  std::set<std::string> replaced;
  for (OpenModel& model : models)
    for (std::size_t slot = 0; slot < model.metadata.weights.size(); ++slot) {
      WeightPlace& place = model.metadata.weights[slot];
      if (place.offset > weights.size() || place.bytes > weights.size() - place.offset)
        fail(ErrorCode::parse_error, "a weight lies outside of the section of the weights");
      const BufferDesc* buffer = updatable(model, slot);
      const auto given = contents.find(place.name);
      if (buffer == nullptr || given == contents.end()) {
        layout.keep(place);
        continue;
      }
      check_fits(place.name, *buffer, given->second);
      layout.replace(place, given->second);
      replaced.insert(place.name);
    }
  for (const auto& [name, tensor] : contents)
    if (!replaced.contains(name))
      fail(ErrorCode::not_found, "'", from, "' has no weight \"", name,
           "\" that can be replaced; there are: ", listed(updatable_weights(container)));
  std::vector<std::pair<std::string, std::string>> sections;
  std::vector<Metadata> metadata;
  for (const OpenModel& model : models) metadata.push_back(model.metadata);
  for (const Section& section : container.sections()) {
    if (section.name == kWeightsSection || section.name == kSignatureSection) continue;
    sections.emplace_back(section.name, container.section(section.name));
  }
  for (std::size_t k = 0; k < metadata.size(); ++k)
    for (auto& [name, bytes] : sections)
      if (name == section_name(k, "meta")) bytes = serialise(metadata[k]);
  write_model_file(std::move(sections), metadata, layout.take(), key, to);
}

}  // namespace gex::deploy
