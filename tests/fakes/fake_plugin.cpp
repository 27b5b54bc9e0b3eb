// A plugin without a defect, or with the defect that FAKE_PLUGIN selects.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "anyaccel/sdk/plugin.h"
#include "unit/support/mock_backend.h"

namespace {

using anyaccel::test::MockBackend;

bool told(const char* what) {
  const char* value = std::getenv("FAKE_PLUGIN");
  return value != nullptr && std::string(value) == what;
}

/// Reports a process id to the test, which checks that the process has exited.
void write_pid(pid_t process) {
  const char* file = std::getenv("FAKE_PLUGIN_FILE");
  if (file != nullptr) std::ofstream(file) << process;
}

/// Leaves behind a daemon in its own session. The daemon keeps standard output open.
void leave_a_daemon() {
  const pid_t child = ::fork();
  if (child != 0) {
    ::waitpid(child, nullptr, 0);  // the child writes the daemon's PID before it exits
    return;
  }
  ::setsid();
  if (const pid_t daemon = ::fork(); daemon != 0) {
    write_pid(daemon);
    ::_exit(0);
  }
  for (;;) ::pause();
}

[[noreturn]] void write_endlessly() {
  const std::string words(1 << 16, 'w');
  for (;;)
    if (::write(STDOUT_FILENO, words.data(), words.size()) < 0) ::pause();
}

/// True in the program under test, false in the child process that first loads the plugin as a
/// trial.
bool is_program() {
  const char* value = std::getenv("FAKE_PLUGIN_PROGRAM");
  return value != nullptr && std::atoi(value) == ::getpid();
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

[[maybe_unused]] const bool opened = [] {
  // Tests count how often the library was loaded: each load appends a digit.
  const char* before = std::getenv("FAKE_PLUGIN_OPENED");
  setenv("FAKE_PLUGIN_OPENED", (before == nullptr ? "1" : std::string(before) + "1").c_str(), 1);
  if (told("static")) throw std::runtime_error("thrown by a static object");
  if (told("crash")) std::abort();
  if (told("daemon")) {
    leave_a_daemon();
    throw std::runtime_error("the actual refusal");
  }
  if (told("daemon and exit")) leave_a_daemon(), std::_Exit(3);
  if (told("endless")) write_endlessly();
  return true;
}();

class FakeBuilder final : public anyaccel::sdk::OpBuilder {
 public:
  std::string class_name() const override { return "FakeBuilder"; }
  std::string name() const override { return "fake"; }
  anyaccel::Compatibility is_compatible() const noexcept override { return {true, ""}; }
  void load() override {}
};

void register_fake(anyaccel::sdk::Plugin& plugin) {
  if (told("register")) throw std::runtime_error("thrown while registering");
  if (told("number")) throw 7;
  if (told("nothing")) return;
  const auto traits = plugin.traits();
  std::function<anyaccel::sdk::Probe()> probe;
  if (told("probe")) probe = [] { return anyaccel::sdk::Probe{5, "counted by the plugin"}; };
  if (told("throwing probe")) probe = []() -> anyaccel::sdk::Probe { throw 7; };
  if (told("hanging probe") || told("program's hanging probe") || told("crashing probe"))
    probe = []() -> anyaccel::sdk::Probe {
      if (told("crashing probe")) std::abort();
      if (told("hanging probe") || is_program()) hang();
      return {5, "counted by the plugin"};
    };
  plugin.add_backend(
      [traits]() -> std::shared_ptr<anyaccel::sdk::Backend> {
        if (told("hanging create")) hang();
        if (told("create")) throw std::runtime_error("thrown by the backend's constructor");
        return std::make_shared<MockBackend>(traits);
      },
      probe);
  plugin.add_op_builder("FakeBuilder", [] { return std::make_shared<FakeBuilder>(); });
  if (told("twice"))
    plugin.add_op_builder("FakeBuilder", [] { return std::make_shared<FakeBuilder>(); });
}

}  // namespace

ANYACCEL_PLUGIN(register_fake);
