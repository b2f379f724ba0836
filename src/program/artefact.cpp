#include "program/artefact.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "program/bytes.hpp"

namespace gex::program {

namespace {

constexpr std::size_t kAlignment = 64;  // of sections, so that a mapped file can be used in place

std::uint64_t sum(std::string_view bytes) { return hash_text(bytes, kArtefactVersion); }

std::size_t padding_at(std::size_t position) {
  return (kAlignment - position % kAlignment) % kAlignment;
}

std::string constant_name(std::size_t buffer) { return str("constant ", buffer); }

}  // namespace

std::string_view Artefact::section(std::string_view name) const {
  for (const Section& section : sections)
    if (section.name == name) return section.content();
  fail(ErrorCode::parse_error, "it has no section \"", name, "\"");
}

void write(const Artefact& artefact, const std::function<void(std::string_view)>& sink) {
  ByteWriter header;
  for (const std::string* field :
       {&artefact.kind, &artefact.key, &artefact.build, &artefact.target, &artefact.label})
    header.text(*field);
  header.u64(artefact.sections.size());
  for (const Artefact::Section& section : artefact.sections) {
    header.text(section.name);
    header.u64(section.content().size());
    header.u64(sum(section.content()));
  }
  const std::string fields = header.take();
  ByteWriter start;
  start.raw(kArtefactMagic);
  start.u32(kArtefactVersion);
  start.u64(sum(fields));
  start.text(fields);
  const std::string first = start.take();
  sink(first);
  std::size_t at = first.size();
  for (const Artefact::Section& section : artefact.sections) {
    const std::string padding(padding_at(at), '\0');
    sink(padding);
    sink(section.content());
    at += padding.size() + section.content().size();
  }
}

std::string write(const Artefact& artefact) {
  std::string out;
  write(artefact, [&](std::string_view bytes) { out += bytes; });
  return out;
}

Artefact view_artefact(std::string_view bytes) {
  ByteReader reader(bytes);
  if (bytes.size() < kArtefactMagic.size() || reader.raw(kArtefactMagic.size()) != kArtefactMagic)
    fail(ErrorCode::parse_error, "it is not a file of gex");
  const std::uint32_t version = reader.u32();
  if (version != kArtefactVersion)
    fail(ErrorCode::parse_error, "it has format version ", version, ", this gex reads version ",
         kArtefactVersion);
  const std::uint64_t expected = reader.u64();
  const std::string_view fields = reader.raw(reader.u64());
  if (sum(fields) != expected) fail(ErrorCode::parse_error, "its header is damaged");
  ByteReader header(fields);
  Artefact artefact;
  for (std::string* field :
       {&artefact.kind, &artefact.key, &artefact.build, &artefact.target, &artefact.label})
    *field = header.text();
  const std::size_t sections = header.count(8 * 3);
  for (std::size_t i = 0; i < sections; ++i) {
    std::string name = header.text();
    const std::uint64_t size = header.u64();
    const std::uint64_t checksum = header.u64();
    for (char byte : reader.raw(padding_at(bytes.size() - reader.left())))
      if (byte != 0) fail(ErrorCode::parse_error, "it is damaged before section \"", name, "\"");
    const std::string_view content = reader.raw(size);
    if (sum(content) != checksum)
      fail(ErrorCode::parse_error, "its section \"", name, "\" is damaged");
    artefact.sections.push_back({std::move(name), {}, content});
  }
  header.must_end();
  reader.must_end();
  return artefact;
}

Artefact read_artefact(std::string_view bytes) {
  Artefact artefact = view_artefact(bytes);
  for (Artefact::Section& section : artefact.sections) {
    section.bytes = section.content();
    section.borrowed = {};
  }
  return artefact;
}

void save(const Program& program, Artefact& artefact) {
  artefact.sections.push_back({"program", print(program, {.constant_data = false})});
  for (std::size_t id = 0; id < program.buffers.size(); ++id)
    if (const TensorPtr& data = program.buffers[id].data)
      artefact.sections.push_back(
          {constant_name(id),
           {},
           {data->bytes() != 0 ? reinterpret_cast<const char*>(data->data()) : "", data->bytes()}});
}

Program load(const Artefact& artefact) {
  Program program = parse_program(artefact.section("program"));
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    TensorPtr& data = program.buffers[id].data;
    if (data == nullptr) continue;
    const std::string_view bytes = artefact.section(constant_name(id));
    if (data->bytes() != bytes.size())
      fail(ErrorCode::parse_error, "constant ", id, " has ", bytes.size(),
           " bytes, but its buffer has ", data->bytes());
    const DType dtype = data->dtype();
    const std::vector<std::int64_t> shape = data->shape();
    data.reset();  // the zeros that the text stood for are no longer needed
    data = std::make_shared<const HostTensor>(HostTensor::from_bytes(dtype, shape, bytes.data()));
  }
  return program;
}

}  // namespace gex::program
