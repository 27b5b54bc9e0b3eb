// Determines which matrices of a model, or of a rank's part of it, are kept quantized, and with
// which group sizes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "anyaccel/llm/model.h"
#include "llm/model/weights.h"
#include "llm/parallel/plan.h"
#include "llm/quantize/linear.h"

namespace anyaccel::llm {

/// A tensor in a checkpoint and its destination: rows of the matrix that contains it.
struct WeightPiece {
  TensorPlan part;
  at::Tensor target;
};

/// The checkpoint tensors of all weights, grouped by the matrix or tensor whose memory they share.
class WeightPieces {
 public:
  /// `plan`: this rank's plan, or null. With a plan, `config` is the plan's `local`.
  WeightPieces(const Weights& weights, const ModelConfig& config, const ParallelPlan* plan);

  /// Removes and returns the tensors that form a matrix. They keep the matrix's memory alive.
  std::vector<WeightPiece> take(const at::Tensor& matrix);
  /// Calls function(piece) for the remaining checkpoint tensors, in the order of visit_tensors().
  template <typename Function>
  void each_left(const Function& function) const {
    for (const auto& together : pieces_) {
      for (const WeightPiece& piece : together) function(piece);
    }
  }

 private:
  std::vector<std::vector<WeightPiece>> pieces_;
  std::unordered_map<const void*, std::size_t> places_;  ///< index into pieces_, by memory address
};

/// Returns the format of a matrix that a checkpoint stores quantized. Returns nullopt if the matrix
/// must be dequantized: if any of its tensors must be, or if the formats of its tensors differ.
std::optional<IntegerFormat> stored_format(const StoredWeights& stored,
                                           const std::vector<WeightPiece>& pieces);

/// Returns the format for quantizing a float matrix. By default, the group size is that of the
/// whole matrix. If the options do not set a group size, and a rank's part of the inputs does not
/// begin and end at group boundaries, uses the larger of 64 and 32 that divides the part. Returns
/// nullopt if no group size fits.
std::optional<IntegerFormat> requested_format(const at::Tensor& matrix,
                                              const std::vector<WeightPiece>& pieces,
                                              const LoadOptions& options);

/// Returns the group size of the down projections of feed-forward layers, which make_plan() splits
/// at group boundaries, or 0 if they are floats.
std::int64_t inner_group(const ModelConfig& config, const std::vector<TensorShape>& shapes,
                         const StoredWeights& stored, const LoadOptions& options);

/// Returns the formats of a rank's matrices by tensor name. Does not read weights.
std::map<std::string, IntegerFormat> planned_formats(const ParallelPlan& plan,
                                                     const StoredWeights& stored,
                                                     const LoadOptions& options);

}  // namespace anyaccel::llm
