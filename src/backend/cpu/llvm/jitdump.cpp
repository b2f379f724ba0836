#include "backend/cpu/llvm/jitdump.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>

#include "backend/cpu/llvm/debug_lines.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace gex::codegen {
namespace {

// The format is perf's: tools/perf/Documentation/jitdump-specification.txt of Linux.
struct FileHeader {
  std::uint32_t magic = 0x4A695444;
  std::uint32_t version = 1;
  std::uint32_t bytes = sizeof(FileHeader);
  std::uint32_t machine = 0;
  std::uint32_t padding = 0;
  std::uint32_t process = 0;
  std::uint64_t time = 0;
  std::uint64_t flags = 0;
};

struct CodeLoaded {
  std::uint32_t kind = 0;  // JIT_CODE_LOAD
  std::uint32_t bytes = 0;
  std::uint64_t time = 0;
  std::uint32_t process = 0;
  std::uint32_t thread = 0;
  std::uint64_t address = 0;
  std::uint64_t code_address = 0;
  std::uint64_t code_bytes = 0;
  std::uint64_t number = 0;
};

struct LinesOfCode {
  std::uint32_t kind = 2;  // JIT_CODE_DEBUG_INFO
  std::uint32_t bytes = 0;
  std::uint64_t time = 0;
  std::uint64_t code_address = 0;
  std::uint64_t entries = 0;
};

struct LineEntry {  // the name of the file follows
  std::uint64_t address = 0;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// The clock of `perf record -k mono`.
std::uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

class JitDump {
 public:
  explicit JitDump(const std::string& folder) : process_(getpid()) {
    const std::string path = str(folder, "/jit-", process_, ".dump");
    file_ = open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    // perf sees the file in its own recording by this mapping.
    void* const mapped = file_ < 0 ? MAP_FAILED
                                   : mmap(nullptr, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
                                          PROT_READ | PROT_EXEC, MAP_PRIVATE, file_, 0);
    if (mapped == MAP_FAILED)
      log(LogArea::code, LogLevel::warning, "GEX_JITDUMP: ", path,
          " can't be written and mapped: ", std::strerror(errno), "; perf won't know kernels");
    usable_ = mapped != MAP_FAILED;
    FileHeader header;
#if defined(__aarch64__)
    header.machine = EM_AARCH64;
#else
    header.machine = EM_X86_64;
#endif
    header.process = static_cast<std::uint32_t>(process_);
    header.time = now();
    write(std::string(reinterpret_cast<const char*>(&header), sizeof header));
  }

  bool is_of_this_process() const { return process_ == getpid(); }

  void add(const NamedCode& function) {
    add_lines(function);
    CodeLoaded record;
    record.bytes =
        static_cast<std::uint32_t>(sizeof record + function.name.size() + 1 + function.bytes);
    record.time = now();
    record.process = static_cast<std::uint32_t>(process_);
    record.thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
    record.address = record.code_address = reinterpret_cast<std::uintptr_t>(function.address);
    record.code_bytes = function.bytes;
    record.number = next_++;
    std::string bytes(reinterpret_cast<const char*>(&record), sizeof record);
    bytes.append(function.name).push_back('\0');
    bytes.append(static_cast<const char*>(function.address), function.bytes);
    write(bytes);
  }

 private:
  // The record stands before that of the code.
  void add_lines(const NamedCode& function) {
    if (function.lines.starts.empty()) return;
    LinesOfCode record;
    record.time = now();
    record.code_address = reinterpret_cast<std::uintptr_t>(function.address);
    record.entries = function.lines.starts.size();
    std::string entries;
    for (const LineStart& start : function.lines.starts) {
      LineEntry entry;
      entry.address = record.code_address + start.offset;
      entry.line = start.line;
      entries.append(reinterpret_cast<const char*>(&entry), sizeof entry);
      entries.append(function.lines.file).push_back('\0');
    }
    record.bytes = static_cast<std::uint32_t>(sizeof record + entries.size());
    write(std::string(reinterpret_cast<const char*>(&record), sizeof record) + entries);
  }

  void write(std::string_view bytes) {
    while (usable_ && !bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        log(LogArea::code, LogLevel::warning, "GEX_JITDUMP: writing failed: ", std::strerror(errno),
            "; later kernels are missing");
        usable_ = false;
        return;
      }
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  pid_t process_;
  int file_ = -1;
  bool usable_ = false;
  std::uint64_t next_ = 0;
};

}  // namespace

void write_jitdump(std::span<const NamedCode> functions) {
  const std::string& folder = folder_of_lines();
  if (folder.empty()) return;
  static std::mutex mutex;
  static JitDump* file = nullptr;  // never closed: its mapping must stay as long as the process
  const std::lock_guard lock(mutex);
  if (file == nullptr || !file->is_of_this_process()) file = new JitDump(folder);
  for (const NamedCode& function : functions) file->add(function);
}

}  // namespace gex::codegen
