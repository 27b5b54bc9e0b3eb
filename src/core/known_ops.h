// Names of the op builders in current and past versions of DeepSpeed. A program may request any of
// them on any backend.
#pragma once

#include <string>
#include <string_view>

namespace anyaccel {

/// Returns the op name (`NAME`) of a builder class, for example "cpu_adam", or an empty string for
/// an unknown class.
std::string_view known_op_name(std::string_view class_name) noexcept;

/// Returns the name of the known class that is closest to an unknown one, or an empty string if
/// none is close.
std::string nearest_op(std::string_view class_name);

}  // namespace anyaccel
