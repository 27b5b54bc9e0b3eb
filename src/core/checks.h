// Error conversion for all source files that implement Accelerator.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "anyaccel/error.h"
#include "core/out_of_memory.h"

namespace anyaccel {

/// Runs `body` and converts torch's exceptions to an `Error` that names `where`.
template <typename Body>
auto translated(const char* where, Body&& body) {
  try {
    return body();
  } catch (const c10::NotImplementedError& error) {
    throw Error(ErrorCode::unsupported, where, {.what = error.what_without_backtrace()});
  } catch (const c10::Error& error) {
    throw Error(is_out_of_memory(error) ? ErrorCode::out_of_memory : ErrorCode::device_error, where,
                {.what = error.what_without_backtrace()});
  }
}

}  // namespace anyaccel
