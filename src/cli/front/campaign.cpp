// `anyaccel sim campaign`: runs a program many times, each time with one injected fault, and lists
// the faults that the program does not survive.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/shell.h"
#include "base/untrusted_text.h"
#include "cli/front/campaign_faults.h"
#include "cli/front/front.h"
#include "cli/front/parser.h"
#include "cli/front/sim_options.h"
#include "launch/contained_program.h"

namespace anyaccel::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
constexpr const char* kCampaign = "sim campaign";

struct CampaignOptions {
  double time_limit = 600;  // seconds
  double run_limit = 0;     // seconds; 0: derived from the run without faults
  std::uint64_t runs = 0;   // 0: no limit
  std::uint64_t seed = 0;
  std::vector<std::string> kinds = campaign_kinds();
  std::string report;
};

struct Run {
  InjectedFault fault;
  int status = 0;  // exit code, or 128 + signal; -1: the time limit was reached
  double seconds = 0;
  std::string last_line;

  bool survived() const { return status == 0; }
};

std::string counted(std::uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string describe(int status) {
  if (status == 0) return "survived";
  if (status == -1) return "timed out";
  // A shell reports a signal as 128 + its number. Larger exit codes are the program's own.
  if (const char* name = status > 128 ? ::sigabbrev_np(status - 128) : nullptr; name != nullptr)
    return "killed by SIG" + std::string(name);
  return "exit code " + std::to_string(status);
}

/// Returns the last line of the output that is not blank, as printable text of limited length.
std::string last_line(const std::string& output) {
  const auto end = output.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return {};
  const auto begin = output.rfind('\n', end);
  return printable_text(output.substr(begin + 1, end - begin), 160);
}

Run run_once(const std::vector<std::string>& command, const launch::Variables& changes,
             double limit) {
  const auto begin = Clock::now();
  const auto program = launch::run_contained(command, changes, limit);
  Run run;
  run.status = program.timed_out ? -1 : program.exit_code;
  run.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  run.last_line = last_line(program.output);
  return run;
}

/// A temporary folder for the operation counts that the processes of a run write. The destructor
/// deletes it.
class CountsFolder {
 public:
  CountsFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "anyaccel-campaign-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(
          ErrorCode::io, kCampaign,
          {.what = "cannot create the temporary folder " + name + ": " + std::strerror(errno)});
    path_ = name;
  }
  ~CountsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CountsFolder(const CountsFolder&) = delete;
  CountsFolder& operator=(const CountsFolder&) = delete;

  std::string pattern() const { return path_ + "/%p"; }

  Counts read() const {
    Counts counts;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      const auto json = Json::parse(try_read_file(file.path(), 4096).value_or(""), nullptr, false);
      if (!json.is_object()) continue;
      counts.allocations =
          std::max(counts.allocations, json.value("allocations", std::uint64_t{0}));
      counts.launches = std::max(counts.launches, json.value("launches", std::uint64_t{0}));
    }
    return counts;
  }

 private:
  std::string path_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return words;
}

std::unique_ptr<CLI::App> campaign_parser(CampaignOptions& options) {
  auto app = make_parser(
      "sim campaign",
      "Run a program, for example a test suite, many times on a simulated accelerator, each time "
      "with one injected fault: the k-th allocation fails (alloc), a kernel fails (kernel), the "
      "device is lost (lost), a kernel takes 50 ms longer (slow), or random kernels are delayed, "
      "which reorders the work of different streams (reorder). List the faults after which the "
      "program fails, with the command that repeats each. Exit code: 0 if the program survives all "
      "faults, 1 if not.");
  add_sim_options(*app, {"--faults", "--json", "--log-level"});
  app->add_option("--time-limit", options.time_limit, "Stop after this many seconds (default: 600)")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app->add_option(
         "--run-limit", options.run_limit,
         "End a run after this many seconds (default: 10 s plus 5 times the duration of the run "
         "without faults)")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app->add_option("--runs", options.runs, "Maximum number of runs with a fault")->type_name("N");
  // SIM_SEED accepts up to 2^63 - 1, and each run with "reorder" adds 1.
  app->add_option("--seed", options.seed,
                  "Seed for the order of the faults and for reorder (default: 0)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 62));
  app->add_option_function<std::string>(
         "--kinds", [&options](const std::string& text) { options.kinds = split(text); },
         "Kinds of faults, separated by commas (default: alloc,kernel,lost,slow,reorder)")
      ->type_name("LIST");
  app->add_option("--report", options.report, "Write the results to this file as JSON")
      ->type_name("FILE");
  return app;
}

void check_kinds(const std::vector<std::string>& kinds) {
  const auto& known = campaign_kinds();
  for (const auto& kind : kinds)
    if (std::find(known.begin(), known.end(), kind) == known.end())
      throw UsageError("sim campaign: unknown fault kind " + quoted_text(kind) +
                       "; expected alloc, kernel, lost, slow or reorder");
}

/// The command that repeats a run.
std::string repeat_command(const InjectedFault& fault, const std::vector<std::string>& options,
                           const std::vector<std::string>& program) {
  std::vector<std::string> words{"anyaccel", ANYACCEL_SIM_NAME, "run", "--faults", fault.faults};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  const auto seed = fault.kind == "reorder" ? "SIM_SEED=" + std::to_string(fault.seed) + " " : "";
  return seed + shell_quoted(words);
}

void print_run(const Run& run) {
  const auto name = run.fault.faults +
                    (run.fault.kind == "reorder" ? ", seed " + std::to_string(run.fault.seed) : "");
  std::printf("%-28s %-18s %s\n", name.c_str(), describe(run.status).c_str(),
              run.survived() ? "" : run.last_line.c_str());
  std::fflush(stdout);
}

Json to_json(const Run& run, const std::string& repeat) {
  return {{"kind", run.fault.kind},     {"faults", run.fault.faults},
          {"seed", run.fault.seed},     {"outcome", describe(run.status)},
          {"survived", run.survived()}, {"seconds", run.seconds},
          {"last_line", run.last_line}, {"repeat", repeat}};
}

}  // namespace

int run_campaign(std::span<const char* const> words) {
  CampaignOptions options;
  const auto app = campaign_parser(options);
  const auto end = end_of_options(*app, words);
  if (const auto code = parse_words(*app, words.first(end))) return *code;
  check_kinds(options.kinds);
  const auto sim_options = given_sim_options(*app);
  const auto given = program_words("sim campaign", words, end);
  const std::vector<std::string> program(given.begin(), given.end());
  std::vector<std::string> command{own_folder() + "/anyaccel", ANYACCEL_SIM_NAME, "run", "--"};
  command.insert(command.end(), program.begin(), program.end());

  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const CountsFolder folder;
  const auto first =
      run_once(command, {{"SIM_COUNTS", folder.pattern()}, {"SIM_FAULTS", ""}}, options.time_limit);
  if (!first.survived())
    throw Error(ErrorCode::invalid_state, kCampaign,
                {.what = "the program fails even without faults: " + describe(first.status) +
                         ", last line: " + first.last_line,
                 .hint = "run it with `anyaccel sim run` and fix it first"});
  const auto counts = folder.read();
  std::printf("without faults: %s and %s per device, %.1f s\n",
              counted(counts.allocations, "allocation").c_str(),
              counted(counts.launches, "kernel").c_str(), first.seconds);
  if (counts.allocations == 0 && counts.launches == 0)
    throw Error(ErrorCode::invalid_state, kCampaign,
                {.what = "the program does not use the simulated accelerator",
                 .hint = "use --stands-in-for if it uses another device, for example cuda"});

  const double limit = options.run_limit > 0 ? options.run_limit : 10 + 5 * first.seconds;
  FaultPlan plan(options.kinds, counts, options.seed);
  std::vector<Run> runs;
  while ((options.runs == 0 || runs.size() < options.runs) && elapsed() < options.time_limit) {
    const auto fault = plan.next();
    if (!fault) break;
    auto run = run_once(
        command, {{"SIM_FAULTS", fault->faults}, {"SIM_SEED", std::to_string(fault->seed)}}, limit);
    run.fault = *fault;
    print_run(run);
    runs.push_back(std::move(run));
  }
  Json all = Json::array();
  std::size_t failed = 0;
  for (const auto& run : runs) {
    const auto repeat = repeat_command(run.fault, sim_options, program);
    all.push_back(to_json(run, repeat));
    if (run.survived()) continue;
    if (failed++ == 0) std::printf("\nto repeat the failures:\n");
    std::printf("  %s\n", repeat.c_str());
  }
  std::printf("\n%zu of %zu faults survived, %.0f s\n", runs.size() - failed, runs.size(),
              elapsed());
  if (!options.report.empty())
    write_file_atomically(options.report,
                          Json{{"version", 1},
                               {"allocations", counts.allocations},
                               {"launches", counts.launches},
                               {"runs", all}}
                                  .dump(1, ' ', false, Json::error_handler_t::replace) +
                              "\n");
  return failed == 0 ? 0 : 1;
}

}  // namespace anyaccel::cli
