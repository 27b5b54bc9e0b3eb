// The safetensors format: a JSON header followed by the raw data of named tensors.
//
// Format: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/support/mapped_file.h"

namespace anyaccel {
class AtomicFile;
}

namespace anyaccel::llm {

/// Dtype, shape and position of one tensor in a file.
struct TensorEntry {
  c10::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::size_t begin;  ///< offset from the end of the header
  std::size_t end;
};

/// A file opened for reading. Tensors are not copied: their data is read from the file on first
/// use. Thread-safe after construction.
class SafetensorsFile {
 public:
  /// Maximum header size in bytes, as defined by the format.
  static constexpr std::size_t kMaxHeader = 100'000'000;

  /// Throws `not_found`, `io`, or `corrupt` naming the file. A file is corrupt if it is truncated
  /// or contains gaps, overlapping tensors, duplicate names, an unknown dtype or an invalid shape.
  /// It is also corrupt if the header is too large or is not JSON.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, TensorEntry>& entries() const noexcept { return entries_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  bool contains(const std::string& name) const { return entries_.count(name) != 0; }
  /// Returns a host tensor whose memory is the mapped file; do not write to it. Throws `not_found`
  /// for an unknown name.
  at::Tensor tensor(const std::string& name) const;
  /// Removes the pages that were read from this process's memory. Tensors remain valid; their data
  /// is read again on the next use.
  void release() const noexcept { file_->release(); }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::size_t data_offset_ = 0;
  std::map<std::string, TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Tensors to write, in this order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Name, dtype and shape of a tensor to write.
struct TensorHead {
  std::string name;
  c10::ScalarType dtype;
  std::vector<std::int64_t> shape;
};

/// Writes a file tensor by tensor, so that only one tensor must exist at a time. Throws `io`.
class SafetensorsWriter {
 public:
  /// Writes the header; `metadata` becomes __metadata__.
  SafetensorsWriter(AtomicFile& file, std::vector<TensorHead> heads,
                    const std::map<std::string, std::string>& metadata);
  /// Writes the next tensor in the order of `heads`. The tensor may be on any device. Throws
  /// `internal` if its dtype or shape differs.
  void write(const at::Tensor& tensor);
  /// Throws `internal` if a tensor is missing.
  void finish() const;

 private:
  AtomicFile& file_;
  std::vector<TensorHead> heads_;
  std::size_t next_ = 0;
};

/// Writes tensors on any device to an open file; `metadata` becomes __metadata__. Copies only one
/// tensor at a time to the host.
void write_safetensors(AtomicFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata);

/// Returns the format's name for a dtype. Throws `unsupported` if the format has none.
std::string_view safetensors_dtype(c10::ScalarType dtype);

}  // namespace anyaccel::llm
