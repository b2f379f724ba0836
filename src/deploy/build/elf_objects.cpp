#include "deploy/build/elf_objects.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.hpp"

namespace gex::deploy {

namespace {

constexpr std::size_t kSectionAlignment = 64;

// Builds the image; each called function gets a slot with its address and a jump through the slot.
class Linker {
 public:
  CodeImage link(const codegen::KernelObjects& objects) {
    std::vector<std::uint64_t> functions;
    for (const std::string& object : objects.objects) functions.push_back(add(object));
    for (const auto& [name, slot] : slots_) image_.imports.push_back({slot, name});
    for (const auto& entry : objects.kernels)
      image_.kernels.push_back({functions[entry.object], entry.positions});
    return std::move(image_);
  }

 private:
  template <class T>
  T read(std::string_view object, std::uint64_t at) const {
    GEX_CHECK(at <= object.size() && sizeof(T) <= object.size() - at, "a truncated object");
    T value;
    std::memcpy(&value, object.data() + at, sizeof(T));
    return value;
  }

  void align(std::size_t alignment, char fill = '\0') {
    image_.bytes.resize((image_.bytes.size() + alignment - 1) / alignment * alignment, fill);
  }

  // Where the object's function is in the image.
  std::uint64_t add(std::string_view object) {
    const auto header = read<Elf64_Ehdr>(object, 0);
    GEX_CHECK(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == EM_X86_64,
              "not an object for x86-64");
    std::vector<Elf64_Shdr> sections;
    for (std::uint64_t k = 0; k < header.e_shnum; ++k)
      sections.push_back(read<Elf64_Shdr>(object, header.e_shoff + k * sizeof(Elf64_Shdr)));
    place(object, sections);
    for (const Elf64_Shdr& section : sections)
      if (section.sh_type == SHT_RELA && places_[section.sh_info] != kNowhere)
        relocate(object, sections, section);
    return function(object, sections);
  }

  void place(std::string_view object, const std::vector<Elf64_Shdr>& sections) {
    places_.assign(sections.size(), kNowhere);
    for (std::size_t k = 0; k < sections.size(); ++k) {
      const Elf64_Shdr& section = sections[k];
      // Unwind tables are not needed: kernels don't throw.
      if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_type == SHT_X86_64_UNWIND) continue;
      if (section.sh_type != SHT_PROGBITS || section.sh_size == 0) {
        GEX_CHECK(section.sh_size == 0, "a section of type ", section.sh_type);
        continue;
      }
      GEX_CHECK((section.sh_flags & SHF_WRITE) == 0, "machine code with variables");
      GEX_CHECK(section.sh_offset <= object.size() &&
                    section.sh_size <= object.size() - section.sh_offset,
                "a truncated object");
      align(std::max<std::size_t>(kSectionAlignment, section.sh_addralign));
      places_[k] = image_.bytes.size();
      image_.bytes += object.substr(section.sh_offset, section.sh_size);
    }
  }

  const Elf64_Shdr& symbol_table(const std::vector<Elf64_Shdr>& sections) const {
    const auto at = std::find_if(sections.begin(), sections.end(), [](const Elf64_Shdr& section) {
      return section.sh_type == SHT_SYMTAB;
    });
    GEX_CHECK(at != sections.end(), "an object without symbols");
    return *at;
  }

  std::string name_of(std::string_view object, const std::vector<Elf64_Shdr>& sections,
                      const Elf64_Sym& symbol) const {
    const Elf64_Shdr& names = sections[symbol_table(sections).sh_link];
    const std::string_view text = object.substr(names.sh_offset, names.sh_size);
    const std::string_view rest = text.substr(symbol.st_name);
    return std::string(rest.substr(0, rest.find('\0')));
  }

  std::uint64_t function(std::string_view object, const std::vector<Elf64_Shdr>& sections) const {
    const Elf64_Shdr& table = symbol_table(sections);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(object, table.sh_offset + at);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx < places_.size() &&
          name_of(object, sections, symbol) == codegen::KernelObjects::kFunction)
        return places_[symbol.st_shndx] + symbol.st_value;
    }
    GEX_CHECK(false, "an object without its function");
    return 0;
  }

  void relocate(std::string_view object, const std::vector<Elf64_Shdr>& sections,
                const Elf64_Shdr& relocations) {
    const std::uint64_t target = places_[relocations.sh_info];
    const Elf64_Shdr& table = symbol_table(sections);
    for (std::uint64_t at = 0; at < relocations.sh_size; at += sizeof(Elf64_Rela)) {
      const auto entry = read<Elf64_Rela>(object, relocations.sh_offset + at);
      const auto symbol =
          read<Elf64_Sym>(object, table.sh_offset + ELF64_R_SYM(entry.r_info) * sizeof(Elf64_Sym));
      const std::uint64_t place = target + entry.r_offset;
      write_relative(place,
                     value_of(object, sections, symbol, ELF64_R_TYPE(entry.r_info)) +
                         static_cast<std::uint64_t>(entry.r_addend),
                     ELF64_R_TYPE(entry.r_info));
    }
  }

  // The offset in the image that the relocation refers to.
  std::uint64_t value_of(std::string_view object, const std::vector<Elf64_Shdr>& sections,
                         const Elf64_Sym& symbol, std::uint64_t type) {
    if (symbol.st_shndx != SHN_UNDEF) {
      GEX_CHECK(symbol.st_shndx < places_.size() && places_[symbol.st_shndx] != kNowhere,
                "a symbol outside of all sections");
      GEX_CHECK(type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_PC64,
                "relocation ", type, " of a symbol of the object");
      return places_[symbol.st_shndx] + symbol.st_value;
    }
    const std::string name = name_of(object, sections, symbol);
    const bool by_slot =
        type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
    return by_slot ? slot(name) : jump(name);
  }

  void write_relative(std::uint64_t place, std::uint64_t value, std::uint64_t type) {
    const std::int64_t distance = static_cast<std::int64_t>(value - place);
    if (type == R_X86_64_PC64) {
      GEX_CHECK(place + 8 <= image_.bytes.size(), "a relocation outside of its section");
      std::memcpy(image_.bytes.data() + place, &distance, 8);
      return;
    }
    const auto narrow = static_cast<std::int32_t>(distance);
    GEX_CHECK(narrow == distance, "machine code of more than 2 GiB");
    GEX_CHECK(place + 4 <= image_.bytes.size(), "a relocation outside of its section");
    std::memcpy(image_.bytes.data() + place, &narrow, 4);
  }

  std::uint64_t slot(const std::string& name) {
    const auto known = slots_.find(name);
    if (known != slots_.end()) return known->second;
    if (!is_importable(name))
      fail(ErrorCode::unsupported, "the machine code calls the function ", name,
           ", which model files can't use; leave out the processor level that needs it");
    align(8);
    const std::uint64_t at = image_.bytes.size();
    image_.bytes.append(8, '\0');
    slots_.emplace(name, at);
    return at;
  }

  std::uint64_t jump(const std::string& name) {
    const auto known = jumps_.find(name);
    if (known != jumps_.end()) return known->second;
    const std::uint64_t address = slot(name);
    const std::uint64_t at = image_.bytes.size();
    image_.bytes += "\xff\x25";  // jmp *distance(%rip)
    image_.bytes.append(4, '\0');
    write_relative(at + 2, address - 4, R_X86_64_PC32);
    image_.bytes.append(2, '\x90');
    jumps_.emplace(name, at);
    return at;
  }

  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  CodeImage image_;
  std::vector<std::uint64_t> places_;  // of the sections of the current object
  std::map<std::string, std::uint64_t> slots_, jumps_;
};

}  // namespace

CodeImage link_objects(const codegen::KernelObjects& objects) { return Linker().link(objects); }

}  // namespace gex::deploy
