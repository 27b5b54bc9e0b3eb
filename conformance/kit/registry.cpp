#include <algorithm>
#include <array>
#include <map>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

namespace {

// Suites, and the cases within each suite, keep their registration order.
struct Cases {
  std::vector<Case> list;
  std::map<std::string, int> suites;
};

Cases& cases(bool speed) {
  static auto* instances = new std::array<Cases, 2>;
  return (*instances)[speed ? 1 : 0];
}

bool add(Cases& all, Case item) {
  const auto order =
      all.suites.try_emplace(item.suite, static_cast<int>(all.suites.size())).first->second;
  const auto place = std::upper_bound(
      all.list.begin(), all.list.end(), order,
      [&](int mine, const Case& other) { return mine < all.suites.at(other.suite); });
  all.list.insert(place, std::move(item));
  return true;
}

}  // namespace

const char* to_string(Grade grade) noexcept {
  switch (grade) {
    case Grade::required: return "required";
    case Grade::recommended: return "recommended";
    case Grade::optional: return "optional";
  }
  return "unknown";
}

const char* to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::passed: return "passed";
    case Outcome::failed: return "failed";
    case Outcome::skipped: return "skipped";
    case Outcome::expected_failure: return "expected_failure";
    case Outcome::unexpected_pass: return "unexpected_pass";
  }
  return "unknown";
}

bool register_case(Case item) { return add(cases(false), std::move(item)); }
const std::vector<Case>& all_cases() { return cases(false).list; }
bool register_speed_case(Case item) { return add(cases(true), std::move(item)); }
const std::vector<Case>& all_speed_cases() { return cases(true).list; }

void expect_error(ErrorCode code, const std::function<void()>& body, const std::string& what) {
  try {
    body();
  } catch (const Error& error) {
    expect_equal(std::string(to_string(error.code())), std::string(to_string(code)),
                 what + " is rejected with the wrong error code (" + error.what() + ")");
    const std::string text = error.what();
    const auto end = text.find("] ");
    expect(text.size() > 4 && text[0] == '[' && end != std::string::npos && end > 1 &&
               end + 2 < text.size(),
           what + " is rejected with an error that lacks a component or a message: '" + text + "'");
    return;
  }
  fail(what + " is not rejected");
}

}  // namespace anyaccel::conformance
