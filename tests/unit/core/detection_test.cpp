#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/registration.h"
#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

using test::mock_traits;
using test::MockBackend;
using test::ScopedEnv;

void add(const std::string& name, int devices, int priority = 9000,
         std::string reason = "counted by a test") {
  register_backend(
      {.traits = mock_traits(name, priority),
       .create = [name,
                  devices] { return std::make_shared<MockBackend>(mock_traits(name), devices); },
       .probe =
           [devices, reason] {
             return sdk::Probe{devices, reason};
           }});
}

const BackendVerdict& verdict(const Detection& detection, const std::string& name) {
  for (const auto& one : detection.backends)
    if (one.name == name) return one;
  throw std::runtime_error("no verdict for " + name);
}

class DetectionTest : public testing::Test {
 private:
  ScopedEnv accelerator_{"DS_ACCELERATOR", nullptr};
  ScopedEnv strict_{"ANYACCEL_STRICT", nullptr};
};

// Fails if a registered backend cannot be selected by name.
TEST_F(DetectionTest, NamedBackendWins) {
  add("other", 4, 9999);
  add("mydev", 3, -50);
  const ScopedEnv env("DS_ACCELERATOR", "mydev");
  EXPECT_EQ(get_accelerator().name(), "mydev");
  EXPECT_EQ(get_accelerator().device_count(), 3);
  EXPECT_THAT(detection().reason, testing::HasSubstr("DS_ACCELERATOR"));
}

// Fails if an unknown name falls back to another accelerator, or the error does not list the
// registered backends.
TEST_F(DetectionTest, UnknownNameListsRegisteredBackends) {
  add("mydev", 1);
  const ScopedEnv env("DS_ACCELERATOR", "nosuch");
  EXPECT_ERROR(get_accelerator(), invalid_argument, "\"nosuch\"");
  EXPECT_ERROR(get_accelerator(), invalid_argument, "mydev");
  EXPECT_EQ(detect().accelerator, "");
  EXPECT_THAT(detect().reason, testing::HasSubstr("nosuch"));
}

// Fails if a named accelerator without devices is used, or the error lacks the reason why no
// devices were found.
TEST_F(DetectionTest, NamedBackendWithoutDevicesFails) {
  add("absent", 0, 1, "no card in any slot");
  const ScopedEnv env("DS_ACCELERATOR", "absent");
  EXPECT_ERROR(get_accelerator(), unavailable, "no card in any slot");
}

// Fails if the backend with the highest priority among those with devices is not selected.
TEST_F(DetectionTest, ChoosesFirstWithDevices) {
  add("installed-only", 0, 9300, "no device");
  add("real", 2, 9200);
  add("later", 8, 9100);
  const auto found = detect();
  EXPECT_EQ(found.accelerator, "real");
  EXPECT_FALSE(verdict(found, "installed-only").available);
  EXPECT_EQ(verdict(found, "later").device_count, 8);
  EXPECT_EQ(get_accelerator().name(), "real");
}

// Fails if a broken backend prevents the use of others.
TEST_F(DetectionTest, BrokenBackendsAreReportedAndSkipped) {
  register_backend(
      {.traits = mock_traits("bad-probe", 9500),
       .create = [] { return std::make_shared<MockBackend>(mock_traits("bad-probe")); },
       .probe = []() -> sdk::Probe { throw std::runtime_error("probe blew up"); }});
  register_backend({.traits = mock_traits("bad-start", 9400),
                    .create = []() -> std::shared_ptr<sdk::Backend> {
                      throw std::runtime_error("start blew up");
                    },
                    .probe =
                        [] {
                          return sdk::Probe{1, "seen"};
                        }});
  add("good", 1, 9300);
  EXPECT_EQ(get_accelerator().name(), "good");
  EXPECT_THAT(verdict(detection(), "bad-probe").reason, testing::HasSubstr("probe blew up"));
  EXPECT_THAT(verdict(detection(), "bad-start").reason, testing::HasSubstr("start blew up"));
}

// Fails if strict mode accepts a host backend that the user did not name.
TEST_F(DetectionTest, StrictModeForbidsTheHost) {
  add("hosted", 1, 9999);  // has the device type cpu
  const ScopedEnv strict("ANYACCEL_STRICT", "1");
  EXPECT_ERROR(get_accelerator(), unavailable, "ANYACCEL_STRICT");
  const ScopedEnv env("DS_ACCELERATOR", "hosted");
  EXPECT_EQ(get_accelerator().name(), "hosted");
}

// Fails if an invalid value of ANYACCEL_STRICT counts as false.
TEST_F(DetectionTest, StrictModeRejectsInvalidValues) {
  add("hosted", 1, 9999);
  const ScopedEnv strict("ANYACCEL_STRICT", "maybe");
  EXPECT_ERROR(get_accelerator(), invalid_argument, "ANYACCEL_STRICT");
}

// Fails if set_accelerator() invalidates earlier references.
TEST_F(DetectionTest, SetAcceleratorKeepsEarlierReferences) {
  set_accelerator(std::make_shared<MockBackend>(mock_traits("first"), 1));
  Accelerator& first = get_accelerator();
  set_accelerator(std::make_shared<MockBackend>(mock_traits("second"), 5));
  EXPECT_EQ(get_accelerator().name(), "second");
  EXPECT_EQ(first.name(), "first");
  EXPECT_EQ(first.device_count(), 1);
  EXPECT_FALSE(is_current_accelerator_supported());
  EXPECT_ERROR(set_accelerator(std::shared_ptr<sdk::Backend>()), invalid_argument, "null");
  set_accelerator(first);
  EXPECT_EQ(&get_accelerator(), &first);
  EXPECT_EQ(detection().accelerator, "first");
  add("other", 3, 1);
  EXPECT_TRUE(verdict(detection(), "other").available);  // other backends are still listed
}

// Fails if set_accelerator() does not look up the name in the registry.
TEST_F(DetectionTest, SetAcceleratorByName) {
  add("named", 2, 1);
  set_accelerator("named");
  EXPECT_EQ(get_accelerator().name(), "named");
  EXPECT_TRUE(is_current_accelerator_supported());
  EXPECT_ERROR(set_accelerator("nosuch"), invalid_argument, "named");
}

// Fails if looking up an accelerator by name selects that accelerator, or creates it twice.
TEST_F(DetectionTest, LookupByNameDoesNotSelect) {
  add("first", 1, 9999);
  add("second", 2);
  add("absent", 0, -1, "no such card");
  auto& second = accelerator_of("second");
  EXPECT_EQ(second.device_count(), 2);
  EXPECT_EQ(&accelerator_of("second"), &second);
  EXPECT_EQ(get_accelerator().name(), "first");
  EXPECT_EQ(&accelerator_of("first"), &get_accelerator());
  set_accelerator(second);
  EXPECT_EQ(&get_accelerator(), &second);
  EXPECT_ERROR(accelerator_of("absent"), unavailable, "no such card");
  EXPECT_ERROR(accelerator_of("nosuch"), invalid_argument, "\"nosuch\"");
}

// Fails if a backend that calls get_accelerator() while it is created causes infinite recursion.
TEST_F(DetectionTest, RecursionIsAnError) {
  register_backend({.traits = mock_traits("recursive", 9999),
                    .create = []() -> std::shared_ptr<sdk::Backend> {
                      get_accelerator();
                      return nullptr;
                    },
                    .probe =
                        [] {
                          return sdk::Probe{1, "seen"};
                        }});
  add("next", 1, 9998);
  EXPECT_EQ(get_accelerator().name(), "next");
  EXPECT_THAT(verdict(detection(), "recursive").reason, testing::HasSubstr("being created"));
}

// Fails if concurrent first calls to get_accelerator() create more than one accelerator.
TEST_F(DetectionTest, FirstCallsFromManyThreadsAgree) {
  add("only", 1, 9999);
  std::vector<Accelerator*> seen(8);
  std::vector<std::thread> threads;
  for (auto& slot : seen) threads.emplace_back([&slot] { slot = &get_accelerator(); });
  for (auto& thread : threads) thread.join();
  for (auto* one : seen) EXPECT_EQ(one, seen[0]);
}

// Fails if an environment variable in the traits' start_environment is not set, or overwrites the
// user's value.
TEST_F(DetectionTest, StartEnvironmentKeepsTheUsersValues) {
  const ScopedEnv mine("ANYACCEL_TEST_KEPT", "mine");
  const ScopedEnv unset("ANYACCEL_TEST_NEW", nullptr);
  auto traits = mock_traits("starter", 9999);
  traits.start_environment = {{"ANYACCEL_TEST_KEPT", "theirs", "test"},
                              {"ANYACCEL_TEST_NEW", "theirs", "test"}};
  register_backend({.traits = traits,
                    .create = [traits] { return std::make_shared<MockBackend>(traits); },
                    .probe =
                        [] {
                          return sdk::Probe{1, "seen"};
                        }});
  get_accelerator();
  EXPECT_STREQ(std::getenv("ANYACCEL_TEST_KEPT"), "mine");
  EXPECT_STREQ(std::getenv("ANYACCEL_TEST_NEW"), "theirs");
}

// Fails if getters hang or crash in a forked child.
TEST_F(DetectionTest, GettersSurviveFork) {
  add("forked", 2, 9999);
  Accelerator& accelerator = get_accelerator();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool good = get_accelerator().device_count() == 2 && accelerator.device_name() == "cpu" &&
                      accelerator.current_device() == 0 && !detection().accelerator.empty();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace anyaccel
