#include "base/build_id.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

#include "base/error.hpp"

namespace gex {

namespace {

struct Search {
  std::uintptr_t address;
  std::string id;
};

std::string hex_of(const std::uint8_t* bytes, std::size_t size) {
  static const char* digits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < size; ++i) {
    out += digits[bytes[i] >> 4];
    out += digits[bytes[i] & 15];
  }
  return out;
}

std::string id_in_notes(const std::uint8_t* notes, std::size_t size) {
  const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof header);
    const std::size_t name_end = sizeof header + padded(header.n_namesz);
    const std::size_t end = name_end + padded(header.n_descsz);
    if (end > size) return "";
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(notes + sizeof header, "GNU", 4) == 0)
      return hex_of(notes + name_end, header.n_descsz);
    notes += end;
    size -= end;
  }
  return "";
}

int look_into(dl_phdr_info* library, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool holds = false;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    const std::uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    holds = holds || (segment.p_type == PT_LOAD && search.address >= begin &&
                      search.address < begin + segment.p_memsz);
  }
  if (!holds) return 0;
  for (int i = 0; i < library->dlpi_phnum && search.id.empty(); ++i) {
    const auto& segment = library->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      search.id =
          id_in_notes(reinterpret_cast<const std::uint8_t*>(library->dlpi_addr + segment.p_vaddr),
                      segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id_at(const void* address) {
  Search search{reinterpret_cast<std::uintptr_t>(address), ""};
  dl_iterate_phdr(look_into, &search);
  if (!search.id.empty()) return search.id;
  Dl_info info;
  struct stat file{};
  GEX_CHECK(dladdr(address, &info) != 0 && stat(info.dli_fname, &file) == 0,
            "address is not in a loaded file");
  return str(info.dli_fname, " ", file.st_mtim.tv_sec, ".", file.st_mtim.tv_nsec, " ",
             file.st_size);
}

}  // namespace gex
