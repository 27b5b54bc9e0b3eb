// Finds the folders of libraries that this process has loaded.
#pragma once

#include <dlfcn.h>

#include <filesystem>

#include "anyaccel/error.h"
#include "anyaccel/export.h"

namespace anyaccel {

/// Returns the folder of the library that contains a function. Throws `unavailable` if the loader
/// does not report it.
template <typename Function>
std::filesystem::path library_folder(const char* where, Function* function) {
  Dl_info info{};
  std::error_code error;
  if (::dladdr(reinterpret_cast<void*>(function), &info) != 0 && info.dli_fname != nullptr)
    if (auto path = std::filesystem::canonical(info.dli_fname, error); !error)
      return path.parent_path();
  throw Error(ErrorCode::unavailable, where,
              {.what = "the loader does not report the path of AnyAccel's library"});
}

/// Returns the folder that contains AnyAccel's libraries. If the program itself contains their
/// code, as unit tests do, returns the folder `lib` next to the program's folder. Throws
/// `unavailable` if the loader does not report the folder.
ANYACCEL_API std::filesystem::path own_library_folder(const char* where);

}  // namespace anyaccel
