#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/built_traits.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "base/program.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"
#include "cli/front/parser.h"
#include "cli/front/python_hook.h"
#include "cli/front/sim_options.h"

namespace anyaccel::cli {
namespace {

constexpr const char* kSimRun = "sim run";

std::unique_ptr<CLI::App> sim_parser() {
  auto app = make_parser("sim run",
                         "Run a program on a simulated accelerator with separate device memory "
                         "that the host cannot access, asynchronous streams, several devices, and "
                         "a memory limit. The program is a Python program that uses torch, or a "
                         "binary that links LibTorch. It accesses the devices through "
                         "get_accelerator(), at::accelerator, torch.accelerator, torch.Stream and "
                         "torch.Event, or by device name. The exit code is the program's.");
  add_sim_options(*app);
  return app;
}

/// Returns the value of DS_ACCELERATOR for the program: the backend that the simulator stands in
/// for, or the simulator itself.
std::string accelerator_name() {
  const std::string stands_in = env("SIM_STANDS_IN_FOR").value_or("");
  for (const auto* traits : built_traits())
    if (traits->name == stands_in) return stands_in;
  return ANYACCEL_SIM_NAME;
}

/// True for an ELF file that contains the names of LibTorch's libraries. A Python interpreter does
/// not contain them; in Python programs, a hook loads the simulator.
bool links_libtorch(const std::string& file) {
  const std::string content = try_read_file(file, kMaxLibrary).value_or("");
  return content.starts_with(
             "\x7f"
             "ELF") &&
         (content.find("libtorch") != std::string::npos ||
          content.find("libc10.so") != std::string::npos);
}

}  // namespace

int run_sim(std::span<const char* const> arguments) {
  const std::string_view word = arguments.empty() ? "" : arguments[0];
  if (word == "campaign") return run_campaign(arguments.subspan(1));
  if (word != "run" && word != "-h" && word != "--help")
    throw UsageError(
        "sim: expected `anyaccel sim run [OPTION]... -- PROGRAM [ARGUMENT]...` or `anyaccel sim "
        "campaign [OPTION]... -- PROGRAM [ARGUMENT]...`");
  const auto words = arguments.subspan(word == "run" ? 1 : 0);
  const auto app = sim_parser();
  const auto end = end_of_options(*app, words);
  if (const auto code = parse_words(*app, words.first(end))) return *code;
  const auto given = program_words("sim run", words, end);
  std::vector<const char*> program(given.begin(), given.end());
  program.push_back(nullptr);
  if (!ANYACCEL_WITH_SIM)
    throw Error(ErrorCode::unsupported, kSimRun,
                {.what = "AnyAccel was built without the simulated accelerator",
                 .hint = "rebuild AnyAccel with -DANYACCEL_SIM=ON"});
  for (const char* implies :
       {"SIM_CHECK_JSON", "SIM_CHECK_SUPPRESSIONS", "SIM_CHECK_EXIT_CODE", "SIM_CHECK_EXTRA"})
    if (::getenv(implies) != nullptr) ::setenv("SIM_CHECK", "report", /*overwrite=*/0);
  const std::string bin = own_folder();
  const std::string prefix = bin.substr(0, bin.rfind('/'));
  // A build tree always uses `lib`, even if an installation uses a different name for this folder.
  std::string library = prefix + "/" ANYACCEL_LIBDIR "/libanyaccel_sim.so";
  if (::access(library.c_str(), R_OK) != 0) library = prefix + "/lib/libanyaccel_sim.so";
  need_file(library, kSimRun);

  ::setenv("DS_ACCELERATOR", accelerator_name().c_str(), 1);
  // If the simulator cannot start, the program must not fall back to another accelerator.
  ::setenv("ANYACCEL_SIM_LIBRARY", library.c_str(), 1);
  use_python_hook(kSimRun);
  if (links_libtorch(find_program(program[0]).value_or(""))) {
    if (library.find_first_of(" :") != std::string::npos)
      throw Error(ErrorCode::unsupported, kSimRun,
                  {.what = "the system cannot preload a library whose path contains a space or ':'",
                   .got = library,
                   .hint = "install AnyAccel in a different folder"});
    prepend_variable("LD_PRELOAD", library, ' ');
  }

  std::fflush(stdout);
  ::execvp(program[0], const_cast<char* const*>(program.data()));
  throw Error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, kSimRun,
              {.what = std::string("cannot start the program ") + program[0] + ": " +
                       std::strerror(errno)});
}

}  // namespace anyaccel::cli
