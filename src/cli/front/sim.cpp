#include <unistd.h>

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

namespace anyaccel::cli {
namespace {

constexpr const char* kWhere = "sim run";
constexpr const char* kHelp =
    "Usage: anyaccel sim run [OPTION]... -- PROGRAM [ARGUMENT]...\n\n"
    "Run a program on a simulated accelerator with separate device memory that the host cannot touch, asynchronous\n"
    "streams, several devices, and a memory limit. The program uses get_accelerator(), at::accelerator,\n"
    "torch.accelerator, torch.Stream and torch.Event, or the device name. It is Python with torch, or a binary that\n"
    "links LibTorch. Its exit code is passed through.\n\n"
    "Options:\n"
    "  -h, --help            Print this help and exit\n"
    "  --devices N           Number of devices (SIM_DEVICES)\n"
    "  --memory BYTES        Memory per device, for example 512MiB (SIM_MEMORY)\n"
    "  --stands-in-for NAME  Backend or device type to replace (SIM_STANDS_IN_FOR)\n"
    "  --faults LIST         Faults to inject, and when (SIM_FAULTS)\n"
    "  --check report|abort  Detect misuse of devices, and report it or end the program (SIM_CHECK)\n"
    "  --json FILE           Write the reports as JSON (SIM_CHECK_JSON); implies --check report\n"
    "  --log-level LEVEL     AnyAccel's log level on standard error: error, warning, info or debug\n"
    "                        (ANYACCEL_LOG_LEVEL)\n";

struct Option {
  std::string_view word;
  const char* variable;
};
constexpr Option kOptions[] = {
    {"--devices", "SIM_DEVICES"},         {"--memory", "SIM_MEMORY"}, {"--stands-in-for", "SIM_STANDS_IN_FOR"},
    {"--faults", "SIM_FAULTS"},           {"--check", "SIM_CHECK"},   {"--json", "SIM_CHECK_JSON"},
    {"--log-level", "ANYACCEL_LOG_LEVEL"}};

/// The arguments after `run`; what options say goes into the environment. Returns the program and its arguments.
std::vector<const char*> parse(std::span<const char* const> arguments) {
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.empty() || word.front() != '-') break;
    const auto equals = word.find('=');
    const auto name = with_dashes(word.substr(0, equals));
    const Option* option = nullptr;
    for (const auto& one : kOptions)
      if (one.word == name) option = &one;
    if (option == nullptr) unknown_option("sim run", word, kHelp);
    std::string value;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      throw UsageError("sim run: " + name + " requires a value");
    }
    if (name == "--check" && value != "report" && value != "abort")
      throw UsageError("sim run: --check requires report or abort, got " + quoted_text(value));
    if (name == "--log-level") try {
        set_log_level(parse_log_level(value));
      } catch (const Error& error) {
        throw UsageError(error.what());
      }
    ::setenv(option->variable, value.c_str(), /*overwrite=*/1);
  }
  if (i == arguments.size()) throw UsageError("sim run: no program was given; write -- PROGRAM [ARGUMENT]...");
  std::vector<const char*> program(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  program.push_back(nullptr);
  return program;
}

/// What get_accelerator() of the program shall take: the backend whose place the simulator has, or the simulator itself.
std::string accelerator_name() {
  const std::string stands_in = env("SIM_STANDS_IN_FOR").value_or("");
  for (const auto* traits : built_traits())
    if (traits->name == stands_in) return stands_in;
  return ANYACCEL_SIM_NAME;
}

void prepend(const char* variable, const std::string& value, char separator) {
  const char* before = ::getenv(variable);
  ::setenv(variable, (before != nullptr && *before != 0 ? value + separator + before : value).c_str(), 1);
}

/// True for an ELF file that names LibTorch's libraries among what it needs. Python does not: its hook loads the simulator.
bool links_libtorch(const std::string& file) {
  const std::string content = try_read_file(file, kMaxLibrary).value_or("");
  return content.starts_with(
             "\x7f"
             "ELF") &&
         (content.find("libtorch") != std::string::npos || content.find("libc10.so") != std::string::npos);
}

/// `file` is one of ours; says so when it is not there.
void need_file(const std::string& file) {
  if (::access(file.c_str(), R_OK) == 0) return;
  throw Error(ErrorCode::unavailable, kWhere,
              {.what = "a part of AnyAccel is not where it was installed",
               .got = "no " + file,
               .hint = "install AnyAccel again, or keep its bin, lib and share folders side by side"});
}

}  // namespace

int run_sim(std::span<const char* const> arguments) {
  const std::string_view word = arguments.empty() ? "" : arguments[0];
  const bool help = word == "-h" || word == "--help" ||
                    (word == "run" && arguments.size() > 1 &&
                     (std::string_view(arguments[1]) == "-h" || std::string_view(arguments[1]) == "--help"));
  if (help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (word != "run") throw UsageError("sim: want `anyaccel sim run [OPTION]... -- PROGRAM [ARGUMENT]...`");
  const auto program = parse(arguments.subspan(1));
  if (!ANYACCEL_WITH_SIM)
    throw Error(ErrorCode::unsupported, kWhere,
                {.what = "this AnyAccel was built without the simulated accelerator",
                 .hint = "build it with -DANYACCEL_SIM=ON"});
  if (::getenv("SIM_CHECK_JSON") != nullptr) ::setenv("SIM_CHECK", "report", /*overwrite=*/0);
  const std::string bin = own_folder();
  const std::string prefix = bin.substr(0, bin.rfind('/'));
  // The build tree has lib, also where the system's name for it is another.
  std::string library = prefix + "/" ANYACCEL_LIBDIR "/libanyaccel_sim.so";
  if (::access(library.c_str(), R_OK) != 0) library = prefix + "/lib/libanyaccel_sim.so";
  const auto hook = prefix + "/" ANYACCEL_DATADIR "/anyaccel/python_hook/sitecustomize.py";
  need_file(library);
  need_file(hook);

  ::setenv("DS_ACCELERATOR", accelerator_name().c_str(), 1);
  // Where it cannot start, the program must not run on something else.
  ::setenv("ANYACCEL_SIM_LIBRARY", library.c_str(), 1);
  for (const std::string& place : {prefix + "/" ANYACCEL_PYTHON_DIR, prefix + "/python"})
    if (::access((place + "/anyaccel").c_str(), R_OK) == 0) {
      ::setenv("ANYACCEL_PYTHON_PACKAGE", place.c_str(), 1);
      break;
    }
  prepend("PYTHONPATH", hook.substr(0, hook.rfind('/')), ':');
  if (links_libtorch(find_program(program[0]).value_or(""))) {
    if (library.find_first_of(" :") != std::string::npos)
      throw Error(ErrorCode::unsupported, kWhere,
                  {.what = "the system cannot preload a library whose path has a space or ':'",
                   .got = library,
                   .hint = "install AnyAccel into another folder"});
    prepend("LD_PRELOAD", library, ' ');
  }

  std::fflush(stdout);
  ::execvp(program[0], const_cast<char* const*>(program.data()));
  throw Error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, kWhere,
              {.what = "the program cannot be started", .got = std::string(program[0]) + ": " + std::strerror(errno)});
}

}  // namespace anyaccel::cli
