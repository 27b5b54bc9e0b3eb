#include "anyaccel/registry.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/commands/commands.h"

namespace anyaccel::cli {

void add_report(CLI::App& command, Context& context) {
  command.callback([&context] {
    const Detection found = detection();
    std::cout << "accelerator  " << found.accelerator << "\nreason       " << found.reason << '\n';
    context.exit_code = found.accelerator.empty() ? 1 : 0;
  });
}

}  // namespace anyaccel::cli
