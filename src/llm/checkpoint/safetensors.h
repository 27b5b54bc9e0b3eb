// The safetensors format: named tensors in one file, a JSON header in front of raw values.
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

/// Where one tensor lies in a file.
struct TensorEntry {
  c10::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::size_t begin;  ///< from the end of the header
  std::size_t end;
};

/// A file opened for reading. Nothing is copied until a tensor is used. Thread-safe once made.
class SafetensorsFile {
 public:
  /// Header size that is still believed; the format's own limit.
  static constexpr std::size_t kMaxHeader = 100'000'000;

  /// Throws `not_found`, `io`, or `corrupt` naming the file: truncated, header too large or not
  /// JSON, a dtype or shape that is unknown, values that overlap or leave gaps, a name that comes
  /// twice.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, TensorEntry>& entries() const noexcept { return entries_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  bool contains(const std::string& name) const { return entries_.count(name) != 0; }
  /// A host tensor that looks into the mapped file: read it, never write to it. `not_found` for an
  /// unknown name.
  at::Tensor tensor(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::size_t data_offset_ = 0;
  std::map<std::string, TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Tensors to be written, in this order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes tensors of any device to an open file; `metadata` becomes __metadata__. One tensor at a
/// time is on the host.
void write_safetensors(AtomicFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata);

/// Format's name of a dtype and back. `unsupported` for types that the format or torch lacks.
std::string_view safetensors_dtype(c10::ScalarType dtype);

}  // namespace anyaccel::llm
