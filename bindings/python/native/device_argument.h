// Devices as arguments: the accelerator's methods accept them in each form that torch.cuda's
// accept.
#pragma once

#include <torch/csrc/Device.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "binding.h"

namespace anyaccel::python {

using Index = std::optional<DeviceIndex>;

/// A device in Python: None, an index, a name such as "cuda:1", or a torch.device.
struct DeviceArgument {
  Index index;                          ///< nullopt: the current device
  std::optional<c10::DeviceType> type;  ///< nullopt: the caller gave no type

  /// Returns the index. Throws an error if the device belongs to another accelerator.
  Index on(const Accelerator& accelerator) const {
    if (type && *type != accelerator.device_type())
      throw Error(ErrorCode::invalid_argument, "device",
                  {.what = "the device belongs to another accelerator",
                   .got = c10::DeviceTypeName(*type, true),
                   .want = c10::DeviceTypeName(accelerator.device_type(), true)});
    return index;
  }
};

template <typename Argument>
using InPython =
    std::conditional_t<std::is_same_v<Argument, Index>, const DeviceArgument&, Argument>;

/// Returns an argument for the C++ library.
template <typename Argument>
Argument from_python(const Accelerator& accelerator, InPython<Argument> argument) {
  if constexpr (std::is_same_v<Argument, Index>)
    return argument.on(accelerator);
  else
    return std::forward<Argument>(argument);
}

/// Wraps a method of Accelerator whose parameters of type Index accept devices in any form.
template <typename Result, typename... Arguments>
auto accepting_devices(Result (Accelerator::*method)(Arguments...)) {
  return [method](Accelerator& self, InPython<Arguments>... arguments) -> Result {
    return (self.*
            method)(from_python<Arguments>(self, std::forward<InPython<Arguments>>(arguments))...);
  };
}

template <typename Result, typename... Arguments>
auto accepting_devices(Result (Accelerator::*method)(Arguments...) const) {
  return [method](const Accelerator& self, InPython<Arguments>... arguments) -> Result {
    return (self.*
            method)(from_python<Arguments>(self, std::forward<InPython<Arguments>>(arguments))...);
  };
}

/// Whether a function is a method of Accelerator with a parameter of type Index.
template <typename Function>
struct TakesIndex : std::false_type {};
template <typename Result, typename... Arguments>
struct TakesIndex<Result (Accelerator::*)(Arguments...)>
    : std::bool_constant<(std::is_same_v<Arguments, Index> || ...)> {};
template <typename Result, typename... Arguments>
struct TakesIndex<Result (Accelerator::*)(Arguments...) const>
    : std::bool_constant<(std::is_same_v<Arguments, Index> || ...)> {};

}  // namespace anyaccel::python

namespace pybind11::detail {

template <>
struct type_caster<anyaccel::python::DeviceArgument> {
  PYBIND11_TYPE_CASTER(anyaccel::python::DeviceArgument,
                       const_name("int | str | torch.device | None"));

  bool load(handle source, bool convert) {
    if (source.is_none()) return true;
    if (THPDevice_Check(source.ptr()))
      return set(reinterpret_cast<THPDevice*>(source.ptr())->device);
    if (PyUnicode_Check(source.ptr()) != 0) return set(named(source));
    make_caster<anyaccel::DeviceIndex> index;
    if (!index.load(source, convert)) return false;
    value.index = cast_op<anyaccel::DeviceIndex>(index);
    return true;
  }

 private:
  static c10::Device named(handle name) try {
    return c10::Device(name.cast<std::string>());
  } catch (const c10::Error&) {
    throw anyaccel::Error(anyaccel::ErrorCode::invalid_argument, "device",
                          {.what = "no device has this name",
                           .got = std::string(repr(name)).substr(0, 80),
                           .want = "an index, a torch.device or a name such as \"cuda:1\""});
  }
  bool set(const c10::Device& device) {
    value.type = device.type();
    if (device.has_index()) value.index = device.index();
    return true;
  }
};

}  // namespace pybind11::detail
