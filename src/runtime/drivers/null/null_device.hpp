#pragma once
// Runs no work: addresses are made up and never dereferenced. Instead it checks the work: every
// access lies in its block, and nothing reads a temporary whose memory another value has
// overwritten.

#include <atomic>
#include <cstdint>

#include "runtime/device.hpp"

namespace gex::runtime {

class NullQueue final : public Queue {
 public:
  using Queue::Queue;
  bool read(void*, const void*, std::size_t) override { return false; }
  void reset() noexcept override { written_.clear(); }

  void wrote(program::BufferId root, std::uint64_t begin, std::uint64_t end);
  // The buffer other than `root` that last wrote a byte of the range, or -1.
  program::BufferId taken_over(program::BufferId root, std::uint64_t begin,
                               std::uint64_t end) const;

 private:
  struct WrittenRange {
    std::uint64_t begin, end;
    program::BufferId root;
  };
  std::vector<WrittenRange> written_;  // the last writer of each range; ranges never overlap
};

class NullDevice : public Device {
 public:
  std::string_view name() const override { return "null"; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void*, std::size_t) noexcept override {}
  void write(void*, const void*, std::size_t) override {}
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<NullQueue>(*this); }
  std::unique_ptr<Loaded> load(const program::Executable& executable) override;
  std::unique_ptr<Recorder> make_recorder(const Image& image, Loaded& loaded,
                                          std::span<const std::int64_t> gear) override;

 private:
  std::atomic<std::uint64_t> next_{std::uint64_t{1} << 46};  // above all user-space addresses
};

}  // namespace gex::runtime
