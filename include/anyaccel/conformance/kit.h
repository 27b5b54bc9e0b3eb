// The conformance kit: cases by noun that any backend has to pass, in this tree or outside it.
// Programs use it through `anyaccel conformance`; an outside project may link
// `anyaccel::conformance`, add cases of its own, and call `conformance_main`. See
// docs/reference/conformance.md for what the grades and outcomes mean.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "anyaccel/export.h"

namespace anyaccel {
class Accelerator;
}

namespace anyaccel::conformance {

/// How much a case counts.
enum class Grade {
  required,     ///< portable programs rely on it; the exit code is 0 only when all of these passed
  recommended,  ///< programs work without it, but less well
  optional,     ///< a feature that a backend may have
};

enum class Outcome {
  passed,
  failed,            ///< also: an exception, a crash, no end within the timeout
  skipped,           ///< does not apply here, or is listed as unsupported; the message says why
  expected_failure,  ///< failed, and is listed as such
  unexpected_pass,  ///< passed although listed as an expected failure: take it off the list. Counts
                    ///< as failed.
};

ANYACCEL_API const char* to_string(Grade grade) noexcept;
ANYACCEL_API const char* to_string(Outcome outcome) noexcept;

/// What a case throws to fail; expect() and its kin do it.
class ANYACCEL_API Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a case throws when it does not apply to this backend or machine; the text is the reason.
class ANYACCEL_API Skip : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One case. Its name is a sentence that is true of a correct backend.
struct Case {
  std::string suite;
  std::string name;
  Grade grade = Grade::required;
  /// May throw Failure, Skip or anything else. An `Error` with code `unsupported` means "skipped"
  /// unless the case is required; a required case marks permitted refusals with feature().
  std::function<void(Accelerator&)> run;
  /// True: run in a fresh process.
  bool own_process = false;
  /// Above 1: run in this many fresh processes at once; the case passes if it passes in all. See
  /// process_number().
  int processes = 1;
  /// Called in each of these processes before its accelerator starts; only used if `processes` is
  /// above 1.
  std::function<void()> before_start = {};

  std::string full_name() const { return suite + "." + name; }
};

/// Adds a case. Returns true, so that it can initialize a constant. Call it before or at the
/// beginning of main().
ANYACCEL_API bool register_case(Case item);
/// All cases, suites in the order in which they were first registered.
ANYACCEL_API const std::vector<Case>& all_cases();
/// The same for the cases that `--speed` runs, which measure and call note().
ANYACCEL_API bool register_speed_case(Case item);
ANYACCEL_API const std::vector<Case>& all_speed_cases();

/// Attaches text to the running case's result even if it passes, for example a measured time.
ANYACCEL_API void note(const std::string& text);

/// Number of this process among the processes of a case, from 0.
ANYACCEL_API int process_number() noexcept;
/// Path of an initially empty file through which a case's processes can find each other, for
/// example with c10d's FileStore. "" if there is one process.
ANYACCEL_API const std::string& meeting_file() noexcept;

/// Defines and registers a case: `ANYACCEL_CONFORMANCE_CASE(devices, count_is_stable, required) {
/// ... accelerator ... }`. Optional arguments: `own_process`, `processes`, `before_start`.
#define ANYACCEL_CONFORMANCE_CASE(suite, name, grade, ...)                                 \
  static void suite##_##name(::anyaccel::Accelerator& accelerator);                        \
  [[maybe_unused]] static const bool registered_##suite##_##name =                         \
      ::anyaccel::conformance::register_case({#suite, #name,                               \
                                              ::anyaccel::conformance::Grade::grade,       \
                                              suite##_##name __VA_OPT__(, ) __VA_ARGS__}); \
  static void suite##_##name([[maybe_unused]] ::anyaccel::Accelerator& accelerator)

[[noreturn]] inline void fail(const std::string& message) { throw Failure(message); }
[[noreturn]] inline void skip(const std::string& reason) { throw Skip(reason); }

inline void expect(bool holds, const std::string& otherwise) {
  if (!holds) fail(otherwise);
}

/// Fails with "<what>; got X, want Y" unless the two are equal.
template <typename Got, typename Want>
void expect_equal(const Got& got, const Want& want, const std::string& what) {
  if (got == want) return;
  std::ostringstream text;
  text << what << "; got " << got << ", want " << want;
  fail(text.str());
}

/// Fails unless `body` throws `Error` with this code and a message of our form.
ANYACCEL_API void expect_error(ErrorCode code, const std::function<void()>& body,
                               const std::string& what);

/// Runs what a backend may refuse: `Error` with code `unsupported` becomes Skip with its text.
template <typename Body>
auto feature(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) skip(error.what());
    throw;
  }
}

/// One line of a skip list.
struct ListedCase {
  enum class Kind { unsupported, expected_failure };
  Kind kind = Kind::unsupported;
  std::string pattern;  ///< full name of a case; `*` stands for any text
  std::string reason;   ///< never empty
};

/// Reads a list: lines `unsupported PATTERN REASON...` or `expected-failure PATTERN REASON...`; `#`
/// starts a comment. Throws `invalid_argument` with the line's number.
ANYACCEL_API std::vector<ListedCase> read_skip_list(std::istream& in, const std::string& name);

struct Options {
  std::string backend;              ///< name in the registry; empty: as get_accelerator() chooses
  std::vector<std::string> suites;  ///< empty: all
  std::string cases = "*";          ///< pattern of full names, `*` stands for any text
  std::vector<std::string>
      plugins;  ///< libraries of plugins; without `backend` the first one's is judged
  std::vector<std::string> skip_lists;  ///< files; what is built in for the backend comes first
  std::string json, junit, markdown;    ///< files to write; "-" is standard output
  std::string note;     ///< a sentence for the page, for example the hardware it ran on
  double timeout = 60;  ///< seconds for one case
  bool list = false;    ///< print the cases and end
  bool speed = false;   ///< time tensor ops instead of checking them
  bool quiet = false;   ///< no text on standard output
};

/// An option of the command line.
struct OptionInfo {
  const char* name;   ///< without dashes
  const char* value;  ///< what its value is called; null: a flag
  const char* text;
};
ANYACCEL_API std::span<const OptionInfo> option_table() noexcept;
/// Sets one; flags take "". Throws `invalid_argument`.
ANYACCEL_API void set_option(Options& options, const std::string& name, const std::string& value);

struct Result {
  std::string suite;
  std::string name;
  Grade grade = Grade::required;
  Outcome outcome = Outcome::passed;
  std::string message;  ///< empty when passed
  double seconds = 0;
};

struct ANYACCEL_API Report {
  std::string backend;
  std::string device;  ///< product name of device 0
  int device_count = 0;
  std::string
      standing_in;  ///< what took the device's place when it is simulated; empty on the real thing
  std::string torch_version;
  std::string version;  ///< AnyAccel's
  std::string date;     ///< of the run, YYYY-MM-DD
  std::string note;
  double seconds = 0;
  std::vector<Result> results;

  int count(Grade grade, Outcome outcome) const;
  /// True when every required case passed (or did not apply), nothing passed unexpectedly and
  /// something ran.
  bool conforms() const;
};

/// Runs the chosen cases in child processes, so that a crash or hang costs one case. The calling
/// process starts no device and should not have started one: children are forked. Throws `Error` as
/// get_accelerator() does when there is no such accelerator, `invalid_argument` for an unknown
/// suite or when no case has such a name.
ANYACCEL_API Report run(const Options& options);

ANYACCEL_API void write_text(std::ostream& out, const Report& report);
ANYACCEL_API void write_json(std::ostream& out, const Report& report);
ANYACCEL_API void write_junit(std::ostream& out, const Report& report);
ANYACCEL_API void write_markdown(std::ostream& out, const Report& report);

/// Runs and writes what the options ask for; 0 when the backend conforms, else 1.
ANYACCEL_API int run_and_write(const Options& options);
/// The command line of the kit for programs of others: options as `anyaccel conformance` has them.
/// Exit code as there: 0 conforms, 1 does not or failed, 2 wrong usage.
ANYACCEL_API int conformance_main(int argc, const char* const* argv);

}  // namespace anyaccel::conformance
