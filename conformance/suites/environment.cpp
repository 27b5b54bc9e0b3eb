// Suite "environment": environment variable lists, and profiler ranges.
#include <ATen/record_function.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>

#include "support.h"

namespace anyaccel::conformance {

namespace {

bool is_variable(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  for (const unsigned char c : name)
    if (std::isalnum(c) == 0 && c != '_') return false;
  return true;
}

void expect_names(const std::vector<std::string>& names, const std::string& what) {
  std::set<std::string> seen;
  for (const auto& name : names) {
    expect(is_variable(name),
           what + " contains '" + name + "', which is not a valid variable name");
    expect(seen.insert(name).second, what + " lists " + name + " twice");
  }
}

thread_local std::vector<std::string>* heard = nullptr;

std::unique_ptr<at::ObserverContext> hear(const at::RecordFunction& function) {
  if (heard != nullptr) heard->emplace_back(function.name());
  return nullptr;
}

/// Returns the names of the scopes that `body` opens, as recorded by torch's profiler.
std::vector<std::string> scopes_of(const std::function<void()>& body) {
  std::vector<std::string> names;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(hear).scopes({at::RecordScope::USER_SCOPE}));
  heard = &names;
  body();
  heard = nullptr;
  at::removeCallback(handle);
  return names;
}

/// If process 1 must skip the case, process 0 writes this line instead of the variable names.
constexpr const char* kNothingToChoose = "-";

std::vector<std::string> told_by_process_0() {
  std::vector<std::string> lines;
  for (;; sleep_ms(1)) {
    std::ifstream in(meeting_file());
    lines.clear();
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    if (!lines.empty() && lines.back() == "end") break;
  }
  lines.pop_back();
  return lines;
}

void tell_process_1(const std::vector<std::string>& lines) {
  std::ofstream out(meeting_file());
  for (const auto& line : lines) out << line << '\n';
  out << "end\n";
}

/// Makes only one device visible to process 1: the first device of process 0.
void make_one_device_visible() {
  if (process_number() == 0) return;
  for (const auto& name : told_by_process_0()) {
    if (name == kNothingToChoose) return;
    const char* present = std::getenv(name.c_str());
    const std::string first =
        present == nullptr ? "0" : std::string(present).substr(0, std::string(present).find(','));
    ::setenv(name.c_str(), first.c_str(), 1);
  }
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(environment, visible_devices_variables_choose_devices, required, true, 2,
                          make_one_device_visible) {
  if (process_number() == 1) {
    if (told_by_process_0().front() == kNothingToChoose) return;
    std::string names;
    for (const auto& name : accelerator.visible_devices_envs())
      names += (names.empty() ? "" : ", ") + name;
    expect_equal(accelerator.device_count(), 1,
                 "device_count() with one device selected by " + names);
    return;
  }
  auto names = accelerator.visible_devices_envs();
  const char* reason = names.empty() ? "no environment variable selects the devices"
                       : accelerator.device_count() < 2 ? "needs 2 devices"
                                                        : nullptr;
  if (reason != nullptr) names = {kNothingToChoose};
  tell_process_1(names);
  if (reason != nullptr) skip(reason);
}

ANYACCEL_CONFORMANCE_CASE(environment, visible_devices_variables_are_names, required) {
  expect_names(accelerator.visible_devices_envs(), "visible_devices_envs()");
}

ANYACCEL_CONFORMANCE_CASE(environment, exported_prefixes_are_names, required) {
  expect_names(accelerator.export_envs(), "export_envs()");
}

ANYACCEL_CONFORMANCE_CASE(environment, start_settings_have_reasons, required) {
  for (const auto& setting : accelerator.backend().traits().start_environment) {
    expect(is_variable(setting.name),
           "a start setting has an invalid name: '" + setting.name + "'");
    expect(!setting.reason.empty(), "the start setting " + setting.name + " has no reason");
  }
}

ANYACCEL_CONFORMANCE_CASE(environment, start_settings_are_made, required) {
  for (const auto& setting : accelerator.backend().traits().start_environment)
    expect(std::getenv(setting.name.c_str()) != nullptr,
           setting.name + " is not set although the accelerator runs");
}

ANYACCEL_CONFORMANCE_CASE(environment, chosen_devices_are_written_to_every_variable, required) {
  std::map<std::string, std::string> variables{{"KEPT", "yes"}};
  accelerator.set_visible_devices_envs(variables, {"3", "1"});
  expect_equal(variables.at("KEPT"), std::string("yes"), "the value of an unrelated variable");
  for (const auto& name : accelerator.visible_devices_envs())
    expect_equal(variables[name], std::string("3,1"),
                 "the value that set_visible_devices_envs() assigned to " + name);
  expect_equal(variables.size(), accelerator.visible_devices_envs().size() + 1,
               "the number of variables");
}

ANYACCEL_CONFORMANCE_CASE(environment, range_reaches_the_profiler, recommended) {
  const auto names = scopes_of([&] {
    accelerator.range_push("conformance range");
    accelerator.range_pop();
  });
  expect(names == std::vector<std::string>{"conformance range"},
         "torch's profiler does not see the range");
}

ANYACCEL_CONFORMANCE_CASE(environment, ranges_nest, required) {
  for (int i = 0; i < 3; ++i) accelerator.range_push("range " + std::to_string(i));
  for (int i = 0; i < 3; ++i) accelerator.range_pop();
}

ANYACCEL_CONFORMANCE_CASE(environment, pop_without_push_is_refused, required) {
  expect_error(
      ErrorCode::invalid_state, [&] { accelerator.range_pop(); }, "range_pop() without a range");
}

ANYACCEL_CONFORMANCE_CASE(environment, ranges_are_each_threads_own, required) {
  accelerator.range_push("outer");
  on_thread([&] {
    expect_error(
        ErrorCode::invalid_state, [&] { accelerator.range_pop(); },
        "popping another thread's range");
  });
  accelerator.range_pop();
}

ANYACCEL_CONFORMANCE_CASE(environment, domains_are_accepted, required) {
  // If a vendor's profiler does not support domains, the domain is silently ignored.
  accelerator.range_push("range", "domain", "category");
  accelerator.range_pop("domain");
}

}  // namespace anyaccel::conformance
