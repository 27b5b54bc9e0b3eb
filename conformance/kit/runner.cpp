#include <torch/headeronly/version.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <set>

#include "anyaccel/accelerator.h"
#include "anyaccel/conformance/kit.h"
#include "anyaccel/pattern.h"
#include "anyaccel/version.h"
#include "skip_list.h"
#include "worker.h"

namespace anyaccel::conformance {

namespace {

std::vector<const Case*> chosen_cases(const Options& options) {
  std::set<std::string> known, wanted(options.suites.begin(), options.suites.end());
  std::vector<const Case*> chosen;
  for (const auto& item : options.speed ? all_speed_cases() : all_cases()) {
    known.insert(item.suite);
    if (!wanted.empty() && wanted.count(item.suite) == 0) continue;
    if (matches_pattern(options.cases, item.full_name())) chosen.push_back(&item);
  }
  for (const auto& suite : wanted) {
    if (known.count(suite) != 0) continue;
    std::string names;
    for (const auto& name : known) names += (names.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::invalid_argument, "conformance",
                {.what = "unknown suite", .got = "'" + suite + "'", .want = "one of " + names});
  }
  if (chosen.empty())
    throw Error(
        ErrorCode::invalid_argument, "conformance",
        {.what = "no case matches", .got = "'" + options.cases + "'", .hint = "see --list"});
  return chosen;
}

bool alone(const Case& item) { return item.own_process || item.processes > 1; }

/// Groups the cases by process. A case that needs its own process gets its own group; all other
/// cases share one group.
std::vector<std::vector<const Case*>> grouped(const std::vector<const Case*>& cases) {
  std::vector<std::vector<const Case*>> groups(1);
  for (const Case* item : cases)
    if (!alone(*item)) groups.front().push_back(item);
  if (groups.front().empty()) groups.clear();
  for (const Case* item : cases)
    if (alone(*item)) groups.push_back({item});
  return groups;
}

/// Sorts the results into the order of the cases.
void sort_as(const std::vector<const Case*>& cases, std::vector<Result>& results) {
  const auto place = [&](const Result& result) {
    return std::find_if(cases.begin(), cases.end(), [&](const Case* item) {
      return item->suite == result.suite && item->name == result.name;
    });
  };
  std::stable_sort(results.begin(), results.end(),
                   [&](const Result& a, const Result& b) { return place(a) < place(b); });
}

void apply(const std::vector<ListedCase>& list, Result& result) {
  const auto* listed = find_listed(list, result.suite + "." + result.name);
  if (listed == nullptr || listed->kind != ListedCase::Kind::expected_failure) return;
  if (result.outcome == Outcome::failed) {
    result.outcome = Outcome::expected_failure;
    result.message = listed->reason + " (" + result.message + ")";
  } else if (result.outcome == Outcome::passed) {
    result.outcome = Outcome::unexpected_pass;
    result.message =
        "passed although listed as an expected failure; remove it from the list. Listed reason: " +
        listed->reason;
  }
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

}  // namespace

int Report::count(Grade grade, Outcome outcome) const {
  return static_cast<int>(std::count_if(results.begin(), results.end(), [&](const Result& result) {
    return result.grade == grade && result.outcome == outcome;
  }));
}

bool Report::conforms() const {
  bool ran = false;
  for (const auto& result : results) {
    if (result.outcome == Outcome::unexpected_pass) return false;
    if (result.outcome == Outcome::failed && result.grade == Grade::required) return false;
    ran = ran || result.outcome == Outcome::passed;
  }
  return ran;
}

Report run(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto cases = chosen_cases(options);
  Report report;
  report.version = ANYACCEL_VERSION;
  report.torch_version = TORCH_VERSION;
  report.date = today();
  report.note = options.note;
  // Only this variable shows that the simulator is standing in for a real device.
  if (const char* name = std::getenv("SIM_STANDS_IN_FOR"); name != nullptr && *name != '\0')
    report.standing_in = "a simulated device";

  Subject subject;
  const auto run_case = [&](const Case& item, Accelerator& accelerator) {
    static const auto list = skip_list_of(accelerator.name(), options);
    if (const auto* listed = find_listed(list, item.full_name());
        listed != nullptr && listed->kind == ListedCase::Kind::unsupported)
      skip(listed->reason);
    item.run(accelerator);
  };
  for (auto group : grouped(cases)) {
    while (!group.empty()) {
      const auto end = run_worker(group, options, run_case, subject, report.results);
      if (!end.refused.empty() && report.results.empty())
        throw Error(end.refused_code, "conformance",
                    {.what = "the conformance kit cannot run: " + end.refused});
      if (!end.refused.empty())  // the accelerator was initialized before, so only this case failed
        report.results.push_back(
            {group[0]->suite, group[0]->name, group[0]->grade, Outcome::failed, end.refused, 0});
      group.erase(group.begin(),
                  group.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, end.done)));
    }
  }
  sort_as(cases, report.results);
  const auto list = skip_list_of(subject.backend, options);
  for (auto& result : report.results) apply(list, result);
  report.backend = subject.backend;
  report.device = subject.device;
  report.device_count = subject.device_count;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace anyaccel::conformance
