#include "launch/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "anyaccel/error.h"
#include "base/log.h"
#include "launch/line_interleaver.h"
#include "launch/terminal.h"

namespace anyaccel::launch {

namespace {

constexpr std::size_t kLongestLine = 1 << 20;
constexpr std::size_t kTail = 8192;
constexpr std::size_t kTailLines = 10;

std::string prefix_of(int rank) { return "[rank " + std::to_string(rank) + "] "; }

/// Writes `text`. Returns 0, or errno with the unwritten part in `text`.
int write_all(int to, std::string_view& text) {
  while (!text.empty()) {
    const ssize_t count = ::write(to, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      // Another process has made the output non-blocking.
      pollfd one{to, POLLOUT, 0};
      ::poll(&one, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

bool same_file(int one, int other) {
  struct stat a {
  }, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

/// Returns the length of the text without an incomplete UTF-8 character at its end.
std::size_t whole_characters(std::string_view text) {
  for (std::size_t behind = 1; behind <= std::min<std::size_t>(3, text.size()); ++behind) {
    const auto byte = static_cast<unsigned char>(text[text.size() - behind]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > behind ? text.size() - behind : text.size();
  }
  return text.size();
}

void remember(std::string& tail, std::string_view text) {
  tail.append(text.substr(text.size() - std::min(text.size(), kTail)));
  if (tail.size() > 2 * kTail) tail.erase(0, tail.size() - kTail);
}

}  // namespace

constexpr std::string_view kReport = "anyaccel: launch report: rank ";

std::string format_report(const Report& report) {
  return std::string(kReport) + std::to_string(report.rank) + " status " +
         std::to_string(report.status) + "\n";
}

std::optional<Report> parse_report(std::string_view line) {
  if (!line.starts_with(kReport)) return std::nullopt;
  Report out;
  const std::string rest(line.substr(kReport.size()));
  if (std::sscanf(rest.c_str(), "%d status %d", &out.rank, &out.status) != 2) return std::nullopt;
  return out;
}

std::string ReportFilter::add(std::string_view text) {
  unread_.append(text);
  std::string out;
  for (std::size_t begin; (begin = unread_.find(kReport)) != std::string::npos;) {
    const auto end = unread_.find('\n', begin);
    out.append(unread_, 0, begin);
    unread_.erase(0, begin);
    if (end == std::string::npos) return out;
    const auto line = unread_.substr(0, end - begin);
    unread_.erase(0, end - begin + 1);
    const auto report = parse_report(line);
    if (!report)
      out.append(line).append("\n");
    else if (report->status == kStarted)
      started_.push_back(report->rank);
    else if (report->rank < 0)
      log_failed_ = true;
    else if (!report_)
      report_ = report;
  }
  // Keep the longest suffix that may be the beginning of a report.
  std::size_t kept = std::min(unread_.size(), kReport.size());
  while (!kReport.starts_with(std::string_view(unread_).substr(unread_.size() - kept))) --kept;
  out.append(unread_, 0, unread_.size() - kept);
  unread_.erase(0, unread_.size() - kept);
  return out;
}

std::string LinePrefix::add(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = text.find_first_of("\n\r");
    const auto taken = end == std::string_view::npos ? text.size() : end + 1;
    line_.append(text.substr(0, taken));
    text.remove_prefix(taken);
    if (end == std::string_view::npos && line_.size() < kLongestLine) break;
    if (line_ == "\n" && !out.empty() && out.back() == '\r') {
      out += line_;  // the previous line ended in "\r\n"
    } else {
      const auto count = end == std::string_view::npos ? whole_characters(line_) : line_.size();
      out.append(prefix_).append(line_, 0, count);
      if (end == std::string_view::npos) out += '\n';
      line_.erase(0, count);
      continue;
    }
    line_.clear();
  }
  return out;
}

std::string LinePrefix::rest() {
  if (line_.empty()) return {};
  auto out = prefix_ + line_ + "\n";
  line_.clear();
  return out;
}

std::vector<std::string> make_log_files(const std::string& folder, const std::vector<int>& ranks,
                                        std::chrono::system_clock::time_point now) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder))
    throw Error(ErrorCode::io, "launch",
                {.what = "cannot create the --enable_each_rank_log folder " + folder + ": " +
                         (error ? error.message() : "it is not a folder")});
  const auto seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y%m%d%H%M%S", &local);
  for (int attempt = 1;; ++attempt) {
    std::vector<std::string> out;
    for (const int rank : ranks) {
      out.push_back(folder + "/" + time.data() +
                    (attempt > 1 ? "-" + std::to_string(attempt) : "") + "_rank" +
                    std::to_string(rank) + ".log");
      const int file = ::open(out.back().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      const int reason = errno;
      if (file >= 0) {
        ::close(file);
        continue;
      }
      out.pop_back();
      for (const auto& path : out) ::unlink(path.c_str());
      out.clear();
      if (reason == EEXIST && attempt < 1000) break;
      throw Error(
          ErrorCode::io, "launch",
          {.what = "cannot create a rank's log file in " + folder + ": " + std::strerror(reason)});
    }
    if (!out.empty() || ranks.empty()) return out;
  }
}

/// One pipe from a rank.
struct Outputs::Stream {
  int from;
  std::size_t rank;          ///< index of the rank
  int number;                ///< rank number
  bool tail;                 ///< whether to keep the last lines
  std::size_t writer;        ///< index of the writer at the destination
  Destination* destination;  ///< null if the output goes to a log file
  int log = -1;
  std::string file = {};  ///< path of the log file
  bool terminal = false;
  std::optional<LinePrefix> prefix = std::nullopt;
  std::optional<ReportFilter> reports = std::nullopt;
};

/// The launcher's own standard output or error.
struct Outputs::Destination {
  int to;
  LineInterleaver turns;
};

Outputs::Outputs(const std::vector<int>& ranks, const OutputSettings& settings)
    : tails_(ranks.size()) {
  // Check this before opening pipes, because a pipe may reuse the descriptor of a closed standard
  // output. Ranks inherit a closed standard output.
  const bool has_output = ::fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  if (settings.log_folder)
    log_files_ = make_log_files(*settings.log_folder, ranks, std::chrono::system_clock::now());
  const auto mode = settings.prefix || settings.lines || settings.log_folder
                        ? LineInterleaver::Mode::line_ends
                    : settings.end_lines ? LineInterleaver::Mode::whole_lines
                                         : LineInterleaver::Mode::as_written;
  const auto destination = [&](int to) {
    destinations_.push_back(
        std::make_unique<Destination>(Destination{to, {2 * ranks.size(), mode}}));
    return destinations_.back().get();
  };
  auto* error = destination(STDERR_FILENO);
  auto* output = same_file(STDOUT_FILENO, STDERR_FILENO) ? error : destination(STDOUT_FILENO);
  const bool plain = !settings.prefix && !settings.lines && !settings.reports;
  const auto add = [&](std::size_t rank, Destination* to, bool tail) {
    int ends[2];
    const bool terminal =
        plain && to == output && !tail && ::isatty(STDOUT_FILENO) == 1 && open_terminal(ends);
    if (terminal) copy_size(STDOUT_FILENO, ends[0]);
    if (!terminal && ::pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorCode::unavailable, "launch",
                  {.what = std::string("cannot create a pipe for a rank's output: ") +
                           std::strerror(errno)});
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    streams_.push_back(
        std::make_unique<Stream>(Stream{ends[0], rank, ranks[rank], tail, streams_.size(), to}));
    streams_.back()->terminal = terminal;
    if (settings.prefix)
      streams_.back()->prefix.emplace(prefix_of(ranks[rank]));
    else if (settings.lines)
      streams_.back()->prefix.emplace("");
    return ends[1];
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& mine = descriptors_.emplace_back();
    if (settings.log_folder) {
      // Use one pipe for both outputs, so that their lines keep their order.
      const int file = ::open(log_files_[i].c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
      if (file < 0)
        throw Error(ErrorCode::io, "launch",
                    {.what = "cannot open the rank's log file " + log_files_[i] + ": " +
                             std::strerror(errno)});
      mine.output = mine.error = add(i, nullptr, true);
      streams_.back()->log = file;
      streams_.back()->file = log_files_[i];
    } else {
      if (has_output && (settings.prefix || settings.pipes)) mine.output = add(i, output, false);
      mine.error = add(i, error, true);
      if (settings.reports) streams_.back()->reports.emplace();
    }
  }
}

Outputs::~Outputs() {
  for (auto& stream : streams_) close(*stream);
  started();
}

void Outputs::started() {
  for (auto& one : descriptors_) {
    if (one.output >= 0) ::close(one.output);
    if (one.error >= 0 && one.error != one.output) ::close(one.error);
    one = {};
  }
}

void Outputs::close(Stream& stream) {
  if (stream.from < 0) return;
  if (stream.reports) pass(stream, stream.reports->rest());
  if (stream.prefix && stream.from >= 0) write(stream, stream.prefix->rest());
  if (stream.destination != nullptr && stream.from >= 0)
    write(*stream.destination,
          stream.destination->turns.end(stream.writer, LineInterleaver::Clock::now()));
  if (stream.from < 0) return;  // closed after a failure
  ::close(stream.from);
  if (stream.log >= 0) ::close(stream.log);
  stream.from = stream.log = -1;
}

void Outputs::pass(Stream& stream, std::string_view text) {
  if (stream.prefix)
    write(stream, stream.prefix->add(text));
  else
    write(stream, text);
}

void Outputs::write(Stream& stream, std::string_view text) {
  if (stream.destination != nullptr)
    return write(*stream.destination,
                 stream.destination->turns.add(stream.writer, text, LineInterleaver::Clock::now()));
  const int error = write_all(stream.log, text);
  if (error == 0) return;
  failed_ = true;
  anyaccel::log(LogLevel::error, "launch: the log of rank " + std::to_string(stream.number) +
                                     " cannot be written: " + stream.file + ": " +
                                     std::strerror(error) +
                                     "; the rest of its output goes to standard error");
  ::close(stream.log);
  stream.log = -1;
  stream.destination = destinations_.front().get();
  stream.prefix.emplace(prefix_of(stream.number));
  pass(stream, text);
}

void Outputs::write(Destination& destination, std::string_view text) {
  const int error = write_all(destination.to, text);
  if (error == 0) return;
  failed_ = true;
  if (error != EPIPE)
    anyaccel::log(LogLevel::error, std::string("launch: the output of ranks cannot be written: ") +
                                       std::strerror(error));
  // Close the pipes, so that the ranks get the same kind of error as if they wrote to the failed
  // destination directly.
  for (auto& stream : streams_)
    if (stream->destination == &destination && stream->from >= 0) {
      ::close(stream->from);
      stream->from = -1;
    }
}

void Outputs::read(Stream& stream) {
  static std::array<char, 65536> buffer;
  const ssize_t count = ::read(stream.from, buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close(stream);
  std::string_view text(buffer.data(), static_cast<std::size_t>(count));
  std::string without;
  if (stream.reports) {
    without = stream.reports->add(text);
    if (!report_) report_ = stream.reports->report();
    for (const int rank : stream.reports->take_started()) ranks_started_.insert(rank);
    failed_ = failed_ || stream.reports->log_failed();
    text = without;
  }
  if (stream.tail) remember(tails_[stream.rank], text);
  pass(stream, text);
}

bool Outputs::wait(int link, int also, int milliseconds) {
  auto now = LineInterleaver::Clock::now();
  for (const auto& destination : destinations_) {
    const int left = destination->turns.milliseconds(now);
    if (left >= 0 && (milliseconds < 0 || left < milliseconds)) milliseconds = left;
  }
  std::vector<pollfd> all{{link, POLLIN, 0}};
  for (const auto& stream : streams_) {
    if (stream->terminal && stream->from >= 0) copy_size(STDOUT_FILENO, stream->from);
    const bool full =
        stream->destination != nullptr && stream->destination->turns.is_full(stream->writer);
    all.push_back({full ? -1 : stream->from, POLLIN, 0});
  }
  all.push_back({also, POLLIN, 0});
  if (::poll(all.data(), all.size(), milliseconds) < 0) return false;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (all[i + 1].revents != 0 && streams_[i]->from >= 0) read(*streams_[i]);
  now = LineInterleaver::Clock::now();
  for (auto& destination : destinations_) write(*destination, destination->turns.overdue(now));
  return all.front().revents != 0;
}

void Outputs::finish() {
  for (auto& stream : streams_) {
    // No process writes to the pipe anymore, so this loop ends.
    for (pollfd one{stream->from, POLLIN, 0}; stream->from >= 0 && ::poll(&one, 1, 0) > 0;)
      read(*stream);
    close(*stream);
  }
  for (auto& destination : destinations_)
    write(*destination, destination->turns.rest(LineInterleaver::Clock::now()));
}

std::vector<std::string> Outputs::last_lines(std::size_t rank) const {
  std::vector<std::string> out;
  const auto& tail = tails_[rank];
  std::size_t begin = 0;
  // The tail may begin inside a character.
  while (begin < tail.size() && (static_cast<unsigned char>(tail[begin]) & 0xC0U) == 0x80U) ++begin;
  for (; begin < tail.size();) {
    const auto end = std::min(tail.find_first_of("\n\r", begin), tail.size());
    if (end > begin) out.push_back(tail.substr(begin, end - begin));
    begin = end + 1;
  }
  if (out.size() > kTailLines)
    out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(kTailLines));
  return out;
}

}  // namespace anyaccel::launch
