// A checkpoint's weights by name, also those that it holds as integers: GPTQ, AWQ and
// compressed-tensors. Formats: AutoGPTQ (qlinear), AutoAWQ (WQLinear_GEMM), compressed-tensors
// (pack-quantized, int-quantized).
#pragma once

#include <optional>
#include <string>

#include "llm/checkpoint/checkpoint.h"
#include "llm/checkpoint/stored_config.h"
#include "llm/parallel/plan.h"
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
  /// Throws `corrupt` naming file, tensor, got and want when the weight is missing or has another
  /// shape. Reads no value.
  void check(const std::string& name, at::IntArrayRef shape) const;
  /// Its values on the host: the file's own, or float32 of integers.
  at::Tensor floats(const std::string& name, at::IntArrayRef shape) const;

  // Of a rank's part of an integer weight, or all of it (no `parts`). No byte of the others' parts
  // is read, beside the groups of its inputs where these have an order of their own, and what
  // shares a word with a wanted value.

  /// Inputs that share a scale; 0 where they are no neighbours, or the weight is floats. Reads no
  /// value.
  std::int64_t group(const TensorPlan& part) const;
  /// Float32 values on the host.
  at::Tensor floats(const TensorPlan& part) const;
  /// How it is multiplied with. Nothing where it has no such form: it is floats, inputs that are no
  /// neighbours share a scale, a group is no multiple of 32, or 8 bits do not hold a value less its
  /// zero. Groups are narrower than the file's where the part ends within one.
  std::optional<IntegerFormat> form(const TensorPlan& part) const;
  /// The matrix of that form; zeros are always there with 4 bits.
  QuantizedMatrix integers(const TensorPlan& part) const;

 private:
  struct Plain;
  struct Window;
  enum class Depth { shapes, zeros, values };  ///< what is read, the less in front
  std::string base(const std::string& name) const;
  Plain plain(const TensorPlan& part, Depth depth) const;
  Plain window(const std::string& name, const Window& wanted, Depth depth) const;
  at::Tensor part(const std::string& name, c10::ScalarType dtype, at::IntArrayRef shape) const;
  void read_columns(Plain& out, const std::string& name, const Window& window, Depth depth) const;
  void read_rows(Plain& out, const std::string& name, const Window& window, Depth depth) const;
  void read_groups(Plain& out, const Window& window, const std::string& index,
                   const std::string& name, const at::Tensor& scales, std::int64_t dim) const;

  Checkpoint checkpoint_;
  StoredConfig config_;
};

}  // namespace anyaccel::llm
