// Converts ICU errors to AnyAccel errors.
#pragma once

#include <unicode/utypes.h>

#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm {

inline void check_icu(UErrorCode status, const char* what) {
  if (U_FAILURE(status)) {
    throw Error(ErrorCode::internal, "Tokenizer",
                {.what = std::string("ICU failed: ") + what, .got = u_errorName(status)});
  }
}

}  // namespace anyaccel::llm
