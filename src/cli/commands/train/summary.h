// Lines that every finished training run prints.
#pragma once

#include <cstdio>
#include <string>

#include "cli/commands/train/duration.h"

namespace anyaccel::cli {

/// Prints what a run has done. `Result`: llm::TrainResult or llm::FineTuneResult.
template <typename Result>
void print_training_summary(const Result& r) {
  const auto steps = static_cast<long long>(r.steps);
  if (r.losses.empty())
    std::printf("nothing to do: the run was already complete after %lld %s\n", steps,
                steps == 1 ? "step" : "steps");
  else
    std::printf("trained %lld %s in %s, %.0f tokens/s, final training loss %.3f nats per token\n",
                steps, steps == 1 ? "step" : "steps", duration(r.seconds).c_str(),
                r.tokens_per_second, r.final_loss);
}

/// Prints how to continue an interrupted run.
inline void print_resume_command(const std::string& out) {
  std::printf("interrupted; continue with: anyaccel train --resume --out %s\n", out.c_str());
}

}  // namespace anyaccel::cli
