#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <optional>

#include "anyaccel/accelerator.h"
#include "llm/zero/host_adam.h"
#include "llm/zero/scratch_file.h"

namespace anyaccel::llm {

namespace {

/// Maximum number of elements in a chunk. The unit in which the state is transferred is a chunk of
/// up to three tensors, 48 MiB.
constexpr std::int64_t kChunk = std::int64_t{4} << 20;
/// Number of chunks in memory: one that is updated, two that are read and one that is written.
constexpr std::size_t kBuffers = 4;
constexpr std::size_t kReadAhead = 2;
/// Alignment of tensors in the file and in memory, as required by direct I/O.
constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kPageElements = kPage / static_cast<std::int64_t>(sizeof(float));

/// A range of this rank's part of a bucket. In the file, it consists of the first moments, the
/// second moments and the weights, each with `room` elements.
struct Chunk {
  std::size_t bucket = 0;
  std::int64_t begin = 0, count = 0, room = 0;
  std::int64_t offset = 0;  ///< in the file, in bytes
};

/// Memory for a chunk, and its pending transfers.
struct Buffer {
  at::Tensor memory;
  std::optional<ops::AsyncIORequest> read, write;
};

at::Tensor aligned_memory(std::int64_t elements) {
  const at::Tensor all =
      at::empty({elements + kPageElements}, at::TensorOptions().dtype(c10::kFloat));
  const auto address = reinterpret_cast<std::uintptr_t>(all.const_data_ptr());
  const auto gap = (kPage - static_cast<std::int64_t>(address % kPage)) % kPage;
  return all.narrow(0, gap / static_cast<std::int64_t>(sizeof(float)), elements);
}

class DiskState final : public OptimizerState {
 public:
  DiskState(OwnedParameters given, const std::filesystem::path& folder)
      : owned_(std::move(given)), adam_(owned_.adamw) {
    std::int64_t bytes = 0, most = 0;
    const auto& buckets = owned_.partition.buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      first_.push_back(chunks_.size());
      for (std::int64_t begin = 0; begin < buckets[b].part; begin += kChunk) {
        Chunk chunk{.bucket = b, .begin = begin, .offset = bytes};
        chunk.count = std::min(kChunk, buckets[b].part - begin);
        chunk.room = (chunk.count + kPageElements - 1) / kPageElements * kPageElements;
        bytes += chunk.room * tensors(b) * static_cast<std::int64_t>(sizeof(float));
        most = std::max(most, chunk.room * tensors(b));
        chunks_.push_back(chunk);
      }
    }
    first_.push_back(chunks_.size());
    file_.emplace(folder, bytes);
    for (std::size_t i = 0; i < std::min(kBuffers, chunks_.size()); ++i)
      buffers_.push_back({.memory = aligned_memory(most)});
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (!in_model(b)) write(StateKind::weight, b, part_of_model(b));
    }
  }

  void prepare() override {
    for (std::size_t c = 0; c < buffers_.size(); ++c) start_read(c);
  }

  void update(const UpdateInput& input) override {
    const c10::AutoGradMode no_gradient(false);
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      start_read(c);  // a no-op if it has started
      if (c + kReadAhead < chunks_.size()) start_read(c + kReadAhead);
      Buffer& buffer = buffers_[c % buffers_.size()];
      file_->wait(*buffer.read);
      buffer.read.reset();
      update(chunks_[c], buffer.memory, input);
      buffer.write = file_->start_write(data(chunks_[c], buffer), chunks_[c].offset);
    }
  }

  at::Tensor read(StateKind kind, std::size_t bucket) override {
    if (kind == StateKind::weight && in_model(bucket)) return part_of_model(bucket);
    finish_writes();
    const at::Tensor out = aligned_memory(owned_.partition.buckets()[bucket].part);
    transfer(kind, bucket, out, /*to_file=*/false);
    return out;
  }

  void write(StateKind kind, std::size_t bucket, const at::Tensor& part) override {
    const c10::AutoGradMode no_gradient(false);
    finish_writes();
    if (kind == StateKind::weight) {
      for (const OwnedSlice& slice : owned_.partition.buckets()[bucket].slices)
        owned_.values(slice).copy_(part.narrow(0, slice.place, slice.count));
      if (in_model(bucket)) return;
    }
    transfer(kind, bucket, part, /*to_file=*/true);
  }

 private:
  bool in_model(std::size_t bucket) const {
    return owned_.dtype(bucket) == c10::kFloat && owned_.parameters[0].is_cpu();
  }
  std::int64_t tensors(std::size_t bucket) const { return in_model(bucket) ? 2 : 3; }

  at::Tensor part_of_model(std::size_t bucket) const {
    const PartitionBucket& about = owned_.partition.buckets()[bucket];
    const at::Tensor out = at::zeros({about.part}, at::TensorOptions().dtype(c10::kFloat));
    for (const OwnedSlice& slice : about.slices)
      out.narrow(0, slice.place, slice.count).copy_(owned_.values(slice));
    return out;
  }

  at::Tensor data(const Chunk& chunk, const Buffer& buffer) const {
    return buffer.memory.narrow(0, 0, chunk.room * tensors(chunk.bucket));
  }

  /// Starts to read a chunk, after its buffer's last content has been written.
  void start_read(std::size_t c) {
    Buffer& buffer = buffers_[c % buffers_.size()];
    if (buffer.read) return;
    if (buffer.write) file_->wait(*buffer.write);
    buffer.write.reset();
    buffer.read = file_->start_read(data(chunks_[c], buffer), chunks_[c].offset);
  }

  void finish_writes() {
    for (Buffer& buffer : buffers_) {
      if (buffer.write) file_->wait(*buffer.write);
      buffer.write.reset();
    }
  }

  /// Updates the slices in a chunk.
  void update(const Chunk& chunk, const at::Tensor& memory, const UpdateInput& input) {
    const at::Tensor gradient = input.gradient(chunk.bucket);
    for (const OwnedSlice& slice : owned_.partition.buckets()[chunk.bucket].slices) {
      const std::int64_t begin = std::max(slice.place, chunk.begin);
      const std::int64_t end = std::min(slice.place + slice.count, chunk.begin + chunk.count);
      if (begin >= end || !input.present[slice.parameter]) continue;
      const at::Tensor out = owned_.values(slice).narrow(0, begin - slice.place, end - begin);
      const auto tensor = [&](std::int64_t which) {
        return memory.narrow(0, which * chunk.room + begin - chunk.begin, end - begin);
      };
      adam_.update({.weight = in_model(chunk.bucket) ? out : tensor(2),
                    .gradient = gradient.narrow(0, begin, end - begin),
                    .exp_avg = tensor(0),
                    .exp_avg_sq = tensor(1)},
                   out, owned_.weight_decay(slice), input);
    }
    // The buffer is written and reused while the device may still copy from it.
    if (!owned_.parameters[0].is_cpu()) get_accelerator().current_stream().synchronize();
  }

  /// Reads or writes one kind of a bucket.
  void transfer(StateKind kind, std::size_t bucket, const at::Tensor& part, bool to_file) {
    for (std::size_t c = first_[bucket]; c < first_[bucket + 1]; ++c) {
      const Chunk& chunk = chunks_[c];
      const at::Tensor range = part.narrow(0, chunk.begin, chunk.count);
      const std::int64_t offset = chunk.offset + static_cast<std::int64_t>(kind) * chunk.room *
                                                     static_cast<std::int64_t>(sizeof(float));
      auto request = to_file ? file_->start_write(range, offset) : file_->start_read(range, offset);
      file_->wait(request);
    }
  }

  OwnedParameters owned_;
  HostAdam adam_;
  std::vector<Chunk> chunks_;
  std::vector<std::size_t> first_;  ///< index of each bucket's first chunk, and the total
  std::vector<Buffer> buffers_;     ///< chunk c uses buffer c modulo their number
  std::optional<ScratchFile> file_;
};

}  // namespace

std::unique_ptr<OptimizerState> make_disk_state(OwnedParameters owned,
                                                const std::filesystem::path& folder) {
  return std::make_unique<DiskState>(std::move(owned), folder);
}

}  // namespace anyaccel::llm
