// How the C++ interface of an op reaches it: loaded once by its builder, called through torch's
// dispatcher.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "ATen/core/dispatch/Dispatcher.h"
#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "anyaccel/export.h"
#include "anyaccel/op_builder.h"

namespace anyaccel::ops {

/// The op `anyaccel::<name>`, after its builder has loaded it.
template <typename Signature>
c10::TypedOperatorHandle<Signature> load_op(const std::string& builder, const char* name) {
  const std::string full = std::string("anyaccel::") + name;
  auto& dispatcher = c10::Dispatcher::singleton();
  if (!dispatcher.findSchema({full, ""})) get_accelerator().create_op_builder(builder)->load();
  return dispatcher.findSchemaOrThrow(full.c_str(), "").typed<Signature>();
}

/// Whether load_op() of this builder can be expected to work here.
inline bool has_op(const std::string& builder) {
  return get_accelerator().create_op_builder(builder)->is_compatible().compatible;
}

/// Whether the op has a kernel of its own for tensors that lie where this one does.
inline bool has_kernel(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  return op.hasKernelForDispatchKey(c10::legacyExtractDispatchKey(tensor.key_set()));
}

/// For an optimizer made in C++: Python counts from 0 upwards.
ANYACCEL_API std::int64_t next_optimizer_id() noexcept;

/// Calls, and makes an op's refusal ours: its text is `[op] what`.
template <typename Call>
auto calling(std::string_view where, const Call& call) {
  try {
    return call();
  } catch (const c10::ValueError& error) {
    throw Error(ErrorCode::invalid_argument, where, {.what = error.what_without_backtrace()});
  }
}

}  // namespace anyaccel::ops
