// Writes the report as text, and as a Markdown page for publication.
#include <algorithm>
#include <iomanip>
#include <map>
#include <ostream>

#include "anyaccel/conformance/kit.h"
#include "next_steps.h"

namespace anyaccel::conformance {

namespace {

constexpr Grade kGrades[] = {Grade::required, Grade::recommended, Grade::optional};

/// True for failures, expected failures and unexpected passes, which the report prints
/// individually.
bool worth_a_line(const Result& result) {
  return result.outcome != Outcome::passed && result.outcome != Outcome::skipped;
}

std::vector<std::string> suites_of(const Report& report) {
  std::vector<std::string> names;
  for (const auto& result : report.results)
    if (std::find(names.begin(), names.end(), result.suite) == names.end())
      names.push_back(result.suite);
  return names;
}

int count(const Report& report, const std::string& suite, Grade grade, Outcome outcome) {
  return static_cast<int>(
      std::count_if(report.results.begin(), report.results.end(), [&](const Result& result) {
        return result.suite == suite && result.grade == grade && result.outcome == outcome;
      }));
}

/// Returns the names of the skipped cases by skip reason.
std::map<std::string, std::vector<std::string>> skips(const Report& report) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const auto& result : report.results)
    if (result.outcome == Outcome::skipped)
      reasons[result.message].push_back(result.suite + "." + result.name);
  return reasons;
}

std::string upper(const char* text) {
  std::string out = text;
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return out;
}

/// Returns, for example, "a.b, a.c and 3 more".
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 3) text += " and " + std::to_string(names.size() - 3) + " more";
  return text;
}

/// Escapes text for a cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// Prints what to fix next, if anything failed.
void write_next_steps(std::ostream& out, const Report& report) {
  const auto steps = next_steps(report);
  if (steps.empty()) return;
  out << "next: fix the failures in this order; a suite builds on the ones above it\n";
  int number = 0;
  for (const auto& step : steps) {
    out << "  " << ++number << ". " << step.suite << ", " << step.cases.size() << " failed ("
        << step.required << " required)";
    if (!step.hint.empty()) out << ": " << step.hint;
    out << "\n     " << some_of(step.cases) << "\n";
  }
}

}  // namespace

void write_text(std::ostream& out, const Report& report) {
  out << "conformance of the accelerator '" << report.backend << "': " << report.device << ", "
      << report.device_count << (report.device_count == 1 ? " device" : " devices") << ", LibTorch "
      << report.torch_version << ", AnyAccel " << report.version << "\n";
  if (!report.standing_in.empty()) out << report.standing_in << " stands in for the hardware\n";
  for (const auto& result : report.results) {
    const bool measured = result.outcome == Outcome::passed && !result.message.empty();
    if (measured)
      out << std::left << std::setw(40) << result.suite + "." + result.name << ' ' << result.message
          << "\n";
    if (worth_a_line(result))
      out << upper(to_string(result.outcome)) << "  " << result.suite << '.' << result.name << " ("
          << to_string(result.grade) << ")\n    " << result.message << "\n";
  }
  for (const auto& [reason, names] : skips(report))
    out << "skipped " << names.size() << ": " << reason << " (" << some_of(names) << ")\n";
  write_next_steps(out, report);
  for (const Grade grade : kGrades) {
    out << std::left << std::setw(12) << to_string(grade) << std::right << std::setw(4)
        << report.count(grade, Outcome::passed) << " passed " << std::setw(4)
        << report.count(grade, Outcome::failed) << " failed " << std::setw(4)
        << report.count(grade, Outcome::skipped) << " skipped";
    const int expected = report.count(grade, Outcome::expected_failure);
    const int unexpected = report.count(grade, Outcome::unexpected_pass);
    if (expected > 0) out << ", " << expected << " failed as expected";
    if (unexpected > 0) out << ", " << unexpected << " passed unexpectedly";
    out << "\n";
  }
  out << (report.conforms() ? "conforms" : "does not conform") << " (" << report.results.size()
      << " cases, " << std::fixed << std::setprecision(1) << report.seconds << " s)\n";
}

void write_markdown(std::ostream& out, const Report& report) {
  out << "# Conformance of `" << report.backend << "`\n\n"
      << (report.conforms() ? "Conforms: every required case passed or was skipped.\n\n"
                            : "Does not conform.\n\n")
      << "| | |\n| --- | --- |\n"
      << "| device | " << cell(report.device) << "; " << report.device_count
      << (report.device_count == 1 ? " device" : " devices") << " |\n"
      << "| date | " << report.date << " |\n"
      << "| AnyAccel, LibTorch | " << report.version << ", " << report.torch_version << " |\n"
      << "| run on | "
      << (report.standing_in.empty() ? "the device itself"
                                     : report.standing_in + ": not run on hardware")
      << " |\n";
  if (!report.note.empty()) out << "| note | " << cell(report.note) << " |\n";
  out << "\n| suite | required | recommended | optional | skipped |\n| --- | ---: | ---: | ---: | "
         "---: |\n";
  for (const auto& suite : suites_of(report)) {
    out << "| " << suite;
    int skipped = 0;
    for (const Grade grade : kGrades) {
      const int passed = count(report, suite, grade, Outcome::passed);
      const int ran = passed + count(report, suite, grade, Outcome::failed) +
                      count(report, suite, grade, Outcome::expected_failure) +
                      count(report, suite, grade, Outcome::unexpected_pass);
      skipped += count(report, suite, grade, Outcome::skipped);
      out << " | " << (ran == 0 ? "" : std::to_string(passed) + " of " + std::to_string(ran));
    }
    out << " | " << skipped << " |\n";
  }
  bool any = false;
  for (const auto& result : report.results) {
    if (!worth_a_line(result)) continue;
    if (!any)
      out << "\n## Failed cases\n\n| case | grade | outcome | message |\n"
             "| --- | --- | --- | --- |\n";
    any = true;
    out << "| " << result.suite << '.' << result.name << " | " << to_string(result.grade) << " | "
        << to_string(result.outcome) << " | " << cell(result.message) << " |\n";
  }
  const auto reasons = skips(report);
  if (!reasons.empty()) out << "\n## Skipped cases\n\n| cases | reason |\n| --- | --- |\n";
  for (const auto& [reason, names] : reasons)
    out << "| " << some_of(names) << " | " << cell(reason) << " |\n";
}

}  // namespace anyaccel::conformance
