#include "anyaccel/conformance/kit.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"

namespace anyaccel::cli {

void add_conformance(CLI::App& command, Context& context) {
  auto options = std::make_shared<conformance::Options>();
  for (const auto& option : conformance::option_table()) {
    const std::string name = option.name;
    const auto set = [options, name](const std::string& value) {
      try {
        conformance::set_option(*options, name, value);
      } catch (const Error& error) {
        throw CLI::ValidationError("--" + name, error.what());
      }
    };
    if (option.value == nullptr) {
      command.add_flag_callback(
          "--" + name, [set] { set(""); }, option.text);
    } else {
      // Each occurrence of the option sets one value.
      command
          .add_option_function<std::vector<std::string>>(
              "--" + name,
              [set](const std::vector<std::string>& given) {
                for (const auto& value : given) set(value);
              },
              option.text)
          ->type_name(option.value)
          ->allow_extra_args(false);
    }
  }
  command.footer(
      "Exit code: 0 all required cases passed, 1 a case or the run failed, 2 usage error.");
  command.callback(
      [options, &context] { context.exit_code = conformance::run_and_write(*options); });
}

}  // namespace anyaccel::cli
