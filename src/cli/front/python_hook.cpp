#include "cli/front/python_hook.h"

#include <unistd.h>

#include <cstdlib>

#include "anyaccel/error.h"
#include "cli/front/front.h"

namespace anyaccel::cli {

void prepend_variable(const char* variable, const std::string& value, char separator) {
  const char* before = ::getenv(variable);
  ::setenv(variable,
           (before != nullptr && *before != 0 ? value + separator + before : value).c_str(), 1);
}

void need_file(const std::string& file, const char* where) {
  if (::access(file.c_str(), R_OK) == 0) return;
  throw Error(
      ErrorCode::unavailable, where,
      {.what = "an AnyAccel file is missing",
       .got = "no " + file,
       .hint = "reinstall AnyAccel, or keep its bin, lib and share folders next to each other"});
}

std::string python_package() {
  const std::string bin = own_folder();
  const std::string prefix = bin.substr(0, bin.rfind('/'));
  for (const std::string& place : {prefix + "/" ANYACCEL_PYTHON_DIR, prefix + "/python"})
    if (::access((place + "/anyaccel").c_str(), R_OK) == 0) return place;
  return {};
}

std::string use_python_hook(const char* where) {
  const std::string bin = own_folder();
  const std::string prefix = bin.substr(0, bin.rfind('/'));
  const auto folder = prefix + "/" ANYACCEL_DATADIR "/anyaccel/python_hook";
  need_file(folder + "/sitecustomize.py", where);
  prepend_variable("PYTHONPATH", folder, ':');
  const auto package = python_package();
  if (!package.empty()) ::setenv("ANYACCEL_PYTHON_PACKAGE", package.c_str(), 1);
  return package;
}

}  // namespace anyaccel::cli
