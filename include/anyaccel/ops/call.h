// Helpers for the C++ interfaces of ops. The op's builder loads the op once, and calls go through
// torch's dispatcher.
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

/// Return the op `anyaccel::<name>`, loading it with its builder first if necessary. Throws the
/// same errors as OpBuilder::load().
template <typename Signature>
c10::TypedOperatorHandle<Signature> load_op(const std::string& builder, const char* name) {
  const std::string full = std::string("anyaccel::") + name;
  auto& dispatcher = c10::Dispatcher::singleton();
  if (!dispatcher.findSchema({full, ""})) get_accelerator().create_op_builder(builder)->load();
  return dispatcher.findSchemaOrThrow(full.c_str(), "").typed<Signature>();
}

/// Return whether load_op() with this builder is expected to succeed.
inline bool has_op(const std::string& builder) {
  return get_accelerator().create_op_builder(builder)->is_compatible().compatible;
}

/// Return whether the op has a kernel for this tensor's device.
inline bool has_kernel(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  return op.hasKernelForDispatchKey(c10::legacyExtractDispatchKey(tensor.key_set()));
}

/// Return an unused, negative id for an optimizer created in C++. Ids from Python are nonnegative.
ANYACCEL_API std::int64_t next_optimizer_id() noexcept;

/// Run a call and convert torch's ValueError to `invalid_argument` with the text `[where] what`.
template <typename Call>
auto calling(std::string_view where, const Call& call) {
  try {
    return call();
  } catch (const c10::ValueError& error) {
    throw Error(ErrorCode::invalid_argument, where, {.what = error.what_without_backtrace()});
  }
}

}  // namespace anyaccel::ops
