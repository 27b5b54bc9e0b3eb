// A plugin that does what FAKE_PLUGIN says, and what its author should not have done.
#include <cstdlib>
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

[[maybe_unused]] const bool opened = [] {
  // Tests count how often the library was opened.
  const char* before = std::getenv("FAKE_PLUGIN_OPENED");
  setenv("FAKE_PLUGIN_OPENED", (before == nullptr ? "1" : std::string(before) + "1").c_str(), 1);
  if (told("static")) throw std::runtime_error("thrown by a static object");
  if (told("crash")) std::abort();
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
  plugin.add_backend(
      [traits]() -> std::shared_ptr<anyaccel::sdk::Backend> {
        if (told("create")) throw std::runtime_error("thrown by the backend's constructor");
        return std::make_shared<MockBackend>(traits);
      },
      probe);
  plugin.add_op_builder("FakeBuilder", [] { return std::make_shared<FakeBuilder>(); });
  if (told("twice")) plugin.add_op_builder("FakeBuilder", [] { return std::make_shared<FakeBuilder>(); });
}

}  // namespace

ANYACCEL_PLUGIN(register_fake);
