#include "backend/cpu/llvm/code_names.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "backend/cpu/llvm/jitdump.hpp"
#include "backend/cpu/llvm/line_tables.hpp"

// gdb's JIT interface: it reads the list and sets a breakpoint on the function. The names and the
// layout are gdb's. They are protected so that they are not those of an LLVM in the same process.
extern "C" {

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};

struct jit_descriptor {
  std::uint32_t version;
  std::uint32_t action_flag;
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

__attribute__((visibility("protected"))) jit_descriptor __jit_debug_descriptor = {1, 0, nullptr,
                                                                                  nullptr};

__attribute__((visibility("protected"), noinline, used)) void __jit_debug_register_code() {
  __asm__ volatile("" ::: "memory");
}
}

namespace gex::codegen {
namespace {

constexpr std::uint32_t kRegister = 1, kUnregister = 2;
constexpr int kMachine =
#if defined(__aarch64__)
    EM_AARCH64;
#else
    EM_X86_64;
#endif

// A table of strings of an ELF file; returns where each begins.
class Strings {
 public:
  std::uint32_t add(std::string_view text) {
    const auto at = static_cast<std::uint32_t>(bytes_.size());
    bytes_.append(text).push_back('\0');
    return at;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
};

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Sections of the file; .text has no contents: it says where the code is.
enum Section : std::uint16_t {
  none,
  text,
  symbols,
  strings,
  section_names,
  abbreviations,
  info,
  lines,
  number_of_sections
};

Elf64_Shdr contents(std::uint32_t name, std::uint32_t type, std::size_t offset, std::size_t bytes) {
  Elf64_Shdr header{};
  header.sh_name = name;
  header.sh_type = type;
  header.sh_offset = offset;
  header.sh_size = bytes;
  header.sh_addralign = 1;
  return header;
}

Elf64_Ehdr file_header() {
  Elf64_Ehdr file{};
  std::memcpy(file.e_ident, ELFMAG, SELFMAG);
  file.e_ident[EI_CLASS] = ELFCLASS64;
  file.e_ident[EI_DATA] = ELFDATA2LSB;
  file.e_ident[EI_VERSION] = EV_CURRENT;
  file.e_type = ET_REL;
  file.e_machine = kMachine;
  file.e_version = EV_CURRENT;
  file.e_ehsize = sizeof file;
  file.e_shentsize = sizeof(Elf64_Shdr);
  file.e_shstrndx = section_names;
  return file;
}

// An ELF file with nothing but symbols and, where they are known, lines.
std::string symbol_file(std::span<const NamedCode> functions) {
  std::uintptr_t first = UINTPTR_MAX, last = 0;
  for (const NamedCode& function : functions) {
    const auto at = reinterpret_cast<std::uintptr_t>(function.address);
    first = std::min(first, at);
    last = std::max(last, at + function.bytes);
  }
  Strings names, sections;
  std::string table(sizeof(Elf64_Sym), '\0');  // symbol 0 is the null symbol
  for (const NamedCode& function : functions) {
    Elf64_Sym symbol{};
    symbol.st_name = names.add(function.name);
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = Section::text;
    symbol.st_value = reinterpret_cast<std::uintptr_t>(function.address) - first;
    symbol.st_size = function.bytes;
    append(table, symbol);
  }
  std::string body;  // what follows the file's header
  Elf64_Shdr headers[number_of_sections] = {};
  const auto add = [&](Section section, const char* name, std::uint32_t type,
                       const std::string& bytes) {
    headers[section] =
        contents(sections.add(name), type, sizeof(Elf64_Ehdr) + body.size(), bytes.size());
    body += bytes;
  };
  add(text, ".text", SHT_NOBITS, "");
  headers[text].sh_size = last - first;
  headers[text].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  headers[text].sh_addr = first;
  add(symbols, ".symtab", SHT_SYMTAB, table);
  headers[symbols].sh_link = strings;
  headers[symbols].sh_info = 1;  // the first global symbol
  headers[symbols].sh_entsize = sizeof(Elf64_Sym);
  headers[symbols].sh_addralign = alignof(Elf64_Sym);
  add(strings, ".strtab", SHT_STRTAB, names.bytes());
  const LineTables tables = line_tables(functions);
  const bool has_lines = !tables.info.empty();
  if (has_lines) {
    add(abbreviations, ".debug_abbrev", SHT_PROGBITS, tables.abbreviations);
    add(info, ".debug_info", SHT_PROGBITS, tables.info);
    add(lines, ".debug_line", SHT_PROGBITS, tables.lines);
  }
  const std::uint32_t own_name = sections.add(".shstrtab");
  headers[section_names] =
      contents(own_name, SHT_STRTAB, sizeof(Elf64_Ehdr) + body.size(), sections.bytes().size());
  body += sections.bytes();

  Elf64_Ehdr file = file_header();
  file.e_shoff = sizeof file + body.size();
  file.e_shnum = has_lines ? number_of_sections : abbreviations;
  std::string out;
  append(out, file);
  out += body;
  out.append(reinterpret_cast<const char*>(headers), file.e_shnum * sizeof headers[0]);
  return out;
}

std::mutex& list_mutex() {
  static auto* const mutex = new std::mutex;  // code may be freed after static destructors
  return *mutex;
}

// In gdb's list while it lives.
class Listed {
 public:
  explicit Listed(std::string file) : file_(std::move(file)) {
    entry_.symfile_addr = file_.data();
    entry_.symfile_size = file_.size();
    const std::lock_guard lock(list_mutex());
    entry_.next_entry = __jit_debug_descriptor.first_entry;
    if (entry_.next_entry != nullptr) entry_.next_entry->prev_entry = &entry_;
    __jit_debug_descriptor.first_entry = &entry_;
    tell(kRegister);
  }
  ~Listed() {
    const std::lock_guard lock(list_mutex());
    if (entry_.next_entry != nullptr) entry_.next_entry->prev_entry = entry_.prev_entry;
    (entry_.prev_entry != nullptr ? entry_.prev_entry->next_entry
                                  : __jit_debug_descriptor.first_entry) = entry_.next_entry;
    tell(kUnregister);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  void tell(std::uint32_t what) {
    __jit_debug_descriptor.action_flag = what;
    __jit_debug_descriptor.relevant_entry = &entry_;
    __jit_debug_register_code();
  }

  std::string file_;
  jit_code_entry entry_{};
};

}  // namespace

std::shared_ptr<const void> announce_code(std::span<const NamedCode> functions) {
  if (functions.empty()) return nullptr;
  write_jitdump(functions);
  return std::make_shared<const Listed>(symbol_file(functions));
}

}  // namespace gex::codegen
