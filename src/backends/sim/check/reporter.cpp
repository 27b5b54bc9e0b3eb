#include "backends/sim/check/reporter.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace anyaccel::backends::sim::checking {

namespace {

constexpr std::size_t kMaxProblems = 100;

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const auto count = ::write(file, text.data() + done, text.size() - done);
    if (count <= 0) {
      if (count < 0 && errno == EINTR) continue;
      return;
    }
    done += static_cast<std::size_t>(count);
  }
}

std::string rank_from_environment() {
  const char* rank = std::getenv("RANK");
  if (rank == nullptr || *rank == '\0' || std::strlen(rank) > 9) return {};
  for (const char* digit = rank; *digit != '\0'; ++digit)
    if (*digit < '0' || *digit > '9') return {};
  return std::to_string(std::atoi(rank));
}

std::string with_process(std::string name) {
  if (const auto at = name.find("%p"); at != std::string::npos)
    name.replace(at, 2, std::to_string(::getpid()));
  return name;
}

/// False for notes about something other than an error that may end the program.
bool is_error(Kind kind) { return kind != Kind::rejected && kind != Kind::unseeded_device; }

}  // namespace

Reporter::Reporter(bool aborts, const std::string& json_file, Suppressions suppressions)
    : aborts_(aborts),
      file_(with_process(json_file)),
      suppressions_(std::move(suppressions)),
      rank_(rank_from_environment()),
      process_(::getpid()) {}

Problem* Reporter::same(std::vector<Problem>& all, const Problem& problem) {
  for (auto& each : all)
    if (each.kind == problem.kind && each.place == problem.place && each.now.op == problem.now.op &&
        each.now.stream == problem.now.stream && each.before.op == problem.before.op &&
        each.before.stream == problem.before.stream)
      return &each;
  return nullptr;
}

Problem* Reporter::alike(std::vector<Problem>& all, const Problem& problem) {
  if (problem.line.empty()) return nullptr;
  for (auto& each : all)
    if (each.kind == problem.kind && each.line == problem.line &&
        each.now.stream == problem.now.stream && each.before.stream == problem.before.stream)
      return &each;
  return nullptr;
}

bool Reporter::count_locked(const Problem& problem) {
  for (auto* all : {&problems_, &suppressed_}) {
    if (auto* known = same(*all, problem)) {
      ++known->seen;
      return true;
    }
    if (auto* like = alike(*all, problem)) {
      ++like->similar;
      return true;
    }
  }
  return false;
}

bool Reporter::count_note_locked(const Problem& problem) {
  auto* known = same(notes_, problem);
  if (known == nullptr) return false;
  ++known->seen;
  if (is_error(known->kind)) last_note_ = static_cast<std::size_t>(known - notes_.data());
  return true;
}

bool Reporter::count(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  return count_locked(problem);
}

bool Reporter::count_note(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  return count_note_locked(problem);
}

void Reporter::note(Problem problem) {
  const std::lock_guard lock(mutex_);
  if (count_note_locked(problem)) return;
  // Keep the newest note, because its error may be the one that ends the program.
  if (notes_.size() == kMaxProblems) notes_.pop_back();
  if (last_note_ >= notes_.size()) last_note_ = kNone;
  if (is_error(problem.kind)) last_note_ = notes_.size();
  notes_.push_back(std::move(problem));
  write_file();
}

void Reporter::notice(Problem problem) {
  const auto printed = text(problem, rank_, "note: ");
  {
    const std::lock_guard lock(mutex_);
    if (suppressions_.match(problem)) {
      if (suppressed_.size() < kMaxProblems) suppressed_.push_back(std::move(problem));
      return;
    }
  }
  note(std::move(problem));
  write_all(STDERR_FILENO, printed);
}

void Reporter::report_last_note() {
  const std::lock_guard lock(mutex_);
  if (last_note_ >= notes_.size() || ::getpid() != process_) return;
  const auto at = notes_.begin() + static_cast<std::ptrdiff_t>(last_note_);
  auto problem = std::move(*at);
  notes_.erase(at);
  last_note_ = kNone;
  report_locked(std::move(problem));
}

void Reporter::report(Problem problem) {
  const std::lock_guard lock(mutex_);
  report_locked(std::move(problem));
}

void Reporter::report_locked(Problem problem) {
  if (count_locked(problem)) return;
  if (suppressions_.match(problem)) {
    if (suppressed_.size() < kMaxProblems) suppressed_.push_back(std::move(problem));
    return;
  }
  if (problems_.size() == kMaxProblems) {
    ++left_out_;
    return;
  }
  write_all(STDERR_FILENO, text(problem, rank_));
  problems_.push_back(std::move(problem));
  write_file();
  if (aborts_) std::abort();
}

std::vector<Problem> Reporter::problems() const {
  const std::lock_guard lock(mutex_);
  return problems_;
}

std::vector<Problem> Reporter::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

void Reporter::clear() {
  const std::lock_guard lock(mutex_);
  problems_.clear();
  notes_.clear();
  suppressed_.clear();
  last_note_ = kNone;
  left_out_ = 0;
}

void Reporter::finish() {
  const std::lock_guard lock(mutex_);
  if (::getpid() != process_) return;
  write_file();
  std::uint64_t handled = 0;
  const Problem* first = nullptr;
  for (const auto& note : notes_) {
    if (!is_error(note.kind)) continue;  // others have been printed
    if (first == nullptr) first = &note;
    handled += note.seen;
  }
  if (first != nullptr)
    write_all(STDERR_FILENO, "anyaccel: sim check: note: the program handled " +
                                 std::to_string(handled) + (handled == 1 ? " error" : " errors") +
                                 "; the first: " + first->what + "\n");
  if (!suppressed_.empty())
    write_all(STDERR_FILENO, "anyaccel: sim check: " + std::to_string(suppressed_.size()) +
                                 (suppressed_.size() == 1 ? " problem was" : " problems were") +
                                 " suppressed (SIM_CHECK_SUPPRESSIONS)\n");
  if (problems_.empty()) return;
  std::uint64_t seen = left_out_;
  for (const auto& problem : problems_) {
    const auto more = problem.seen - 1 + problem.similar;
    seen += problem.seen + problem.similar;
    if (more != 0)
      write_all(STDERR_FILENO, std::string("anyaccel: sim check: ") + name(problem.kind) + ", " +
                                   (problem.line.empty() ? problem.now.op : problem.line) +
                                   ": and " + std::to_string(more) + " more like it\n");
  }
  write_all(STDERR_FILENO, "anyaccel: sim check: " + std::to_string(problems_.size()) +
                               (problems_.size() == 1 ? " problem" : " problems") + ", seen " +
                               std::to_string(seen) + (seen == 1 ? " time" : " times") +
                               (left_out_ != 0 ? "; further problems were omitted" : "") +
                               "; see the reports above\n");
}

void Reporter::write_file() const {
  if (file_.empty() || ::getpid() != process_) return;
  const auto draft = file_ + ".part";
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool written = false;
  if (file >= 0) {
    write_all(file, json(problems_, notes_, rank_));
    written = ::close(file) == 0 && ::rename(draft.c_str(), file_.c_str()) == 0;
  }
  if (!written)
    write_all(STDERR_FILENO,
              "anyaccel: sim check: cannot write " + file_ + ": " + std::strerror(errno) + "\n");
}

}  // namespace anyaccel::backends::sim::checking
