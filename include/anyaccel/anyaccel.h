// All of the interface for callers.
#pragma once

#include "anyaccel/accelerator.h"  // IWYU pragma: export
#include "anyaccel/version.h"      // IWYU pragma: export
