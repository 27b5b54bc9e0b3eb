// The options of `anyaccel generate` that several ranks have.
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
  std::string ranks;  ///< empty: one; "auto": those that the launcher started
  std::string plan_file;
  bool plan = false, self_check = false;
};

/// Adds them to a command. `options` lives until the command has run.
void add_parallel_options(CLI::App& command, ParallelOptions& options);

/// Prints what each rank would have of every weight of a folder's model.
void print_plan(const std::string& folder, const llm::LoadOptions& load,
                const ParallelOptions& options, bool json);

/// The model, or this rank's part of it.
llm::Model load_model(const std::string& folder, const llm::LoadOptions& load,
                      const ParallelOptions& options);

/// The ranks' logits beside those of one rank with all weights, loaded the same way, on rank 0.
/// Throws `device_error` when they differ by more than the order of sums explains, or, where
/// weights became other integers than those of one rank, by more than these do.
void self_check(const std::string& folder, const llm::LoadOptions& load,
                const ParallelOptions& options, const llm::Model& model,
                const std::vector<std::int64_t>& prompt);

}  // namespace anyaccel::cli
