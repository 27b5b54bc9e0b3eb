#include "cli/commands/generate/parallel.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "anyaccel/error.h"
#include "anyaccel/llm/parallel.h"
#include "base/env.h"
#include "base/untrusted_text.h"

namespace anyaccel::cli {

namespace {

/// Returns the number of ranks that --tensor-parallel requests. "auto" means all ranks that the
/// launcher started.
int parallel_ranks(const ParallelOptions& options) {
  const std::string started = std::to_string(started_ranks());
  const std::string& text = options.ranks;
  const std::string number = !text.empty() && text != "auto" ? text : started;
  const bool digits =
      number.find_first_not_of("0123456789") == std::string::npos && number.size() < 5;
  const int ranks = digits ? std::stoi(number) : 0;
  if (ranks < 1) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "invalid number of ranks for --tensor-parallel",
                 .got = quoted_text(number),
                 .want = "auto, or 1 to 9999"});
  }
  if (!options.plan && std::to_string(ranks) != started) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "--tensor-parallel differs from the number of started ranks",
                 .got = number,
                 .want = started,
                 .hint = "start the ranks with anyaccel launch --num_accelerators " + number});
  }
  return ranks;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t size : shape) out += (out.empty() ? "" : "x") + std::to_string(size);
  return out.empty() ? "-" : out;
}

/// Returns the number of weights that at least one rank quantizes in different groups than a single
/// rank with all weights would.
std::ptrdiff_t otherwise_quantized(const std::string& folder, const llm::LoadOptions& load,
                                   const ParallelOptions& options, int ranks) {
  const auto together = llm::parallel_plan(folder, ranks, options.plan_file, load);
  const auto alone = llm::parallel_plan(folder, 1, options.plan_file, load);
  std::ptrdiff_t out = 0;
  for (std::size_t i = 0; i < together.size(); ++i) {
    const auto& groups = together[i].groups;
    out += std::count(groups.begin(), groups.end(), alone[i].groups[0]) < ranks ? 1 : 0;
  }
  return out;
}

}  // namespace

void add_parallel_options(CLI::App& command, ParallelOptions& options) {
  command
      .add_option("--tensor-parallel", options.ranks,
                  "Number of tensor-parallel ranks, or auto: all ranks of anyaccel launch")
      ->type_name("N");
  command
      .add_option(
          "--tp-plan", options.plan_file,
          "JSON file that maps weight name patterns to column, row, vocabulary or replicated")
      ->type_name("FILE");
  command.add_flag(
      "--plan", options.plan,
      "Print each rank's shard of every weight and, with --quantize, its format, then exit");
  command.add_flag("--self-check", options.self_check,
                   "First compare the logits of all ranks with those of a single rank");
}

void print_plan(const std::string& folder, const llm::LoadOptions& load,
                const ParallelOptions& options, bool json) {
  const auto plan = llm::parallel_plan(folder, parallel_ranks(options), options.plan_file, load);
  if (json) {
    auto out = nlohmann::ordered_json::array();
    for (const auto& tensor : plan)
      out.push_back({{"name", tensor.name},
                     {"style", tensor.style},
                     {"shape", tensor.shape},
                     {"parts", tensor.parts},
                     {"bits", tensor.bits},
                     {"groups", tensor.groups}});
    std::cout << out.dump() << std::endl;
    return;
  }
  std::size_t width = 0;
  for (const auto& tensor : plan) width = std::max(width, tensor.name.size());
  for (const auto& tensor : plan) {
    std::cout << tensor.name << std::string(width + 2 - tensor.name.size(), ' ') << tensor.style
              << std::string(12 - tensor.style.size(), ' ') << shape_text(tensor.shape) << "  ->";
    for (std::size_t rank = 0; rank < tensor.parts.size(); ++rank) {
      std::cout << "  " << shape_text(tensor.parts[rank]);
      if (tensor.bits[rank]) std::cout << " int" << tensor.bits[rank] << "/" << tensor.groups[rank];
    }
    std::cout << "\n";
  }
  std::cout << std::flush;
}

llm::Model load_model(const std::string& folder, const llm::LoadOptions& load,
                      const ParallelOptions& options) {
  if (options.ranks.empty() || parallel_ranks(options) == 1) return llm::Model::load(folder, load);
  return llm::Model::load_parallel(folder, load, options.plan_file);
}

void self_check(const std::string& folder, const llm::LoadOptions& load,
                const ParallelOptions& options, const llm::Model& model,
                const std::vector<std::int64_t>& prompt) {
  const at::Tensor together = model.logits(prompt);
  double difference = 0, largest = 0;
  if (model.rank() == 0) {
    llm::LoadOptions fresh = load;
    fresh.cache = false;  // the reference must not depend on cached weights
    const at::Tensor alone = llm::Model::load(folder, fresh).logits(prompt);
    difference = together.sub(alone).abs().max().item<double>();
    largest = alone.abs().max().item<double>();
  }
  model.barrier();
  if (model.rank() != 0) return;
  double share =
      model.quantized() ? 1e-3 : 1e-4;  // inputs of quantized weights are rounded to 16 bits
  if (model.dtype() != c10::kFloat) share = 5e-2;
  std::cerr << "anyaccel: the logits of " << model.ranks()
            << " ranks differ from those of a single rank by at most " << difference
            << " (largest logit: " << largest << ")";
  if (const auto others =
          load.bits ? otherwise_quantized(folder, load, options, model.ranks()) : 0) {
    share = load.bits == 8 ? 5e-2 : 0.5;
    std::cerr << "; " << others
              << " weights have different quantization groups than on a single rank (see --plan)";
  }
  std::cerr << "\n";
  if (!(difference <= share * std::max(1.0, largest))) {
    throw Error(ErrorCode::device_error, "generate",
                {.what = "the ranks' logits differ from those of a single rank",
                 .got = "a difference of " + std::to_string(difference),
                 .want = "at most " + std::to_string(share) + " times the largest logit"});
  }
}

}  // namespace anyaccel::cli
