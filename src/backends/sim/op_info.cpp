#include "backends/sim/op_info.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "backends/sim/fork.h"

namespace anyaccel::backends::sim {

namespace {

bool is_tensor_list(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ListType &&
         type.expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::TensorType;
}

bool gives_tensors(const c10::FunctionSchema& schema) {
  for (const auto& value : schema.returns())
    if (value.type()->kind() != c10::TypeKind::TensorType && !is_tensor_list(*value.type()))
      return false;
  return true;
}

/// True if numeric arguments determine the number of elements of the result.
bool counts_by_number(const std::string& name) {
  return name == "aten::arange" || name == "aten::range";
}

/// True for ops whose results depend on uninitialized memory, or whose geometry is known only after
/// the kernel has run.
bool always_waits(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::tensor_split", "aten::linalg_lstsq",
                                                     "aten::_native_batch_norm_legit"};
  return names.count(name) != 0;
}

bool host_tensors(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::index",
                                                     "aten::index_put",
                                                     "aten::index_put_",
                                                     "aten::_index_put_impl_",
                                                     "aten::_unsafe_index",
                                                     "aten::_unsafe_index_put",
                                                     "aten::tensor_split",
                                                     "aten::_ctc_loss",
                                                     "aten::_ctc_loss_backward"};
  return names.count(name) != 0;
}

/// True for ops whose out= form temporarily resizes its result. If the result already has the final
/// shape, the resize causes a warning, and binary_cross_entropy computes a wrong loss.
bool resizes_result(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::mse_loss", "aten::smooth_l1_loss",
                                                     "aten::soft_margin_loss",
                                                     "aten::binary_cross_entropy"};
  return names.count(name) != 0;
}

std::optional<c10::OperatorHandle> out_overload(const c10::FunctionSchema& schema) {
  const auto& overload = schema.overload_name();
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {schema.name(), overload.empty() ? "out" : overload + "_out"});
  if (!handle || !handle->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
  const auto& other = handle->schema();
  if (other.arguments().size() != schema.arguments().size() + schema.returns().size())
    return std::nullopt;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i)
    if (other.arguments()[i].name() != schema.arguments()[i].name()) return std::nullopt;
  return handle;
}

/// Functional ops whose result shapes torch infers with the same code for every device. Indexed by
/// name.
const std::unordered_map<std::string, std::vector<c10::OperatorHandle>>& structured_ops() {
  static const auto* all = [] {
    auto* found = new std::unordered_map<std::string, std::vector<c10::OperatorHandle>>;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames())
      if (const auto op = dispatcher.findSchema(name);
          op &&
          op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
          !op->hasTag(at::Tag::dynamic_output_shape))
        (*found)[name.name].push_back(*op);
    return found;
  }();
  return *all;
}

/// True for structured ops, including their out= and in-place forms. Their CPU kernels and meta
/// kernels infer shapes with the same code.
bool has_known_shapes(const c10::OperatorHandle& handle) {
  if (!handle.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return false;
  const auto& schema = handle.schema();
  auto name = schema.name();
  if (name.back() == '_') name.pop_back();
  const auto found = structured_ops().find(name);
  if (found == structured_ops().end()) return false;
  std::vector<c10::TypePtr> inputs;
  for (const auto& argument : schema.arguments())
    if (argument.alias_info() == nullptr || !argument.kwarg_only())
      inputs.push_back(argument.type());
  const auto same = [](const c10::TypePtr& type, const c10::Argument& argument) {
    return *type == *argument.type();
  };
  return std::any_of(found->second.begin(), found->second.end(), [&](const auto& op) {
    const auto& arguments = op.schema().arguments();
    return std::equal(inputs.begin(), inputs.end(), arguments.begin(), arguments.end(), same);
  });
}

}  // namespace

OpInfo::OpInfo(const c10::OperatorHandle& handle) : op(handle) {
  const auto& schema = handle.schema();
  name = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  const auto& arguments = schema.arguments();
  const bool counts = counts_by_number(schema.name());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    auto kind = argument.type()->kind();
    if (kind == c10::TypeKind::OptionalType)
      kind = argument.type()->expectRef<c10::OptionalType>().getElementType()->kind();
    by_value.push_back(counts ||
                       (kind != c10::TypeKind::NumberType && kind != c10::TypeKind::FloatType));
    if (argument.name() == "generator") generator = static_cast<int>(i);
  }
  for (const auto& value : schema.returns()) {
    int source = -1;
    if (const auto* info = value.alias_info()) {
      for (std::size_t i = 0; i < arguments.size() && source < 0; ++i)
        if (const auto* other = arguments[i].alias_info();
            other != nullptr && other->beforeSets() == info->beforeSets())
          source = static_cast<int>(i);
      if (!info->isWrite()) view = true;
    }
    returned.push_back(source);
    if (source < 0) ++fresh;
  }
  host_kernel = handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  own_thread = schema.name().rfind("aten::", 0) != 0;
  waits = handle.hasTag(at::Tag::dynamic_output_shape) ||
          handle.hasTag(at::Tag::data_dependent_output) || !gives_tensors(schema) ||
          always_waits(schema.name());
  known_shapes = !waits && !own_thread && !view && has_known_shapes(handle);
  takes_host_tensors = host_tensors(schema.name());
  if (fresh == static_cast<int>(returned.size()) && !view && gives_tensors(schema) &&
      !resizes_result(schema.name()))
    out = out_overload(schema);
}

const OpInfo& op_info(const c10::OperatorHandle& op) {
  // The schema's address identifies the op for the lifetime of the process.
  const void* const key = &op.schema();
  static thread_local std::unordered_map<const void*, const OpInfo*> near;
  if (const auto found = near.find(key); found != near.end()) return *found->second;
  static auto& mutex = *new HeldAtFork(ForkOrder::outer);  // held while torch is called
  static auto* all = new std::unordered_map<const void*, std::unique_ptr<OpInfo>>;
  const std::lock_guard lock(mutex);
  auto& info = (*all)[key];
  if (!info) info = std::make_unique<OpInfo>(op);
  near.emplace(key, info.get());
  return *info;
}

}  // namespace anyaccel::backends::sim
