// Conformance kit: test cases that every backend must pass, whether inside or outside this
// repository. Users run it with `anyaccel conformance`. An external project can link
// `anyaccel::conformance`, register its own cases and call conformance_main().
// docs/reference/conformance.md explains grades and outcomes.
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

/// How important it is that a backend passes a case.
enum class Grade {
  /// Portable programs rely on this behavior. The exit code is 0 only if no required case fails.
  required,
  recommended,  ///< programs work without it, but less well
  optional,     ///< an optional feature of a backend
};

/// Result of a case.
enum class Outcome {
  passed,
  failed,            ///< includes exceptions, crashes and timeouts
  skipped,           ///< not applicable, or listed as unsupported; the message explains why
  expected_failure,  ///< failed, and is listed as an expected failure
  /// Passed although it is listed as an expected failure. Remove it from the list. Counts as
  /// failed.
  unexpected_pass,
};

/// Return the name of a grade. Never null.
ANYACCEL_API const char* to_string(Grade grade) noexcept;
/// Return the name of an outcome. Never null.
ANYACCEL_API const char* to_string(Outcome outcome) noexcept;

/// Thrown by a failing case, usually through expect() and related functions.
class ANYACCEL_API Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown by a case that does not apply to this backend or machine. The message is the reason.
class ANYACCEL_API Skip : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A test case. Its name states a property of a correct backend.
struct Case {
  std::string suite;
  std::string name;
  Grade grade = Grade::required;
  /// Body of the case. It may throw Failure, Skip or any other exception. An `Error` with code
  /// `unsupported` means "skipped" unless the case is required; in a required case, use feature()
  /// for calls that a backend may reject.
  std::function<void(Accelerator&)> run;
  /// Run the case in a separate process.
  bool own_process = false;
  /// If above 1, number of processes that run the case concurrently. The case passes if it passes
  /// in all of them. See process_number().
  int processes = 1;
  /// Called in each of the processes before the accelerator is initialized. Used only if
  /// `processes` is above 1.
  std::function<void()> before_start = {};

  /// `suite.name`, the text that patterns are matched against.
  std::string full_name() const { return suite + "." + name; }
};

/// Register a case. Always returns true, so the call can initialize a static constant. Call it
/// before main() or at the start of main().
ANYACCEL_API bool register_case(Case item);
/// All cases. Suites appear in the order in which they were first registered.
ANYACCEL_API const std::vector<Case>& all_cases();
/// Register a case that `--speed` runs. The case measures times and reports them with note().
ANYACCEL_API bool register_speed_case(Case item);
/// All cases that `--speed` runs.
ANYACCEL_API const std::vector<Case>& all_speed_cases();

/// Attach text to the result of the running case, for example a measured time. The text is kept
/// even if the case passes.
ANYACCEL_API void note(const std::string& text);

/// Zero-based index of this process among the processes of a case.
ANYACCEL_API int process_number() noexcept;
/// Path of an initially empty file for the rendezvous of a case's processes, for example with
/// c10d's FileStore; empty if there is only one process.
ANYACCEL_API const std::string& meeting_file() noexcept;

/// Define and register a case. Optional arguments: `own_process`, `processes`, `before_start`.
///
///     ANYACCEL_CONFORMANCE_CASE(devices, count_is_stable, required) {
///       expect_equal(accelerator.device_count(), accelerator.device_count(), "device_count()");
///     }
#define ANYACCEL_CONFORMANCE_CASE(suite, name, grade, ...)                                 \
  static void suite##_##name(::anyaccel::Accelerator& accelerator);                        \
  [[maybe_unused]] static const bool registered_##suite##_##name =                         \
      ::anyaccel::conformance::register_case({#suite, #name,                               \
                                              ::anyaccel::conformance::Grade::grade,       \
                                              suite##_##name __VA_OPT__(, ) __VA_ARGS__}); \
  static void suite##_##name([[maybe_unused]] ::anyaccel::Accelerator& accelerator)

/// End the running case as failed.
[[noreturn]] inline void fail(const std::string& message) { throw Failure(message); }
/// End the running case as skipped.
[[noreturn]] inline void skip(const std::string& reason) { throw Skip(reason); }

/// Fail with the message `otherwise` if `holds` is false.
inline void expect(bool holds, const std::string& otherwise) {
  if (!holds) fail(otherwise);
}

/// Fail with "<what>; got X, want Y" unless the two values are equal.
template <typename Got, typename Want>
void expect_equal(const Got& got, const Want& want, const std::string& what) {
  if (got == want) return;
  std::ostringstream text;
  text << what << "; got " << got << ", want " << want;
  fail(text.str());
}

/// Fail unless `body` throws `Error` with this code and a message of the form `[where] text`.
ANYACCEL_API void expect_error(ErrorCode code, const std::function<void()>& body,
                               const std::string& what);

/// Run code that a backend may reject. Converts an `Error` with code `unsupported` to a Skip with
/// the same text.
template <typename Body>
auto feature(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) skip(error.what());
    throw;
  }
}

/// An entry of a skip list.
struct ListedCase {
  enum class Kind { unsupported, expected_failure };
  Kind kind = Kind::unsupported;
  std::string pattern;  ///< full name of a case, in which `*` matches any text
  std::string reason;   ///< never empty
};

/// Read a skip list, which consists of lines of the form `unsupported PATTERN REASON...` or
/// `expected-failure PATTERN REASON...`. `#` starts a comment. `name`: name of the list in error
/// messages. Throws `invalid_argument` with the line number.
ANYACCEL_API std::vector<ListedCase> read_skip_list(std::istream& in, const std::string& name);

/// Options for a run.
struct Options {
  std::string backend;  ///< registered backend name; empty: selected by get_accelerator()
  std::vector<std::string> suites;  ///< suites to run; empty: all
  std::string cases = "*";          ///< pattern for full names, in which `*` matches any text
  /// Plugin libraries to load. Without `backend`, the first library's backend is tested.
  std::vector<std::string> plugins;
  /// Skip-list files, used in addition to the backend's built-in list.
  std::vector<std::string> skip_lists;
  std::string json, junit, markdown;  ///< output files; "-": standard output
  std::string note;                   ///< a note for the Markdown page, for example the hardware
  double timeout = 60;                ///< time limit for each case, in seconds
  bool list = false;                  ///< list the cases instead of running them
  bool speed = false;                 ///< time tensor ops instead of testing
  bool quiet = false;                 ///< do not write text to standard output
};

/// A command-line option of the kit.
struct OptionInfo {
  const char* name;   ///< name without dashes
  const char* value;  ///< placeholder for its value in help text; null for a flag
  /// Help text.
  const char* text;
};
/// All command-line options.
ANYACCEL_API std::span<const OptionInfo> option_table() noexcept;
/// Set the option `name` to `value`. Flags take "". Throws `invalid_argument` for an unknown option
/// or an invalid value.
ANYACCEL_API void set_option(Options& options, const std::string& name, const std::string& value);

/// Result of one case.
struct Result {
  std::string suite;
  std::string name;
  Grade grade = Grade::required;
  Outcome outcome = Outcome::passed;
  std::string message;  ///< empty if passed
  double seconds = 0;
};

/// Results of a run.
struct ANYACCEL_API Report {
  std::string backend;
  std::string device;  ///< product name of device 0
  int device_count = 0;
  /// "a simulated device" if the simulator replaces the hardware, otherwise empty.
  std::string standing_in;
  std::string torch_version;
  std::string version;  ///< version of AnyAccel
  std::string date;     ///< date of the run, YYYY-MM-DD
  std::string note;
  double seconds = 0;
  /// One result per case, in the order of the cases.
  std::vector<Result> results;

  /// Return the number of results with this grade and outcome.
  int count(Grade grade, Outcome outcome) const;
  /// Return true if no required case failed, no case passed unexpectedly and at least one case
  /// passed.
  bool conforms() const;
};

/// Run the selected cases in child processes, so that a crash or hang affects only one case. The
/// calling process does not initialize a device and must not have initialized one, because the
/// child processes are forked. Throws the same errors as get_accelerator() if the accelerator
/// cannot run, and `invalid_argument` for an unknown suite or if no case matches.
ANYACCEL_API Report run(const Options& options);

/// Write a report as human-readable text.
ANYACCEL_API void write_text(std::ostream& out, const Report& report);
/// Write a report as JSON.
ANYACCEL_API void write_json(std::ostream& out, const Report& report);
/// Write a report as JUnit XML.
ANYACCEL_API void write_junit(std::ostream& out, const Report& report);
/// Write a report as a Markdown page.
ANYACCEL_API void write_markdown(std::ostream& out, const Report& report);

/// Run the cases and write the outputs that the options request. Returns 0 if the backend conforms,
/// otherwise 1. Throws the same errors as run(), and `io` if an output cannot be written.
ANYACCEL_API int run_and_write(const Options& options);
/// Run the kit from another project's main(). Accepts the options of `anyaccel conformance`.
/// Returns the exit code: 0 if the backend conforms, 1 if it does not or the run failed, 2 for a
/// usage error.
ANYACCEL_API int conformance_main(int argc, const char* const* argv);

}  // namespace anyaccel::conformance
