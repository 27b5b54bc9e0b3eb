#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"

namespace anyaccel {
namespace {

using test::mock_traits;
using test::MockBackend;

BackendEntry entry(const std::string& name, int priority, int devices) {
  return {.traits = mock_traits(name, priority),
          .create = [name,
                     devices] { return std::make_shared<MockBackend>(mock_traits(name), devices); },
          .probe =
              [devices] {
                return sdk::Probe{devices, devices > 0 ? "counted by a test" : "none in a test"};
              }};
}

// Fails if backends are not listed in descending order of priority.
TEST(Registry, ListsByPriority) {
  register_backend(entry("low", 5000, 1));
  register_backend(entry("high", 6000, 1));
  const auto names = registered_backends();
  ASSERT_GE(names.size(), 2U);
  EXPECT_EQ(names[0], "high");
  EXPECT_EQ(names[1], "low");
}

// Fails if a duplicate or incomplete entry is accepted.
TEST(Registry, RejectsDuplicateAndEmptyEntries) {
  register_backend(entry("twin", 0, 1));
  EXPECT_ERROR(register_backend(entry("twin", 0, 1)), invalid_argument, "got twin");
  EXPECT_ERROR(register_backend(entry("", 0, 1)), invalid_argument, "name");
  EXPECT_ERROR(register_backend({.traits = mock_traits("hollow"), .create = {}}), invalid_argument,
               "create");
}

// Fails if a lookup by name returns the wrong entry, or does not throw for an unknown name.
TEST(Registry, FindsEntriesByName) {
  register_backend(entry("lower", 0, 1));
  const auto found = registered_backend("lower");
  EXPECT_EQ(found.traits.name, "lower");
  EXPECT_NE(found.create(), nullptr);
  EXPECT_ERROR(registered_backend("no such one"), invalid_argument, "lower");
}

// Fails if finders do not run exactly once, on the first query, or a failing one prevents others
// from running.
TEST(Registry, RunsFindersAtTheFirstQuery) {
  static int calls = 0;
  add_backend_finder([] { throw std::runtime_error("found nothing"); });
  add_backend_finder([] {
    ++calls;
    register_backend(entry("found" + std::to_string(registered_backends().size()), 0, 1));
  });
  EXPECT_EQ(calls, 0);
  const auto names = registered_backends();
  EXPECT_EQ(calls, 1);
  EXPECT_NE(std::find_if(names.begin(), names.end(),
                         [](const auto& name) { return name.starts_with("found"); }),
            names.end());
  registered_backends();
  EXPECT_EQ(calls, 1);
}

// Fails if concurrent registrations are lost or duplicated, or race under the thread sanitizer.
TEST(Registry, RegistersFromManyThreads) {
  constexpr int kThreads = 8;
  constexpr int kEach = 20;
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        // All threads try to register the even-numbered names. Only one may succeed for each name.
        const bool shared = i % 2 == 0;
        try {
          register_backend(
              entry("x" + std::to_string(i) + (shared ? "" : "-" + std::to_string(t)), i, 0));
        } catch (const Error&) {
          ++refused;
        }
        detect();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(refused, (kThreads - 1) * kEach / 2);
}

}  // namespace
}  // namespace anyaccel
