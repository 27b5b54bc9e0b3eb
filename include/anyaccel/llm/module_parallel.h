// Tensor parallelism for user-defined torch::nn::Module classes. `generate --tensor-parallel` does
// the same for checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/comm.h"
#include "anyaccel/export.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace anyaccel::llm {

/// How a layer's weight is split among ranks.
///
/// - replicated: every rank has the whole weight.
/// - column: column-parallel. A rank has a part of the outputs. They remain split until a
///   row-parallel layer reduces them.
/// - gathered: like column, but the outputs of all ranks are then concatenated.
/// - row: row-parallel. A rank has a part of the inputs, which are the outputs of a column-parallel
///   layer. The partial results are all-reduced.
/// - vocabulary: vocabulary-parallel. A rank has a part of an embedding's rows. If a matrix product
///   uses the same weight (a tied output layer), its outputs are gathered.
enum class ModuleStyle { replicated, column, gathered, row, vocabulary };
/// Return the name of a style. Never null.
ANYACCEL_API const char* to_string(ModuleStyle style) noexcept;

/// A style for the layers whose names match a pattern.
struct ModuleRule {
  std::string pattern;  ///< pattern for layer names ("layers.*.fc1"), in which `*` matches any text
  ModuleStyle style = ModuleStyle::replicated;
  /// For column-parallel layers: number of equal parts that are concatenated in the weight, for
  /// example 3 for query, key and value. Each part is split separately.
  int fused = 1;
  /// Size of units that must not be split, such as the head dimension. Use the same value for the
  /// column-parallel layer and the row-parallel layer.
  std::int64_t unit = 1;
};

/// Options for tensor_parallel().
struct ModuleParallelOptions {
  /// Styles for layers, with precedence over derived styles. If several rules match a layer, the
  /// last one applies.
  std::vector<ModuleRule> rules;
  /// Attention head dimension. 0: attention is not split by heads, and its layers are gathered.
  std::int64_t head_dim = 0;
};

/// How a layer was split.
struct ModuleShard {
  /// Name of the layer.
  std::string name;
  ModuleStyle style = ModuleStyle::replicated;
  std::vector<std::int64_t> shape;  ///< shape of the whole weight
  std::vector<std::int64_t> local;  ///< shape of this rank's part
};

/// Split the Linear and Embedding layers of a module in place. The parameters remain the same
/// objects but become smaller, and the module's forward() runs the necessary collectives. All other
/// layers are replicated. Returns how each layer was split.
///
/// All ranks call it with identical modules, after the weights are initialized and before an
/// optimizer is created. Afterwards, all ranks run the same forward and backward passes in the same
/// order, with the same inputs. The gradients of replicated parameters are then the same on all
/// ranks, and those of split parameters are slices of the whole gradients.
///
/// Styles without rules are derived from names and sizes. A Linear whose name is typical of the
/// last layer of a block (o_proj, out_proj, wo, attention.dense; down_proj, fc2, w2, linear2, lin2,
/// dense_4h_to_h, c_proj) becomes row-parallel if every other Linear layer of the same parent has
/// one, two or three times as many outputs as it has inputs (two or three: fused parts). Those
/// layers become column-parallel. Every other Linear is gathered. Every Embedding is split by
/// vocabulary unless it has `max_norm`, or a `padding_idx` outside the first rank's tokens. The
/// styles gathered and vocabulary are correct for any use of a layer. Layers smaller than the
/// number of ranks are replicated.
///
/// Implementation: the tensor of a split weight carries a dispatch key (DeferredInit). For such a
/// tensor, t, matmul, mm, addmm, linear and embedding run the collectives and support gradients.
/// Every forward() that uses the weight through these functions works, including those of
/// torch::nn's layers in any container. Other functions see only this rank's part. `Module::to()`
/// and `clone()` keep the key. A column-parallel layer returns fewer features on each rank, so a
/// forward() that passes the number of heads or features to view() must pass `-1` instead.
///
/// Throws `invalid_argument` for a rule that matches no layer, or that requests an unsupported
/// split of a layer. The module is then unchanged.
///
///     auto group = std::make_shared<comm::ProcessGroup>(comm::init_process_group());
///     tensor_parallel(*model, group, {.head_dim = 64});
///     torch::optim::AdamW optimizer(model->parameters());
ANYACCEL_API std::vector<ModuleShard> tensor_parallel(torch::nn::Module& module,
                                                      std::shared_ptr<comm::ProcessGroup> group,
                                                      const ModuleParallelOptions& options = {});

/// Return the result that tensor_parallel() would return on a rank. Does not change the module or
/// need a process group.
ANYACCEL_API std::vector<ModuleShard> module_plan(const torch::nn::Module& module, int rank,
                                                  int ranks,
                                                  const ModuleParallelOptions& options = {});

}  // namespace anyaccel::llm
