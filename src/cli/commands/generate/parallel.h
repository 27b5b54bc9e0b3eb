// Tensor-parallel options of `anyaccel generate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "anyaccel/llm/model.h"

namespace CLI {
class App;
}

namespace anyaccel::cli {

struct ParallelOptions {
  std::string ranks;  ///< a number; empty: 1; "auto": as many as the launcher started
  std::string plan_file;
  bool plan = false, self_check = false;
};

/// Adds the options to a command. `options` must outlive the command's callback.
void add_parallel_options(CLI::App& command, ParallelOptions& options);

/// Prints each rank's part of every weight of the model in `folder`.
void print_plan(const std::string& folder, const llm::LoadOptions& load,
                const ParallelOptions& options, bool json);

/// Loads the model, or this rank's part of it.
llm::Model load_model(const std::string& folder, const llm::LoadOptions& load,
                      const ParallelOptions& options);

/// Loads the whole model on rank 0 and compares its logits with those that the ranks computed
/// together. Throws `device_error` if the difference is too large to be caused by a different
/// summation order. The tolerance is larger if some weights are quantized in different groups than
/// on a single rank.
void self_check(const std::string& folder, const llm::LoadOptions& load,
                const ParallelOptions& options, const llm::Model& model,
                const std::vector<std::int64_t>& prompt);

}  // namespace anyaccel::cli
