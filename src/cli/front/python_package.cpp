#include "cli/front/python_package.h"

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

/// Runs the package named by the first argument in the folder given by the second. Unlike `python
/// -m`, this does not import modules from the current folder, which may contain untrusted programs,
/// and it does not add the package's neighbors to the module search path.
constexpr const char* kRunPackage =
    "import sys; sys.path = [path for path in sys.path if path]; "
    "name = sys.argv.pop(1); folder = sys.argv.pop(1); "
    "from importlib import import_module, machinery, util; "
    "spec = machinery.PathFinder.find_spec(name, [folder]); "
    "module = util.module_from_spec(spec); sys.modules[name] = module; "
    "spec.loader.exec_module(module); "
    "sys.exit(import_module(name + '.__main__').main())";

}  // namespace

void run_python_package(const char* where, const char* name, const char* variable,
                        std::span<const char* const> arguments) {
  const auto folder = python_package();
  if (folder.empty())
    throw Error(ErrorCode::unavailable, where,
                {.what = "AnyAccel's Python package is missing",
                 .hint = "reinstall AnyAccel with its Python package"});
  need_file(folder + "/" + name + "/__main__.py", where);
  const auto program = own_folder() + "/anyaccel";
  ::setenv(variable, program.c_str(), 1);

  const char* chosen = ::getenv("ANYACCEL_PYTHON");
  const char* python = chosen != nullptr && *chosen != 0 ? chosen : "python3";
  std::vector<const char*> words{python, "-c", kRunPackage, name, folder.c_str()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back(nullptr);
  std::fflush(stdout);
  ::execvp(python, const_cast<char* const*>(words.data()));
  throw Error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, where,
              {.what = std::string("cannot start ") + python + ": " + std::strerror(errno),
               .hint = "install Python 3.10 or newer, or name it with ANYACCEL_PYTHON"});
}

}  // namespace anyaccel::cli
