// A model, or a rank's part of one, whose matrices become integers when it is loaded.
#pragma once

#include <filesystem>
#include <string>

#include "anyaccel/llm/config.h"
#include "anyaccel/llm/model.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

struct ParallelPlan;

/// A folder's weights. Throws `invalid_argument` for bits that are not 0, 4 or 8, a group that is
/// no multiple of 32, or integers that are to be made of integers.
StoredWeights open_stored(const std::filesystem::path& folder, const LoadOptions& options);

/// Makes integers of the layers' matrices and of the head, one by one; the embedding, norms,
/// biases, routers and experts stay as they are, and so does a matrix that has no wanted_form().
/// What a head shared with the embedding, it has of its own then. `plan`: of a rank whose part of
/// the model this is, or null.
void quantize(Weights& weights, const ModelConfig& config, const LoadOptions& options,
              const ParallelPlan* plan = nullptr);

/// Where the integers of a folder's model, or of a rank's part of it, are kept from one load to the
/// next.
class QuantizedFile {
 public:
  /// Below ANYACCEL_MODEL_CACHE, else anyaccel/models in XDG_CACHE_HOME or ~/.cache; nowhere if
  /// there is no such folder. The name follows from the options, from path, size and time of all
  /// the model's files, and from the plan.
  QuantizedFile(const std::filesystem::path& folder, const LoadOptions& options,
                const ParallelPlan* plan = nullptr);

  /// Reads what save() wrote, from the mapped file. False where it is not there or cannot be used;
  /// a damaged one is told in a warning.
  bool load(Weights& weights) const;
  /// Writes aside and renames. What goes wrong (no room) is a warning: the model is there all the
  /// same.
  void save(Weights& weights) const;

 private:
  std::string identity_;
  std::filesystem::path path_;
};

}  // namespace anyaccel::llm
