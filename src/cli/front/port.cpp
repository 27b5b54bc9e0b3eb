// `anyaccel port`: runs the Python package anyaccel_port, which does not need torch.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "cli/front/front.h"
#include "cli/front/python_hook.h"

namespace anyaccel::cli {
namespace {

constexpr const char* kPort = "port";
/// Runs the package in the folder given by the first argument. Unlike `python -m`, this does not
/// import modules from the current folder, which may be the examined program, and it does not add
/// the package's neighbors to the module search path.
constexpr const char* kRunPackage =
    "import sys; sys.path = [path for path in sys.path if path]; folder = sys.argv.pop(1); "
    "from importlib import machinery, util; "
    "spec = machinery.PathFinder.find_spec('anyaccel_port', [folder]); "
    "module = util.module_from_spec(spec); sys.modules['anyaccel_port'] = module; "
    "spec.loader.exec_module(module); "
    "from anyaccel_port.__main__ import main; sys.exit(main())";

}  // namespace

int run_port(std::span<const char* const> arguments) {
  const auto package = python_package();
  if (package.empty())
    throw Error(ErrorCode::unavailable, kPort,
                {.what = "AnyAccel's Python package is missing",
                 .hint = "reinstall AnyAccel with its Python package"});
  need_file(package + "/anyaccel_port/__main__.py", kPort);
  // `--verify` runs this program again.
  const auto program = own_folder() + "/anyaccel";
  ::setenv("ANYACCEL_PORT_PROGRAM", program.c_str(), 1);

  const char* chosen = ::getenv("ANYACCEL_PYTHON");
  const char* python = chosen != nullptr && *chosen != 0 ? chosen : "python3";
  std::vector<const char*> words{python, "-c", kRunPackage, package.c_str()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back(nullptr);
  std::fflush(stdout);
  ::execvp(python, const_cast<char* const*>(words.data()));
  throw Error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, kPort,
              {.what = std::string("cannot start ") + python + ": " + std::strerror(errno),
               .hint = "install Python 3.10 or newer, or name it with ANYACCEL_PYTHON"});
}

}  // namespace anyaccel::cli
