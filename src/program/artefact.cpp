#include "program/artefact.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "program/bytes.hpp"

namespace gex::program {

namespace {

constexpr std::string_view kMagic = "GEXART\r\n";

std::uint64_t sum(std::string_view bytes) { return hash_text(bytes, kArtefactVersion); }

}  // namespace

const std::string& Artefact::section(std::string_view name) const {
  for (const Section& section : sections)
    if (section.name == name) return section.bytes;
  fail(ErrorCode::parse_error, "it has no section \"", name, "\"");
}

std::string write(const Artefact& artefact) {
  ByteWriter header;
  for (const std::string* field :
       {&artefact.kind, &artefact.key, &artefact.build, &artefact.target, &artefact.label})
    header.text(*field);
  header.u64(artefact.sections.size());
  for (const Artefact::Section& section : artefact.sections) {
    header.text(section.name);
    header.u64(section.bytes.size());
    header.u64(sum(section.bytes));
  }
  const std::string fields = header.take();
  ByteWriter out;
  out.raw(kMagic);
  out.u32(kArtefactVersion);
  out.u64(sum(fields));
  out.text(fields);
  for (const Artefact::Section& section : artefact.sections) out.raw(section.bytes);
  return out.take();
}

Artefact read_artefact(std::string_view bytes) {
  ByteReader reader(bytes);
  if (bytes.size() < kMagic.size() || reader.raw(kMagic.size()) != kMagic)
    fail(ErrorCode::parse_error, "it is not a file of gex");
  const std::uint32_t version = reader.u32();
  if (version != kArtefactVersion)
    fail(ErrorCode::parse_error, "it has format ", version, ", this gex reads ", kArtefactVersion);
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
    const std::string_view content = reader.raw(size);
    if (sum(content) != checksum)
      fail(ErrorCode::parse_error, "its section \"", name, "\" is damaged");
    artefact.sections.push_back({std::move(name), std::string(content)});
  }
  header.must_end();
  reader.must_end();
  return artefact;
}

void save(const Program& program, Artefact& artefact) {
  artefact.sections.push_back({"program", print(program, {.constant_data = false})});
  ByteWriter out;
  std::uint64_t constants = 0;
  for (const BufferDesc& buffer : program.buffers) constants += buffer.data != nullptr;
  out.u64(constants);
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    const TensorPtr& data = program.buffers[id].data;
    if (data == nullptr) continue;
    out.u64(id);
    out.text({reinterpret_cast<const char*>(data->data()), data->bytes()});
  }
  artefact.sections.push_back({"constants", out.take()});
}

Program load(const Artefact& artefact) {
  Program program = parse_program(artefact.section("program"));
  ByteReader constants(artefact.section("constants"));
  const std::size_t count = constants.count(16);
  std::size_t expected = 0;
  for (const BufferDesc& buffer : program.buffers) expected += buffer.data != nullptr;
  if (count != expected)
    fail(ErrorCode::parse_error, "it has ", count, " constants for ", expected, " buffers");
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t id = constants.u64();
    const std::string_view bytes = constants.raw(constants.u64());
    if (id >= program.buffers.size() || program.buffers[id].data == nullptr ||
        program.buffers[id].data->bytes() != bytes.size())
      fail(ErrorCode::parse_error, "constant ", i, " fits no buffer");
    const HostTensor& shape = *program.buffers[id].data;
    program.buffers[id].data = std::make_shared<const HostTensor>(
        HostTensor::from_bytes(shape.dtype(), shape.shape(), bytes.data()));
  }
  constants.must_end();
  return program;
}

}  // namespace gex::program
