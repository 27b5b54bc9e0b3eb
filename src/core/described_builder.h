// Op builders made from descriptions: AnyAccel's own, found in their folder, and those of
// extensions.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/sdk/op_builder.h"
#include "build/service.h"

namespace anyaccel {

/// The factory of AnyAccel's own op of that class, when it serves the backend; empty otherwise. A
/// description that names the backend stands above one for every backend (`*`), which takes its
/// place where that is not compatible. Thread-safe.
sdk::OpBuilderFactory find_own_op(const std::string& backend, const std::string& class_name);
/// Class names of AnyAccel's own ops that serve a backend. Thread-safe.
std::vector<std::string> own_ops(const std::string& backend);

/// AnyAccel's own op of that class; null when there is none. Thread-safe.
const build::Op* own_op(const std::string& class_name);
/// What its builder would look for it with: LibTorch as this process has it open, the environment's
/// settings. Throws `unavailable`.
build::Settings own_settings();

/// The factory that register_op_builder() was given; empty when there is none. It stands above
/// AnyAccel's own. Thread-safe.
sdk::OpBuilderFactory find_registered_op(const std::string& backend, const std::string& class_name);

}  // namespace anyaccel
