#include "anyaccel/plugins.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/op_builder.h"
#include "anyaccel/sdk/plugin_build.h"
#include "anyaccel/version.h"
#include "base/file.h"
#include "base/plugin/plugin_file.h"
#include "base/process.h"
#include "core/plugin_trial.h"
#include "test_paths.h"
#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"
#include "unit/support/plugin_folder.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

using test::ScopedEnv;
using testing::HasSubstr;

const std::string kPlugin = ANYACCEL_BUILD_DIR "/lib/libfake_plugin.so";
const std::string kDescriptor = ANYACCEL_BUILD_DIR "/lib/libfake_descriptor.so";
const std::string kWithout = ANYACCEL_BUILD_DIR "/lib/libfake_without_descriptor.so";
constexpr const char* kName = "fakecard";

/// Tests with a single plugin folder. Each test runs in its own process.
class PluginsTest : public testing::Test {
 protected:
  test::PluginFolder folder;

  static BackendVerdict verdict(const Detection& detection, const std::string& name = kName) {
    for (const auto& one : detection.backends)
      if (one.name == name) return one;
    return {.name = "none", .reason = "none"};
  }
  static PluginVerdict plugin(const std::string& name = kName) {
    for (const auto& one : plugins())
      if (one.name == name) return one;
    return {};
  }
  static bool opened() { return std::getenv("FAKE_PLUGIN_OPENED") != nullptr; }

 private:
  ScopedEnv path_{"ANYACCEL_PLUGIN_PATH", folder.path().c_str()};
  ScopedEnv named_{"DS_ACCELERATOR", nullptr};
  ScopedEnv strict_{"ANYACCEL_STRICT", nullptr};
  ScopedEnv opened_{"FAKE_PLUGIN_OPENED", nullptr};
};

// Fails if a plugin's backend or op builder does not behave like a built-in one.
TEST_F(PluginsTest, NamedPluginIsChosen) {
  folder.add(kName, kPlugin, "priority = -5000\n");
  const ScopedEnv named("DS_ACCELERATOR", kName);
  EXPECT_EQ(get_accelerator().name(), kName);
  EXPECT_EQ(get_accelerator().device_count(), 2);
  EXPECT_TRUE(is_current_accelerator_supported());
  EXPECT_EQ(plugin().state, PluginState::loaded);
  EXPECT_EQ(plugin().path, (folder / "fakecard.plugin").string());
  EXPECT_EQ(get_accelerator().create_op_builder("FakeBuilder")->name(), "fake");
}

// Fails if detection ignores a plugin with devices, or does not call its probe.
TEST_F(PluginsTest, DetectionChoosesIt) {
  folder.add(kName, kPlugin, "priority = 5000\n");
  const ScopedEnv told("FAKE_PLUGIN", "probe");
  EXPECT_EQ(get_accelerator().name(), kName);
  EXPECT_EQ(verdict(detection()).device_count, 5);
  EXPECT_THAT(detection().reason, HasSubstr("counted by the plugin"));
}

// Fails if a plugin's library is loaded although the plugin is not needed.
TEST_F(PluginsTest, StaysClosedWhileNotNeeded) {
  folder.add(kName, kPlugin, "probe_count = 0\n");
  EXPECT_EQ(detect().accelerator.empty(), false);
  EXPECT_FALSE(opened());
  EXPECT_EQ(plugin().state, PluginState::found);
  EXPECT_EQ(verdict(detect()).available, false);
}

TEST_F(PluginsTest, StaysClosedWhenAnotherIsNamed) {
  folder.add(kName, kPlugin, "priority = 5000\n");
  const ScopedEnv named("DS_ACCELERATOR", "cpu");
  EXPECT_EQ(get_accelerator().name(), "cpu");
  EXPECT_FALSE(opened());
  EXPECT_THAT(verdict(detection()).reason, HasSubstr("DS_ACCELERATOR is cpu"));
  // Selecting the plugin by name loads it.
  set_accelerator(kName);
  EXPECT_EQ(get_accelerator().name(), kName);
  EXPECT_TRUE(opened());
}

struct Broken {
  const char* told;
  const char* reason;
};

class BrokenPlugin : public PluginsTest, public testing::WithParamInterface<Broken> {};

// Fails if a broken plugin terminates the process, or the reason for its rejection is not reported.
TEST_P(BrokenPlugin, IsReportedAndSkipped) {
  folder.add(kName, kPlugin, "priority = 5000\n");
  const ScopedEnv told("FAKE_PLUGIN", GetParam().told);
  testing::internal::CaptureStderr();
  EXPECT_NE(get_accelerator().name(), kName);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(GetParam().reason));
  EXPECT_THAT(verdict(detection()).reason, HasSubstr(GetParam().reason));
}

TEST_P(BrokenPlugin, IsFatalWhenNamed) {
  folder.add(kName, kPlugin);
  const ScopedEnv told("FAKE_PLUGIN", GetParam().told);
  const ScopedEnv named("DS_ACCELERATOR", kName);
  EXPECT_ERROR(get_accelerator(), unavailable, GetParam().reason);
  EXPECT_ERROR(get_accelerator(), unavailable, "'fakecard' was requested");
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenPlugin,
    testing::Values(Broken{"static", "thrown by a static object"},
                    Broken{"crash", "it terminated its process: Aborted"},
                    Broken{"register",
                           "its registration function failed: thrown while registering"},
                    Broken{"number", "threw something that is not a std::exception"},
                    Broken{"nothing", "it did not register a backend"},
                    Broken{"twice", "already registered"},
                    Broken{"create", "thrown by the backend's constructor"}));

// Fails if an exception in a plugin's probe terminates the process.
TEST_F(PluginsTest, ThrowingProbe) {
  folder.add(kName, kPlugin);
  const ScopedEnv told("FAKE_PLUGIN", "throwing probe");
  EXPECT_NE(get_accelerator().name(), kName);
  EXPECT_THAT(verdict(detection()).reason, HasSubstr("not a std::exception"));
}

bool is_running(pid_t process) {
  const auto stat = try_read_file("/proc/" + std::to_string(process) + "/stat");
  return stat && stat->find(") Z ") == stat->npos;
}

// Fails if a daemon that a rejected plugin starts in a separate session survives, or delays the
// verdict.
TEST_F(PluginsTest, DaemonsOfARejectedPluginAreKilled) {
  const auto begin = std::chrono::steady_clock::now();
  const struct {
    const char* told;
    const char* reason;
  } cases[]{{"daemon", "the actual refusal"}, {"daemon and exit", "it terminated its process"}};
  for (const auto& one : cases) {
    const auto file = folder / "pid";
    const ScopedEnv written("FAKE_PLUGIN_FILE", file.c_str());
    const ScopedEnv told("FAKE_PLUGIN", one.told);
    const auto name = std::string(kName) + (one.told[6] == ' ' ? "2" : "");
    const test::PluginFolder own;
    own.add(name, kPlugin);
    add_plugin_folder(own.path().string());
    const ScopedEnv named("DS_ACCELERATOR", name.c_str());
    EXPECT_ERROR(get_accelerator(), unavailable, one.reason);
    const auto daemon = std::atoi(read_file(file).c_str());
    ASSERT_GT(daemon, 1);
    EXPECT_FALSE(is_running(daemon)) << one.told;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
}

// Fails if a plugin with endless output exhausts this process's memory.
TEST_F(PluginsTest, EndlessOutputIsRejected) {
  folder.add(kName, kPlugin);
  const ScopedEnv told("FAKE_PLUGIN", "endless");
  const ScopedEnv named("DS_ACCELERATOR", kName);
  const auto before = peak_resident_bytes();
  EXPECT_ERROR(get_accelerator(), unavailable, "it wrote more than 16 MiB of output in a trial");
  EXPECT_LT(peak_resident_bytes() - before, 64 << 20);
}

class HangingPlugin : public PluginsTest, public testing::WithParamInterface<Broken> {};

// Fails if a plugin's code is not stopped at the time limit, whether it runs in its trial or in
// this process.
TEST_P(HangingPlugin, IsStopped) {
  folder.add(kName, kPlugin, "priority = 5000\n");
  const ScopedEnv seconds("ANYACCEL_PLUGIN_TIMEOUT", "3");
  const ScopedEnv program("FAKE_PLUGIN_PROGRAM", std::to_string(::getpid()).c_str());
  const ScopedEnv told("FAKE_PLUGIN", GetParam().told);
  {
    const ScopedEnv named("DS_ACCELERATOR", kName);
    EXPECT_ERROR(get_accelerator(), unavailable, GetParam().reason);
  }
  EXPECT_EQ(plugin().state, PluginState::refused);
  EXPECT_THAT(plugin().reason, HasSubstr(GetParam().reason));
  EXPECT_THAT(verdict(detect()).reason, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, HangingPlugin,
    testing::Values(Broken{"hanging probe", "its probe took longer than 3 s in a trial"},
                    Broken{"program's hanging probe",
                           "the probe of the plugin fakecard took longer than 3 s"},
                    Broken{"hanging create",
                           "the create function of the plugin fakecard took longer than 3 s"}));

// Fails if a probe that crashes its own process also terminates this process.
TEST_F(PluginsTest, CrashingProbe) {
  folder.add(kName, kPlugin, "priority = 5000\n");
  const ScopedEnv told("FAKE_PLUGIN", "crashing probe");
  EXPECT_NE(get_accelerator().name(), kName);
  EXPECT_THAT(verdict(detection()).reason, HasSubstr("it terminated its process: Aborted"));
}

class WrongDescriptor : public PluginsTest, public testing::WithParamInterface<Broken> {
 private:
  ScopedEnv anyaccel_{"FAKE_ANYACCEL", ANYACCEL_VERSION};
  ScopedEnv torch_{"FAKE_LIBTORCH", own_identity().libtorch.c_str()};
  ScopedEnv compiler_{"FAKE_COMPILER", ANYACCEL_COMPILER_ABI};
  ScopedEnv sanitizer_{"FAKE_SANITIZER", std::to_string(ANYACCEL_SANITIZER_KIND).c_str()};
};

// Fails if a library is accepted although its descriptor does not match this build. Checking the
// text file is not enough, because it may belong to another library.
TEST_P(WrongDescriptor, IsRejected) {
  folder.add(kName, kDescriptor);
  const ScopedEnv told("FAKE_DESCRIPTOR", GetParam().told);
  const ScopedEnv named("DS_ACCELERATOR", kName);
  EXPECT_ERROR(get_accelerator(), unavailable, GetParam().reason);
  EXPECT_EQ(plugin().state, PluginState::refused);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongDescriptor,
    testing::Values(Broken{"size", "its descriptor has 24 bytes, but AnyAccel requires at least"},
                    Broken{"abi", "for plugin ABI 99, this AnyAccel for plugin ABI 1"},
                    Broken{"name", "its name is 'another', but its text file names 'fakecard'"},
                    Broken{"anyaccel", "for AnyAccel 9.9.9"},
                    Broken{"libtorch", "with LibTorch 2.99.0"},
                    Broken{"compiler", "for the compiler ABI m68k"},
                    Broken{"null", "for the compiler ABI (unknown)"},
                    Broken{"sanitizer", "with the sanitizer unknown"},
                    Broken{"function", "has no registration function"},
                    Broken{"", "its registration function failed: written in C"}));

// Fails if a library without a descriptor is accepted as a plugin.
TEST_F(PluginsTest, LibraryWithoutDescriptor) {
  folder.add(kName, kWithout);
  const ScopedEnv named("DS_ACCELERATOR", kName);
  EXPECT_ERROR(get_accelerator(), unavailable, "has no symbol anyaccel_plugin_descriptor");
}

// Fails if the second of two plugins with the same name is not rejected.
TEST_F(PluginsTest, DuplicateNames) {
  const test::PluginFolder second;
  folder.add(kName, kPlugin);
  second.add(kName, kPlugin);
  const ScopedEnv path("ANYACCEL_PLUGIN_PATH",
                       (folder.path().string() + ":" + second.path().string()).c_str());
  const auto all = plugins();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].state, PluginState::found);
  EXPECT_EQ(all[1].state, PluginState::refused);
  EXPECT_THAT(all[1].reason, HasSubstr("is already used by " + all[0].path));
}

// Fails if the error for a named plugin lacks the reason why its text file was rejected.
TEST_F(PluginsTest, RejectedByItsTextFile) {
  folder.add(kName, kPlugin, "libtorch = 2.99.0\n");
  const ScopedEnv named("DS_ACCELERATOR", kName);
  EXPECT_ERROR(get_accelerator(), unavailable, "LibTorch 2.99.0");
  EXPECT_FALSE(opened());
}

// Fails if the error for a named plugin does not mention its untrusted folder.
TEST_F(PluginsTest, UntrustedFolder) {
  folder.add(kName, kPlugin);
  ::chmod(folder.path().c_str(), 0777);
  const ScopedEnv named("DS_ACCELERATOR", kName);
  EXPECT_ERROR(get_accelerator(), invalid_argument, "is writable by everyone");
}

// Fails if a folder added later is not searched, or is searched twice.
TEST_F(PluginsTest, AddedFolder) {
  const test::PluginFolder later;
  later.add("latecard", kPlugin);
  EXPECT_EQ(plugin("latecard").path, "");
  add_plugin_folder(later.path().string());
  add_plugin_folder(later.path().string());
  EXPECT_EQ(plugin("latecard").state, PluginState::found);
  EXPECT_EQ(plugins().size(), 1U);
}

// Fails if several threads load plugins at the same time. The thread sanitizer or a duplicate
// registration reveals this.
TEST_F(PluginsTest, ManyThreads) {
  folder.add(kName, kPlugin);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { detect(); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(plugin().state, PluginState::loaded);
}

// Fails if a plugin can use the name of one of torch's device types.
TEST_F(PluginsTest, TorchTypesAreReserved) {
  for (int i = 0; i < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++i) {
    const auto type = static_cast<c10::DeviceType>(i);
    if (c10::isValidDeviceType(type)) {
      EXPECT_TRUE(is_reserved_name(c10::DeviceTypeName(type, true))) << i;
    }
  }
}

// Fails if processes that a trial started outlive the trial, or the trial can read this program's
// standard input.
TEST(PluginTrial, ChildProcessesAreKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto work = [&] {
    for (int i = 0; i < 4; ++i)
      if (::fork() == 0) {
        ::setsid();
        if (::fork() != 0) ::_exit(0);
        const pid_t own = ::getpid();
        static_cast<void>(::write(ends[1], &own, sizeof own));
        for (;;) ::pause();
      }
    pid_t all[4];
    for (std::size_t done = 0; done < sizeof all;)
      done += static_cast<std::size_t>(
          ::read(ends[0], reinterpret_cast<char*>(all) + done, sizeof all - done));
    static_cast<void>(::write(ends[1], all, sizeof all));
    char byte = 0;
    if (::read(STDIN_FILENO, &byte, 1) != 0) throw std::runtime_error("it could read");
    begin_trial_stage("the second stage");
    for (;;) ::pause();
  };
  EXPECT_THAT(run_in_trial(work, 10),
              HasSubstr("the second stage took longer than 10 s in a trial"));
  pid_t all[4];
  ASSERT_EQ(::read(ends[0], all, sizeof all), static_cast<ssize_t>(sizeof all));
  for (const pid_t one : all) EXPECT_FALSE(is_running(one));
  ::close(ends[0]);
  ::close(ends[1]);
}

// Fails if a trial outlives the program that started it.
TEST(PluginTrial, EndsWithItsProgram) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    run_in_trial(
        [&] {
          const pid_t own = ::getpid();
          static_cast<void>(::write(ends[1], &own, sizeof own));
          for (;;) ::pause();
        },
        60);
    ::_exit(0);
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  for (int i = 0; i < 500 && is_running(worker); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_running(worker));
  ::close(ends[0]);
  ::close(ends[1]);
}

// Fails if a trial is not stopped at its time limit, or its last output is not reported.
TEST(PluginTrial, HungTrialIsStopped) {
  EXPECT_EQ(run_in_trial([] {}, 30), "");
  EXPECT_THAT(run_in_trial([] { ::pause(); }, 0.2), HasSubstr("longer than"));
  EXPECT_EQ(run_in_trial([] { throw std::runtime_error("no"); }, 30), "no");
  EXPECT_THAT(run_in_trial([] { std::fputs("first\nlast words\n", stderr), ::_exit(3); }, 30),
              HasSubstr("\"last words\""));
}

}  // namespace
}  // namespace anyaccel
