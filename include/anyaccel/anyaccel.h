// Includes the complete device interface for programs. Ops, language models and process groups have
// their own headers.
#pragma once

#include "anyaccel/accelerator.h"  // IWYU pragma: export
#include "anyaccel/version.h"      // IWYU pragma: export
