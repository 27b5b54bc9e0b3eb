// `anyaccel train --model`: fine-tuning.
#pragma once

#include <memory>

#include "anyaccel/llm/trainer.h"

namespace CLI {
class App;
}

namespace anyaccel::cli {

struct Context;

/// Runs fine-tuning, and defines its options, which `anyaccel train` has in addition to those for a
/// new model.
class FineTuneCommand {
 public:
  /// Adds options to `command`, which already has the options for a new model. `shared` contains
  /// the values of options that both use.
  FineTuneCommand(CLI::App& command, const llm::TrainOptions& shared);
  ~FineTuneCommand();

  /// Returns whether the command line asks for fine-tuning: with --model, or with --resume and a
  /// folder that contains such a run. Throws `invalid_argument` for options that do not apply.
  bool selected() const;
  /// `dtype`: value of --dtype.
  void run(const std::string& dtype, bool json, Context& context);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anyaccel::cli
