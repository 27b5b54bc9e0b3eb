// Names of op builders of current and past versions of DeepSpeed. A program may ask for any of them
// on any backend.
#pragma once

#include <string>
#include <string_view>

namespace anyaccel {

/// `NAME` of a builder's class, for example "cpu_adam"; empty for an unknown class.
std::string_view known_op_name(std::string_view class_name) noexcept;

/// The known class whose name is nearest to an unknown one; empty if none is near.
std::string nearest_op(std::string_view class_name);

}  // namespace anyaccel
