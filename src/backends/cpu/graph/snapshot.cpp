#include "backends/cpu/graph/snapshot.h"

#include <c10/core/TensorImpl.h>

namespace anyaccel::backends::cpu {
namespace {

bool equal(const at::Tensor& a, const at::Tensor& b) {
  const auto* first = a.unsafeGetTensorImpl();
  const auto* second = b.unsafeGetTensorImpl();
  return a.is_alias_of(b) && a.dtype() == b.dtype() && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_conj() == b.is_conj() &&
         a.is_neg() == b.is_neg() && first->is_wrapped_number() == second->is_wrapped_number();
}

}  // namespace

at::Tensor Snapshots::take(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  // The address of a freed tensor may be reused, so the address only narrows the search.
  auto& candidates = taken_[tensor.unsafeGetTensorImpl()];
  for (const auto& candidate : candidates) {
    if (equal(candidate, tensor)) return candidate;
  }
  candidates.emplace_back(
      tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0),
                                                            /*allow_tensor_metadata_change=*/true));
  return candidates.back();
}

c10::IValue Snapshots::take(const c10::IValue& value) {
  if (value.isTensor()) return take(value.toTensor());
  if (!value.isList()) return value;
  const auto elements = value.toListRef();
  bool has_tensor = false;
  for (const auto& element : elements) has_tensor = has_tensor || element.isTensor();
  if (!has_tensor) return value;
  auto copy = value.toList().copy();
  for (std::size_t i = 0; i < copy.size(); ++i) copy.set(i, take(c10::IValue(copy.get(i))));
  return copy;
}

}  // namespace anyaccel::backends::cpu
