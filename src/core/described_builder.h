// Op builders made from descriptions, for AnyAccel's own ops and for those of extensions.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/sdk/op_builder.h"
#include "build/service.h"

namespace anyaccel {

/// Returns the factory of AnyAccel's own op whose builder class is `class_name`, or an empty
/// function if the op does not support the backend. A description that names the backend takes
/// precedence over one for every backend (`*`). If the first description is not compatible, the
/// factory falls back to the second. Thread-safe.
sdk::OpBuilderFactory find_own_op(const std::string& backend, const std::string& class_name);
/// Returns the builder classes of AnyAccel's own ops that support a backend. Thread-safe.
std::vector<std::string> own_ops(const std::string& backend);

/// Returns AnyAccel's own op whose builder class is `class_name`, or null if there is none.
/// Thread-safe.
const build::Op* own_op(const std::string& class_name);
/// Returns the settings that builders use to find and build AnyAccel's own ops: this process's
/// LibTorch and the settings from the environment. Throws `unavailable`.
build::Settings own_settings();

/// Returns the factory passed to register_op_builder(), or an empty function if there is none. It
/// takes precedence over AnyAccel's own ops. Thread-safe.
sdk::OpBuilderFactory find_registered_op(const std::string& backend, const std::string& class_name);

}  // namespace anyaccel
