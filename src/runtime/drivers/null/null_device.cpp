#include "runtime/drivers/null/null_device.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "runtime/session/image.hpp"

namespace gex::runtime {

using program::BufferDesc;
using program::BufferId;

namespace {

class NullRecording final : public Recording {
 public:
  struct Access {
    BufferId buffer;
    int word;
    bool write;
    int bytes_word = -1;  // -1: the whole buffer
  };
  struct Op {
    std::string name;
    std::vector<Access> accesses;
    int grid_word = -1;   // launches
    int bytes_word = -1;  // copies
  };

  explicit NullRecording(const Image& image) : image_(image) {}

  void replay(Queue& queue, const Replay& replay) override {
    auto& null = static_cast<NullQueue&>(queue);
    for (const Op& op : ops) {
      if (op.grid_word >= 0) {
        if (replay.block[op.grid_word] <= 0) continue;
        ++replay.tally->launches;
      }
      if (op.bytes_word >= 0)
        replay.tally->bytes_copied += std::max<std::int64_t>(0, replay.block[op.bytes_word]);
      for (const Access& access : op.accesses)
        if (!access.write) check(op, access, null, replay);
      for (const Access& access : op.accesses)
        if (access.write) check(op, access, null, replay);
    }
  }

  std::vector<Op> ops;

 private:
  void check(const Op& op, const Access& access, NullQueue& queue, const Replay& replay) const {
    const auto id = static_cast<std::size_t>(access.buffer);
    const BufferId root = image_.root[id];
    const BufferDesc& desc = image_.program->buffers[static_cast<std::size_t>(root)];
    const std::int64_t bytes = access.bytes_word >= 0
                                   ? replay.block[access.bytes_word]
                                   : replay.values[static_cast<std::size_t>(image_.bytes_slot[id])];
    if (bytes <= 0) return;
    const auto begin = static_cast<std::uint64_t>(replay.block[access.word]);
    GEX_CHECK(begin != 0, op.name, ": buffer %", access.buffer, " has no address");
    if (desc.kind != BufferDesc::Kind::temp) return;
    GEX_CHECK(begin % size_of(image_.program->buffers[id].dtype) == 0, op.name, ": buffer %",
              access.buffer, " is misaligned");
    const std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
    if (access.write) {
      queue.wrote(root, begin, end);
      return;
    }
    const BufferId owner = queue.taken_over(root, begin, end);
    GEX_CHECK(owner < 0, op.name, " reads %", access.buffer, " after its memory was reused by %",
              owner, ": the memory plan is wrong");
  }

  const Image& image_;
};

class NullRecorder final : public Recorder {
 public:
  explicit NullRecorder(const Image& image) : recording_(std::make_unique<NullRecording>(image)) {}

  void launch(const LaunchOp& op) override {
    NullRecording::Op out;
    out.name = op.launch->name;
    for (std::size_t i = 0; i < op.launch->buffers.size(); ++i)
      out.accesses.push_back(
          {op.launch->buffers[i], op.word + static_cast<int>(i), op.launch->writes[i]});
    out.grid_word = op.grid_word();
    recording_->ops.push_back(std::move(out));
  }
  void copy(const CopyOp& op) override {
    NullRecording::Op out;
    out.name = "copy";
    out.accesses = {{op.copy->dst, op.word, true, op.word + 2},
                    {op.copy->src, op.word + 1, false, op.word + 2}};
    out.bytes_word = op.word + 2;
    recording_->ops.push_back(std::move(out));
  }
  void fill(const FillOp& op) override {
    NullRecording::Op out;
    out.name = "fill";
    out.accesses = {{op.fill->dst, op.word, true, op.word + 1}};
    recording_->ops.push_back(std::move(out));
  }
  std::unique_ptr<Recording> finish() override { return std::move(recording_); }

 private:
  std::unique_ptr<NullRecording> recording_;
};

}  // namespace

void NullQueue::wrote(BufferId root, std::uint64_t begin, std::uint64_t end) {
  const std::size_t count = written_.size();
  for (std::size_t i = 0; i < count; ++i) {
    WrittenRange& range = written_[i];
    if (range.end <= begin || range.begin >= end) continue;
    const WrittenRange tail{end, range.end, range.root};
    range.end = std::max(range.begin, begin);
    if (tail.begin < tail.end) {
      if (range.begin < range.end) {
        written_.push_back(tail);
      } else {
        range = tail;
      }
    }
  }
  std::erase_if(written_, [](const WrittenRange& range) { return range.begin >= range.end; });
  written_.push_back({begin, end, root});
}

BufferId NullQueue::taken_over(BufferId root, std::uint64_t begin, std::uint64_t end) const {
  for (const WrittenRange& range : written_)
    if (range.root != root && range.begin < end && begin < range.end) return range.root;
  return -1;
}

void* NullDevice::allocate(std::size_t bytes) {
  const std::uint64_t rounded = (std::uint64_t{bytes} + 4095) / 4096 * 4096 + 4096;
  return reinterpret_cast<void*>(next_.fetch_add(rounded));
}

std::unique_ptr<Loaded> NullDevice::load(const program::Executable& executable) {
  auto loaded = std::make_unique<Loaded>();
  for (const BufferDesc& buffer : executable.program->buffers)
    loaded->constants.push_back(
        buffer.data == nullptr ? nullptr : const_cast<std::byte*>(buffer.data->data()));
  return loaded;
}

std::unique_ptr<Recorder> NullDevice::make_recorder(const Image& image, Loaded&,
                                                    std::span<const std::int64_t>) {
  return std::make_unique<NullRecorder>(image);
}

}  // namespace gex::runtime
