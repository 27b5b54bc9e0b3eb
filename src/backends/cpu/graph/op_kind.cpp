#include "backends/cpu/graph/op_kind.h"

#include <ATen/core/function_schema.h>

#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/cpu/graph/trial.h"

namespace anyaccel::backends::cpu {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;

// Composite ops that have no CPU kernel and are known to call only dispatched ops. Recording the
// inner ops is faster than calling the composite op. All other composite ops are recorded as a
// whole, which is always correct.
bool body_is_dispatched(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"aten::add",
                                                             "aten::add_",
                                                             "aten::sub",
                                                             "aten::sub_",
                                                             "aten::rsub",
                                                             "aten::mul",
                                                             "aten::mul_",
                                                             "aten::div",
                                                             "aten::div_",
                                                             "aten::clone",
                                                             "aten::_to_copy",
                                                             "aten::zeros",
                                                             "aten::ones",
                                                             "aten::full",
                                                             "aten::zeros_like",
                                                             "aten::ones_like",
                                                             "aten::full_like",
                                                             "aten::new_zeros",
                                                             "aten::new_ones",
                                                             "aten::new_full",
                                                             "aten::rand",
                                                             "aten::rand_like",
                                                             "aten::randn",
                                                             "aten::randn_like",
                                                             "aten::sum",
                                                             "aten::mean",
                                                             "aten::embedding",
                                                             "aten::masked_fill",
                                                             "aten::slice_backward",
                                                             "aten::select_backward"};
  return names.count(name) != 0 || name.substr(0, 15) == "aten::_foreach_";
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool has_composite_kernel(const OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// Returns all overloads of the op `name`. The dispatcher has no index by name.
const std::vector<OperatorHandle>& overloads(const std::string& name) {
  static const auto index = [] {
    std::unordered_map<std::string, std::vector<OperatorHandle>> made;
    for (const auto& op_name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (const auto op = c10::Dispatcher::singleton().findSchema(op_name))
        made[op_name.name].push_back(*op);
    }
    return made;
  }();
  static const std::vector<OperatorHandle> none;
  const auto found = index.find(name);
  return found == index.end() ? none : found->second;
}

// Returns the out= overload, which takes the same arguments followed by one output per result.
std::optional<OperatorHandle> find_out(const OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  for (const auto& result : schema.returns()) {
    if (result.type()->kind() != c10::TypeKind::TensorType) return std::nullopt;
  }
  for (const auto& candidate : overloads(schema.name())) {
    const auto& others = candidate.schema().arguments();
    bool same = others.size() == arguments.size() + schema.returns().size();
    for (std::size_t i = 0; same && i < others.size(); ++i) {
      same = i < arguments.size()
                 ? others[i].name() == arguments[i].name() &&
                       *others[i].type() == *arguments[i].type() && !is_written(others[i])
                 : others[i].type()->kind() == c10::TypeKind::TensorType && is_written(others[i]);
    }
    if (same && candidate.hasKernelForDispatchKey(DispatchKey::CPU)) return candidate;
  }
  return std::nullopt;
}

bool returns_only_tensors(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    const auto kind = result.type()->kind();
    const bool list = kind == c10::TypeKind::ListType &&
                      result.type()->castRaw<c10::ListType>()->getElementType()->kind() ==
                          c10::TypeKind::TensorType;
    if (kind != c10::TypeKind::TensorType && !list) return false;
  }
  return true;
}

bool returns_views(const c10::FunctionSchema& schema) {
  if (schema.returns().empty()) return false;
  for (const auto& result : schema.returns()) {
    if (result.alias_info() == nullptr || result.alias_info()->isWrite()) return false;
  }
  return true;
}

OpKind classify(const OperatorHandle& op) {
  using Action = OpKind::Action;
  const auto& schema = op.schema();
  const std::string& name = schema.name();
  OpKind kind;
  bool only_out = true;  // out= arguments are keyword-only
  for (const auto& argument : schema.arguments()) {
    kind.writes = kind.writes || is_written(argument);
    only_out = only_out && (!is_written(argument) || argument.kwarg_only());
  }
  kind.random = op.hasTag(at::Tag::nondeterministic_seeded);

  static const std::unordered_set<std::string_view> overwriting = {
      "aten::copy_",   "aten::zero_",    "aten::fill_",
      "aten::normal_", "aten::uniform_", "aten::bernoulli_"};
  kind.overwrites = kind.writes && (only_out || overwriting.count(name) != 0);
  kind.dynamic_by_mask = name == "aten::index" || name == "aten::_unsafe_index";

  if (op.hasTag(at::Tag::data_dependent_output) || name == "aten::_local_scalar_dense") {
    kind.action = Action::fail;
    kind.reason = "the host reads its result";
  } else if (op.hasTag(at::Tag::dynamic_output_shape) && !kind.dynamic_by_mask) {
    kind.action = Action::fail;
    kind.reason = "the shape of its result depends on values";
  } else if (!op.hasKernelForDispatchKey(DispatchKey::CPU) &&
             (!has_composite_kernel(op) || body_is_dispatched(name))) {
    kind.action = Action::decompose;
  } else if (op.hasTag(at::Tag::inplace_view) || returns_views(schema) ||
             starts_with(name, "aten::empty") || starts_with(name, "aten::new_empty")) {
    kind.action = Action::pass;
  } else if (!returns_only_tensors(schema)) {
    // torch's own ops without tensor results only query shapes and types. Ops from other libraries
    // may do anything.
    kind.action =
        starts_with(name, "aten::") || starts_with(name, "prim") || starts_with(name, "profiler::")
            ? Action::pass
            : Action::fail;
    kind.reason = "it returns values that are not tensors";
  } else if (!kind.random) {
    kind.fast = find_fast_maker(toString(op.operator_name()));
    if (!kind.writes) kind.out = find_out(op);
  }
  return kind;
}

}  // namespace

const OpKind& kind_of(const OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<OperatorHandle, OpKind> kinds;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = kinds.find(op);
  return found != kinds.end() ? found->second : kinds.emplace(op, classify(op)).first->second;
}

}  // namespace anyaccel::backends::cpu
