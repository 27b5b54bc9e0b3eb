#include "next_steps.h"

#include <algorithm>
#include <iterator>

namespace anyaccel::conformance {
namespace {

struct Stage {
  const char* suite;
  const char* hint;
};

/// The suites in the order in which to implement them. Each suite builds on the ones above it.
constexpr Stage kStages[] = {
    {"identity", "the traits file, or the behavior that it declares"},
    {"devices", "the device guard (devices, current device, synchronization) and copies"},
    {"memory", "the allocator and its statistics"},
    {"dtypes", "the kernels for each dtype, and dtype_support()"},
    {"ops", "the op's kernel, or the fallback that runs it on the host"},
    {"random", "the generators of the hooks"},
    {"errors", "argument checks, and errors of failed work"},
    {"streams", "the streams and events of the device guard, and record_stream()"},
    {"threads", "thread-local current devices and streams, and locks"},
    {"fork", "functions that must work in a forked child"},
    {"pinned", "the allocator for pinned memory, and non-blocking copies"},
    {"environment", "the environment variables in the traits file"},
    {"op_builders", "the op builders that the plugin registers"},
    {"device_module", "torch.<device type>, the hooks and autocast"},
    {"collectives", "the communication backend"},
    {"graphs", "graph capture; the backend may leave it unsupported"},
};

std::ptrdiff_t stage_of(const std::string& suite) {
  return std::find_if(std::begin(kStages), std::end(kStages),
                      [&](const Stage& stage) { return suite == stage.suite; }) -
         std::begin(kStages);
}

}  // namespace

std::vector<NextStep> next_steps(const Report& report) {
  std::vector<NextStep> steps;
  for (const auto& result : report.results) {
    if (result.outcome != Outcome::failed) continue;
    auto step = std::find_if(steps.begin(), steps.end(),
                             [&](const NextStep& item) { return item.suite == result.suite; });
    if (step == steps.end()) {
      const auto stage = stage_of(result.suite);
      const bool known = stage < std::ssize(kStages);
      step = steps.insert(steps.end(), {result.suite, known ? kStages[stage].hint : "", {}, 0});
    }
    step->cases.push_back(result.suite + "." + result.name);
    if (result.grade == Grade::required) ++step->required;
  }
  std::stable_sort(steps.begin(), steps.end(), [](const NextStep& a, const NextStep& b) {
    return std::pair(a.required == 0, stage_of(a.suite)) <
           std::pair(b.required == 0, stage_of(b.suite));
  });
  return steps;
}

}  // namespace anyaccel::conformance
