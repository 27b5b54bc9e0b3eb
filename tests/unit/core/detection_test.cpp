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

void add(const std::string& name, int devices, int priority = 9000, std::string reason = "counted by a test") {
  register_backend({.traits = mock_traits(name, priority),
                    .create = [name, devices] { return std::make_shared<MockBackend>(mock_traits(name), devices); },
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

// Broken by a closed list of names: any registered one must be valid.
TEST_F(DetectionTest, NamedBackendWins) {
  add("other", 4, 9999);
  add("mydev", 3, -50);
  const ScopedEnv env("DS_ACCELERATOR", "mydev");
  EXPECT_EQ(get_accelerator().name(), "mydev");
  EXPECT_EQ(get_accelerator().device_count(), 3);
  EXPECT_THAT(detection().reason, testing::HasSubstr("DS_ACCELERATOR"));
}

// Broken when an explicit choice falls back, or when the message does not help.
TEST_F(DetectionTest, UnknownNameListsWhatIsRegistered) {
  add("mydev", 1);
  const ScopedEnv env("DS_ACCELERATOR", "nosuch");
  EXPECT_ERROR(get_accelerator(), invalid_argument, "\"nosuch\"");
  EXPECT_ERROR(get_accelerator(), invalid_argument, "mydev");
  EXPECT_EQ(detect().accelerator, "");
  EXPECT_THAT(detect().reason, testing::HasSubstr("nosuch"));
}

// Broken when a named accelerator without devices is used all the same, or its reason is lost.
TEST_F(DetectionTest, NamedBackendThatCannotRunFailsWithItsReason) {
  add("absent", 0, 1, "no card in any slot");
  const ScopedEnv env("DS_ACCELERATOR", "absent");
  EXPECT_ERROR(get_accelerator(), unavailable, "no card in any slot");
}

// Broken when an installed stack without devices is chosen, or the highest priority is not.
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

// Broken when one broken backend stops the others.
TEST_F(DetectionTest, BrokenProbeAndBrokenCreationAreReportedAndSkipped) {
  register_backend({.traits = mock_traits("bad-probe", 9500),
                    .create = [] { return std::make_shared<MockBackend>(mock_traits("bad-probe")); },
                    .probe = []() -> sdk::Probe { throw std::runtime_error("probe blew up"); }});
  register_backend({.traits = mock_traits("bad-start", 9400),
                    .create = []() -> std::shared_ptr<sdk::Backend> { throw std::runtime_error("start blew up"); },
                    .probe =
                        [] {
                          return sdk::Probe{1, "seen"};
                        }});
  add("good", 1, 9300);
  EXPECT_EQ(get_accelerator().name(), "good");
  EXPECT_THAT(verdict(detection(), "bad-probe").reason, testing::HasSubstr("probe blew up"));
  EXPECT_THAT(verdict(detection(), "bad-start").reason, testing::HasSubstr("start blew up"));
}

// Broken when strict mode accepts a backend on the host that nobody named.
TEST_F(DetectionTest, StrictModeForbidsTheHost) {
  add("hosted", 1, 9999);  // its device type is the host's
  const ScopedEnv strict("ANYACCEL_STRICT", "1");
  EXPECT_ERROR(get_accelerator(), unavailable, "ANYACCEL_STRICT");
  const ScopedEnv env("DS_ACCELERATOR", "hosted");
  EXPECT_EQ(get_accelerator().name(), "hosted");
}

// Broken when a typing error in the variable is taken for "no".
TEST_F(DetectionTest, StrictModeRefusesNonsense) {
  add("hosted", 1, 9999);
  const ScopedEnv strict("ANYACCEL_STRICT", "maybe");
  EXPECT_ERROR(get_accelerator(), invalid_argument, "ANYACCEL_STRICT");
}

// Broken when set_accelerator destroys what earlier references point to.
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
  EXPECT_TRUE(verdict(detection(), "other").available);  // what could have been chosen is still told
}

// Broken when the name is not looked up in the registry.
TEST_F(DetectionTest, SetAcceleratorByName) {
  add("named", 2, 1);
  set_accelerator("named");
  EXPECT_EQ(get_accelerator().name(), "named");
  EXPECT_TRUE(is_current_accelerator_supported());
  EXPECT_ERROR(set_accelerator("nosuch"), invalid_argument, "named");
}

// Broken when asking for an accelerator by name chooses it, makes a second one, or gives one that cannot run.
TEST_F(DetectionTest, AcceleratorOfANameIsNotChosen) {
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

// Broken by endless recursion: a backend that asks for the accelerator while it is made.
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

// Broken when two first calls at once make two accelerators.
TEST_F(DetectionTest, FirstCallsFromManyThreadsAgree) {
  add("only", 1, 9999);
  std::vector<Accelerator*> seen(8);
  std::vector<std::thread> threads;
  for (auto& slot : seen) threads.emplace_back([&slot] { slot = &get_accelerator(); });
  for (auto& thread : threads) thread.join();
  for (auto* one : seen) EXPECT_EQ(one, seen[0]);
}

// Broken when start variables overwrite what the user set, or are not set at all.
TEST_F(DetectionTest, StartEnvironmentKeepsTheUsersValues) {
  const ScopedEnv mine("ANYACCEL_TEST_KEPT", "mine");
  const ScopedEnv unset("ANYACCEL_TEST_NEW", nullptr);
  auto traits = mock_traits("starter", 9999);
  traits.start_environment = {{"ANYACCEL_TEST_KEPT", "theirs", "test"}, {"ANYACCEL_TEST_NEW", "theirs", "test"}};
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

// Broken when getters in a forked child hang or crash.
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
