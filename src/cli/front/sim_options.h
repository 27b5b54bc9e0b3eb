// Options for the simulated accelerator, shared by `anyaccel sim run` and `anyaccel sim campaign`.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace anyaccel::cli {

/// Adds the argument PROGRAM and the options, except those in `without`. A given option sets its
/// SIM_* variable, which the simulated program reads.
void add_sim_options(CLI::App& app, std::initializer_list<std::string_view> without = {});

/// Returns the simulator options on the parsed command line, as separate arguments: "--devices",
/// "4".
std::vector<std::string> given_sim_options(const CLI::App& app);

/// Runs `anyaccel sim campaign`. `words`: the arguments after `anyaccel sim campaign`. Returns the
/// exit code.
int run_campaign(std::span<const char* const> words);

}  // namespace anyaccel::cli
