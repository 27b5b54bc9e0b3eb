// A checkpoint's weights by name, also those that it holds as integers: GPTQ, AWQ and compressed-tensors.
// Formats: AutoGPTQ (qlinear), AutoAWQ (WQLinear_GEMM), compressed-tensors (pack-quantized, int-quantized).
#pragma once

#include <optional>
#include <string>

#include "llm/checkpoint/checkpoint.h"
#include "llm/checkpoint/stored_config.h"
#include "llm/quantize/linear.h"

namespace anyaccel::llm {

/// Thread-safe once made.
class StoredWeights {
 public:
  /// Throws what Checkpoint and read_stored_config() do.
  explicit StoredWeights(const std::filesystem::path& folder);

  /// Whether there is a matrix of integers.
  bool quantized() const noexcept { return config_.format != StoredFormat::floats; }
  /// Whether the weight of this name is one.
  bool is_integer(const std::string& name) const;
  /// Throws `corrupt` naming file, tensor, got and want when the weight is missing or has another shape. Reads no value.
  void check(const std::string& name, at::IntArrayRef shape) const;
  /// Its values on the host: the file's own, or float32 of integers.
  at::Tensor floats(const std::string& name, at::IntArrayRef shape) const;
  /// An integer weight as it is multiplied with; zeros are always there with 4 bits. Nothing where it has no such form: inputs that
  /// are no neighbours share a scale, a group is no multiple of 32, or 8 bits do not hold a value less its zero.
  std::optional<QuantizedMatrix> integers(const std::string& name, at::IntArrayRef shape) const;

 private:
  struct Plain;
  std::string base(const std::string& name) const;
  Plain plain(const std::string& name, at::IntArrayRef shape, bool values) const;
  at::Tensor part(const std::string& name, c10::ScalarType dtype, at::IntArrayRef shape) const;
  void read_columns(Plain& out, const std::string& name, bool values) const;
  void read_rows(Plain& out, const std::string& name, bool values) const;
  void read_groups(Plain& out, const std::string& name) const;

  Checkpoint checkpoint_;
  StoredConfig config_;
};

}  // namespace anyaccel::llm
