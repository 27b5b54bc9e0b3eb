// Lines that every finished training run prints.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/commands/train/duration.h"

namespace anyaccel::cli {

/// Prints what a run has done. `Result`: llm::TrainResult or llm::FineTuneResult.
template <typename Result>
void print_training_summary(const Result& r) {
  const auto word = [](std::int64_t steps) { return steps == 1 ? "step" : "steps"; };
  if (r.losses.empty()) {
    std::printf("nothing to do: the run was already complete after %lld %s\n",
                static_cast<long long>(r.steps), word(r.steps));
    return;
  }
  const auto steps =
      static_cast<std::int64_t>(r.losses.size());  // without an earlier part of the run
  std::printf("trained %lld %s in %s, %.0f tokens/s, final training loss %.3f nats per token\n",
              static_cast<long long>(steps), word(steps), duration(r.seconds).c_str(),
              r.tokens_per_second, r.final_loss);
}

/// Prints how to continue an interrupted run.
inline void print_resume_command(const std::string& out) {
  std::printf("interrupted; continue with: anyaccel train --resume --out %s\n", out.c_str());
}

}  // namespace anyaccel::cli
