// What ranks write: passed on, prefixed or kept in files, and the last of it remembered.
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

/// Where the output of ranks goes.
struct OutputSettings {
  bool prefix = false;                    ///< each line begins with "[rank N] "
  std::optional<std::string> log_folder;  ///< a file a rank, and nothing on the terminal
  bool reports = false;  ///< standard error may have reports of launchers on other hosts: they are taken out of it
  bool pipes = false;    ///< standard output passes through the launcher too, so that lines of several ranks stay whole
  bool lines = false;    ///< with `pipes`: both outputs are passed on by whole lines
  bool end_lines =
      false;  ///< with `pipes`: the beginning of a line waits a moment for its end, for output that others pass on
};

/// Of an agent's standard error, a line for the launcher.
struct Report {
  int rank = 0;    ///< -1: none failed, but output could not be written where it belongs
  int status = 0;  ///< as of waitpid(), or kStarted
};
/// The rank did not fail: it was started.
constexpr int kStarted = -1;

/// The line, with its end.
std::string format_report(const Report& report);
/// Nothing for any other line.
std::optional<Report> parse_report(std::string_view line);

/// Text with reports between, of several writers: one's report may stand behind another's line that has no end yet.
class ReportFilter {
 public:
  /// What came without reports, and without what may yet become one.
  std::string add(std::string_view text);
  std::string rest() { return std::exchange(unread_, {}); }
  /// The first report of a failure that came.
  const std::optional<Report>& report() const noexcept { return report_; }
  /// Ranks that were started, by the reports since the last call.
  std::vector<int> take_started() { return std::exchange(started_, {}); }
  /// True when one of a log came: its rank is below 0.
  bool log_failed() const noexcept { return log_failed_; }

 private:
  std::string unread_;
  bool log_failed_ = false;
  std::optional<Report> report_;
  std::vector<int> started_;
};

/// Text as it came, with a prefix before each line; a carriage return ends one too, so that progress bars move. No character is cut.
class LinePrefix {
 public:
  explicit LinePrefix(std::string prefix) : prefix_(std::move(prefix)) {}
  /// All lines that are whole by now. A line of more than a megabyte is given out in pieces.
  std::string add(std::string_view text);
  /// What is left, as a line.
  std::string rest();

 private:
  std::string prefix_;
  std::string line_;
};

/// Makes the folder and one file for each rank, "<time>_rank<N>.log" as DeepSpeed names them; where one is there already, all get
/// "-2" and so on behind their time. Returns the paths. Throws `io` and `invalid_argument`.
std::vector<std::string> make_log_files(const std::string& folder, const std::vector<int>& ranks,
                                        std::chrono::system_clock::time_point now);

/// The pipes of all ranks, read by the launcher. Nothing is lost: while an output is not taken, ranks that write to it wait. Lines of
/// several ranks do not mix (LineTurns). Where the launcher's standard output is a terminal, theirs is one too.
class Outputs {
 public:
  /// Throws as make_log_files(), and `unavailable` when there are no pipes.
  Outputs(const std::vector<int>& ranks, const OutputSettings& settings);
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// What ranks get; closed here by started().
  const std::vector<RankDescriptors>& descriptors() const noexcept { return descriptors_; }
  void started();
  /// Waits until `link`, `also` or a pipe is readable, but no longer than so many milliseconds (below 0: without a limit), and passes on
  /// what the pipes have; true when `link` is readable.
  bool wait(int link, int also = -1, int milliseconds = -1);
  /// Passes on what is left, without waiting.
  void finish();

  /// The last lines of a rank's standard error (of both outputs where they go into one file).
  std::vector<std::string> last_lines(std::size_t rank) const;
  /// True when output could not be written where it belongs.
  bool failed() const noexcept { return failed_; }
  const std::vector<std::string>& log_files() const noexcept { return log_files_; }
  /// The first report of a rank's failure that came.
  const std::optional<Report>& report() const noexcept { return report_; }
  /// Ranks that agents say are started.
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
  std::vector<std::unique_ptr<Destination>>
      destinations_;  ///< of standard output and error; one where they are the same file
  std::vector<std::string> tails_;
  std::vector<std::string> log_files_;
  std::optional<Report> report_;
  std::set<int> ranks_started_;
  bool failed_ = false;
};

}  // namespace anyaccel::launch
