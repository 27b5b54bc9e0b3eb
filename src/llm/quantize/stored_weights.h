// A checkpoint's weights by name, including the quantized weights of GPTQ, AWQ and
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

/// Thread-safe after construction.
class StoredWeights {
 public:
  /// Throws the same errors as Checkpoint and read_stored_config().
  explicit StoredWeights(const std::filesystem::path& folder);

  /// Returns whether the checkpoint stores quantized matrices.
  bool quantized() const noexcept { return config_.format != StoredFormat::floats; }
  /// Returns whether this weight is stored quantized.
  bool is_integer(const std::string& name) const;
  /// Throws `corrupt` if the weight is missing or has a different shape. The error names the file,
  /// the tensor, and the actual and expected shapes. Does not read weights.
  void check(const std::string& name, at::IntArrayRef shape) const;
  /// Returns the weight on the host: in the file's dtype, or dequantized to float32.
  at::Tensor floats(const std::string& name, at::IntArrayRef shape) const;

  // The functions below work on a rank's part of a quantized weight, or on all of it if `parts` is
  // empty. They do not read other ranks' parts, with two exceptions: integers that share a word
  // with this part, and all scales and zero points if a g_idx tensor assigns inputs to groups.

  /// Returns the group size. Returns 0 for floating-point weights, or if the inputs of a group are
  /// not adjacent. Does not read weights.
  std::int64_t group(const TensorPlan& part) const;
  /// Returns float32 values on the host.
  at::Tensor floats(const TensorPlan& part) const;
  /// Returns the format in which the part can stay quantized. If the part ends within a group, its
  /// groups are smaller than in the file. Returns nullopt
  /// - for floating-point weights
  /// - if the inputs of a group are not adjacent
  /// - if a group is not a multiple of 32
  /// - for 8 bits with a zero point other than 128
  std::optional<IntegerFormat> form(const TensorPlan& part) const;
  /// Returns the part in that format. For int4, the `zeros` tensor (zero points) is always defined.
  QuantizedMatrix integers(const TensorPlan& part) const;

 private:
  struct Plain;
  struct Window;
  enum class Depth { shapes, zeros, values };  ///< how much to read, in ascending order
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
