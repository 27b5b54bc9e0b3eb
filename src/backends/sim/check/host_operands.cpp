#include "backends/sim/check/host_operands.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "backends/sim/op_info.h"

namespace anyaccel::backends::sim::checking {

namespace {

using Names = std::array<std::string_view, 4>;

/// Ops whose CPU kernel does not access the memory of its arguments.
constexpr Names kShapeOnly{"aten::set_", "aten::resize_", "aten::_resize_output_",
                           "aten::_pin_memory"};

bool accesses_memory(const OpInfo& info) {
  const auto& name = info.op.schema().name();
  if (name == "aten::copy_") return true;  // one kernel for all devices
  return info.op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         std::find(kShapeOnly.begin(), kShapeOnly.end(), name) == kShapeOnly.end();
}

}  // namespace

void find_host_operands(const c10::OperatorName& op, c10::ArrayRef<const c10::IValue> arguments,
                        const std::function<void(const c10::TensorImpl&, bool)>& found) {
  const auto handle = c10::Dispatcher::singleton().findSchema(op);
  if (!handle) return;
  const auto& info = op_info(*handle);
  if (!accesses_memory(info)) return;
  const auto& schema = handle->schema();
  const auto visit = [&](const c10::IValue& value, bool written) {
    if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().has_storage()) return;
    found(*value.toTensor().unsafeGetTensorImpl(), written);
  };
  for (std::size_t i = 0; i < std::min(arguments.size(), schema.arguments().size()); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && !alias->isWrite()) continue;
    if (arguments[i].isTensor()) {
      visit(arguments[i], info.written[i]);
    } else if (arguments[i].isList()) {
      for (const auto& each : arguments[i].toListRef()) visit(each, info.written[i]);
    }
  }
}

}  // namespace anyaccel::backends::sim::checking
