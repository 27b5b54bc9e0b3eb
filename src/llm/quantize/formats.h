// Which matrices of a model, or of a rank's part of it, become integers, and with which groups.
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

/// A checkpoint's tensor, and where it goes: rows of the matrix that it belongs to.
struct WeightPiece {
  TensorPlan part;
  at::Tensor target;
};

/// The pieces of all tensors that weights want, by the memory that they share: that of a matrix, or
/// a tensor of its own.
class WeightPieces {
 public:
  /// `plan`: of the rank whose part of the model the weights are (the configuration is then its
  /// `local`), or null.
  WeightPieces(const Weights& weights, const ModelConfig& config, const ParallelPlan* plan);

  /// Those of a matrix, which are then no longer here: they keep its memory.
  std::vector<WeightPiece> take(const at::Tensor& matrix);
  /// Calls function(piece) for all that are left, in visit_tensors()' order.
  template <typename Function>
  void each_left(const Function& function) const {
    for (const auto& together : pieces_) {
      for (const WeightPiece& piece : together) function(piece);
    }
  }

 private:
  std::vector<std::vector<WeightPiece>> pieces_;
  std::unordered_map<const void*, std::size_t> places_;  ///< by memory
};

/// The form of a matrix that a checkpoint has as integers; nothing where it becomes floats: a piece
/// of it does, or they differ.
std::optional<IntegerFormat> stored_format(const StoredWeights& stored,
                                           const std::vector<WeightPiece>& pieces);

/// The form of a float matrix that is to become integers: the group that it has where one rank
/// holds all of it. Where a rank's part of the inputs does not begin and end between such groups,
/// and no group was asked for, the larger of 64 and 32 that divides them. Nothing where there is no
/// such group.
std::optional<IntegerFormat> requested_format(const at::Tensor& matrix,
                                              const std::vector<WeightPiece>& pieces,
                                              const LoadOptions& options);

/// Inputs that share a scale in the feed-forward parts' second matrices, which make_plan() cuts
/// between groups; 0 where they are floats.
std::int64_t inner_group(const ModelConfig& config, const std::vector<TensorShape>& shapes,
                         const StoredWeights& stored, const LoadOptions& options);

/// The forms of a rank's matrices by their tensors' names. Reads no weights.
std::map<std::string, IntegerFormat> planned_formats(const ParallelPlan& plan,
                                                     const StoredWeights& stored,
                                                     const LoadOptions& options);

}  // namespace anyaccel::llm
