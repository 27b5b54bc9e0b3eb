// Where a library of this process lies.
#pragma once

#include <dlfcn.h>

#include <filesystem>

#include "anyaccel/error.h"

namespace anyaccel {

/// The folder of the library that holds a function; `unavailable` when the loader cannot say.
template <typename Function>
std::filesystem::path library_folder(const char* where, Function* function) {
  Dl_info info{};
  std::error_code error;
  if (::dladdr(reinterpret_cast<void*>(function), &info) != 0 && info.dli_fname != nullptr)
    if (auto path = std::filesystem::canonical(info.dli_fname, error); !error) return path.parent_path();
  throw Error(ErrorCode::unavailable, where, {.what = "the loader does not say where our libraries lie"});
}

}  // namespace anyaccel
