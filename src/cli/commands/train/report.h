// Output and logs of a fine-tuning run.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "anyaccel/llm/fine_tuner.h"

namespace anyaccel::cli {

/// Prints the model, the data and the settings on standard error.
void print_info(const llm::FineTuneInfo& info);
/// Prints the result on standard output, as text or as JSON.
void print_result(const llm::FineTuneResult& result, const llm::FineTuneInfo& info, bool json);

nlohmann::ordered_json json_of(const llm::FineTuneStep& step);
nlohmann::ordered_json json_of(const llm::FineTuneEvaluation& evaluation);

/// Shows progress on standard error, or writes JSON to standard output, and writes the log files.
/// A log file that cannot be written, for example because the disk is full, is reported once and
/// does not end the run. Not thread-safe.
class FineTuneReport {
 public:
  /// Empty paths: no log. Throws `io` if a log file cannot be created.
  FineTuneReport(const std::filesystem::path& log, const std::filesystem::path& tensorboard,
                 bool json, std::int64_t first_step);
  ~FineTuneReport();

  void step(const llm::FineTuneStep& step);
  void evaluation(const llm::FineTuneEvaluation& evaluation);
  /// Ends the progress line.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anyaccel::cli
