// Handles the output of ranks: forwards it, adds prefixes or writes it to files, and keeps the last
// lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/guard.h"

namespace anyaccel::launch {

/// What to do with the output of ranks.
struct OutputSettings {
  bool prefix = false;  ///< whether each line begins with "[rank N] "
  std::optional<std::string>
      log_folder;  ///< if set, one file per rank and no output on the terminal
  /// Whether standard error may contain reports from agents, which must be filtered out.
  bool reports = false;
  /// Whether standard output also passes through the launcher, so that lines of several ranks stay
  /// intact.
  bool pipes = false;
  bool lines = false;  ///< with `pipes`: forward only whole lines
  /// With `pipes`: hold the beginning of a line until its end arrives or kPatience has passed.
  bool end_lines = false;
};

/// A line in an agent's standard error that is meant for the launcher.
struct Report {
  int rank =
      0;  ///< rank that failed or started; -1 if no rank failed, but a log could not be written
  int status = 0;  ///< status from waitpid(), or kStarted
};
/// Value of Report::status: the rank has started.
constexpr int kStarted = -1;

/// Formats the report as a line, including the newline.
std::string format_report(const Report& report);
/// Returns nullopt if the line is not a report.
std::optional<Report> parse_report(std::string_view line);

/// Separates reports from the output of several writers. A report may follow another writer's
/// unfinished line.
class ReportFilter {
 public:
  /// Returns the text without reports. Holds back text at the end that may be the beginning of a
  /// report.
  std::string add(std::string_view text);
  std::string rest() { return std::exchange(unread_, {}); }
  /// Returns the first failure report.
  const std::optional<Report>& report() const noexcept { return report_; }
  /// Returns the ranks that were reported as started since the last call.
  std::vector<int> take_started() { return std::exchange(started_, {}); }
  /// True after a report with a negative rank, which means that a log could not be written.
  bool log_failed() const noexcept { return log_failed_; }

 private:
  std::string unread_;
  bool log_failed_ = false;
  std::optional<Report> report_;
  std::vector<int> started_;
};

/// Inserts a prefix before each line. A carriage return also ends a line, so that progress bars
/// keep updating. Never splits a UTF-8 character.
class LinePrefix {
 public:
  explicit LinePrefix(std::string prefix) : prefix_(std::move(prefix)) {}
  /// Adds text and returns the lines that are complete. A line of more than a megabyte is returned
  /// in chunks.
  std::string add(std::string_view text);
  /// Returns the remaining text as a line.
  std::string rest();

 private:
  std::string prefix_;
  std::string line_;
};

/// Creates the folder and one file per rank, with DeepSpeed's names "<time>_rank<N>.log". If one of
/// the files exists, "-2" (then "-3", ...) follows the time in all names. Returns the paths. Throws
/// `io` and `invalid_argument`.
std::vector<std::string> make_log_files(const std::string& folder, const std::vector<int>& ranks,
                                        std::chrono::system_clock::time_point now);

/// The output pipes of all ranks, which the launcher reads. No output is lost: if a destination
/// blocks, ranks that write to it wait. Lines of several ranks do not interleave (LineInterleaver).
/// If the launcher's standard output is a terminal, ranks also get a terminal.
class Outputs {
 public:
  /// Throws the same errors as make_log_files(), and `unavailable` if pipes cannot be created.
  Outputs(const std::vector<int>& ranks, const OutputSettings& settings);
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// Returns the descriptors for the ranks; started() closes them in this process.
  const std::vector<RankDescriptors>& descriptors() const noexcept { return descriptors_; }
  void started();
  /// Waits until `link`, `also` or a pipe is readable, for at most `milliseconds` (negative: no
  /// limit), and forwards the pipes' content. Returns true if `link` is readable.
  bool wait(int link, int also = -1, int milliseconds = -1);
  /// Forwards the remaining output without waiting.
  void finish();

  /// Returns the last lines of a rank's standard error, or of both outputs if they go to one file.
  std::vector<std::string> last_lines(std::size_t rank) const;
  /// True if output could not be written to its destination.
  bool failed() const noexcept { return failed_; }
  const std::vector<std::string>& log_files() const noexcept { return log_files_; }
  /// Returns the first report of a rank's failure.
  const std::optional<Report>& report() const noexcept { return report_; }
  /// Returns the ranks that agents reported as started.
  const std::set<int>& ranks_started() const noexcept { return ranks_started_; }

 private:
  struct Stream;
  struct Destination;
  void write(Stream& stream, std::string_view text);
  void write(Destination& destination, std::string_view text);
  void read(Stream& stream);
  void pass(Stream& stream, std::string_view text);
  void close(Stream& stream);

  std::vector<RankDescriptors> descriptors_;
  std::vector<std::unique_ptr<Stream>> streams_;
  /// Standard error and standard output; only one entry if both are the same file.
  std::vector<std::unique_ptr<Destination>> destinations_;
  std::vector<std::string> tails_;
  std::vector<std::string> log_files_;
  std::optional<Report> report_;
  std::set<int> ranks_started_;
  bool failed_ = false;
};

}  // namespace anyaccel::launch
