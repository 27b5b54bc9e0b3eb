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

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::size_t data_offset_ = 0;
  std::map<std::string, TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Tensors to write, in this order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes tensors on any device to an open file; `metadata` becomes __metadata__. Copies only one
/// tensor at a time to the host.
void write_safetensors(AtomicFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata);

/// Returns the format's name for a dtype. Throws `unsupported` if the format has none.
std::string_view safetensors_dtype(c10::ScalarType dtype);

}  // namespace anyaccel::llm
