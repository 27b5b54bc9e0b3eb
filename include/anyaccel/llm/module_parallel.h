// Tensor parallelism of a program's own torch::nn::Module, as `generate --tensor-parallel` has it
// for checkpoints.
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

/// What a rank has of a layer's weight. column: a part of the outputs, which stay apart until a row
/// layer adds them up. gathered: the same, with the outputs put together again. row: a part of the
/// inputs, which are a column layer's outputs; results are added up. vocabulary: a part of an
/// embedding's rows; a product with the same weight is gathered.
enum class ModuleStyle { replicated, column, gathered, row, vocabulary };
ANYACCEL_API const char* to_string(ModuleStyle style) noexcept;

struct ModuleRule {
  std::string pattern;  ///< of layers' names ("layers.*.fc1"), `*` for any characters
  ModuleStyle style = ModuleStyle::replicated;
  int fused = 1;  ///< column: so many equal parts one after the other, such as query, key and
                  ///< value; each is split by itself
  std::int64_t unit = 1;  ///< what must not be cut, such as the width of a head; the same for the
                          ///< column and the row layer
};

struct ModuleParallelOptions {
  /// The last one that fits a layer counts, before what is derived.
  std::vector<ModuleRule> rules;
  /// Width of an attention head. 0: attention is not split by itself, its layers are gathered.
  std::int64_t head_dim = 0;
};

/// What is made of a layer.
struct ModuleShard {
  std::string name;
  ModuleStyle style = ModuleStyle::replicated;
  std::vector<std::int64_t> shape;  ///< of the whole weight
  std::vector<std::int64_t> local;  ///< of this rank's part
};

/// Splits the Linear and Embedding layers of a module, in place: the parameters stay the same
/// objects and get smaller values, and the module's own forward, unchanged, exchanges what is
/// missing. Everything else, and what is said to be so, is replicated.
///
/// Derived without rules, from names and sizes: a Linear with the name of one that ends a block
/// (o_proj, out_proj, wo, attention.dense; down_proj, fc2, w2, linear2, lin2, dense_4h_to_h,
/// c_proj) is a row layer if the Linears beside it, in the same parent, fit its inputs once or as
/// fused parts, and those are column layers. Every other Linear is gathered, every Embedding split
/// by vocabulary, unless it has `max_norm` or a `padding_idx` beyond the first tokens that a rank
/// gets: right wherever they are used. Layers smaller than the number of ranks are replicated.
///
/// How: a split weight's tensor is marked (dispatch key DeferredInit), and t, matmul, mm, addmm,
/// linear and embedding with a marked tensor add the collectives around them, with their gradients.
/// So every forward works that uses the weight by these, stock layers of torch::nn in any container
/// included; what reads a split weight otherwise sees the part. `Module::to()` and `clone()` keep
/// the mark. A forward that names the number of its heads or of its inner features in a view() must
/// count what is there (`-1`), as there are fewer after a column layer.
///
/// Called by all ranks with equal modules, after the weights have their values and before an
/// optimizer has seen them; calls of forward and backward are the same on all ranks, in one order,
/// with the same inputs. Gradients of replicated parameters are the same on all ranks, those of
/// split ones are the slices of the whole's. Errors: `invalid_argument` for a rule that fits no
/// layer, or whose layer cannot be split so, before anything is changed.
ANYACCEL_API std::vector<ModuleShard> tensor_parallel(torch::nn::Module& module,
                                                      std::shared_ptr<comm::ProcessGroup> group,
                                                      const ModuleParallelOptions& options = {});

/// What tensor_parallel() would do on a rank; changes nothing, needs no group.
ANYACCEL_API std::vector<ModuleShard> module_plan(const torch::nn::Module& module, int rank,
                                                  int ranks,
                                                  const ModuleParallelOptions& options = {});

}  // namespace anyaccel::llm
