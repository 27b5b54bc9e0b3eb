// Registers torch.ops.anyaccel.shm_*: schemas, and kernels for tensors of every dtype and device.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "anyaccel/error.h"
#include "comm/shm/communicator.h"
#include "groups.h"
#include "ops/shared/boxed.h"
#include "ops/shared/empty.h"
#include "ops/shared/error.h"
#include "over_c10d.h"

namespace anyaccel::ops::shm {

namespace {

using at::Tensor;
using c10::ScalarType;

/// Returns the kind of number in a dtype's elements, and how many numbers an element consists of (2
/// for complex dtypes).
std::pair<Kind, int> numbers(const char* where, ScalarType type) {
  switch (type) {
    case ScalarType::Float: return {Kind::f32, 1};
    case ScalarType::Double: return {Kind::f64, 1};
    case ScalarType::Half: return {Kind::f16, 1};
    case ScalarType::BFloat16: return {Kind::bf16, 1};
    case ScalarType::Char: return {Kind::i8, 1};
    case ScalarType::Byte: return {Kind::u8, 1};
    case ScalarType::Short: return {Kind::i16, 1};
    case ScalarType::UInt16: return {Kind::u16, 1};
    case ScalarType::Int: return {Kind::i32, 1};
    case ScalarType::UInt32: return {Kind::u32, 1};
    case ScalarType::Long: return {Kind::i64, 1};
    case ScalarType::UInt64: return {Kind::u64, 1};
    case ScalarType::Bool: return {Kind::boolean, 1};
    case ScalarType::ComplexFloat: return {Kind::f32, 2};
    case ScalarType::ComplexDouble: return {Kind::f64, 2};
    case ScalarType::ComplexHalf: return {Kind::f16, 2};
    default:
      throw Error(ErrorCode::unsupported, where,
                  {.what = "this dtype cannot be reduced",
                   .got = c10::toString(type),
                   .want = "floats of 16 to 64 bits, integers, bool or complex numbers",
                   .hint = "convert the tensor to float32 first"});
  }
}

void check_complex(const char* where, int parts, Reduce reduce) {
  if (parts == 2 && reduce != Reduce::sum && reduce != Reduce::avg)
    throw Error(
        ErrorCode::unsupported, where,
        {.what = "complex numbers can only be summed or averaged", .got = to_string(reduce)});
}

[[noreturn]] void fail_average(const char* where, ScalarType type) {
  throw Error(ErrorCode::unsupported, where,
              {.what = "AVG requires a floating-point dtype",
               .got = c10::toString(type),
               .want = "a floating-point dtype"});
}

Reduce reduction(const char* where, const std::string& name, ScalarType type) {
  static const std::map<std::string, Reduce> kNames{
      {"sum", Reduce::sum},         {"avg", Reduce::avg}, {"mean", Reduce::avg},
      {"product", Reduce::product}, {"min", Reduce::min}, {"max", Reduce::max}};
  const auto found = kNames.find(name);
  if (found == kNames.end())
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "unknown reduction",
                 .got = "'" + name + "'",
                 .want = "sum, avg, product, min or max"});
  const auto reduce = found->second;
  const auto [kind, parts] = numbers(where, type);
  check_complex(where, parts, reduce);
  if (!can_reduce(kind, reduce)) fail_average(where, type);
  return reduce;
}

/// A tensor in contiguous host memory: the original tensor if possible, and a copy otherwise.
struct Plain {
  Tensor tensor;
  bool same;
  explicit Plain(const Tensor& from, bool read = true)
      : same(from.is_cpu() && from.is_contiguous() && !from.is_conj() && !from.is_neg()) {
    tensor = same ? from : empty(from.sizes(), from.options().device(at::kCPU));
    if (!same && read) tensor.copy_(from);
  }
  /// Copies the result back if a copy was used. Otherwise, bumps the tensor's version for autograd.
  void finish(const Tensor& to) const {
    if (!same)
      to.copy_(tensor);
    else if (!to.is_inference())
      to.unsafeGetTensorImpl()->bump_version();
  }
  void* data() const { return tensor.mutable_data_ptr(); }
  std::size_t bytes() const { return tensor.nbytes(); }
};

Tensor as_bytes(const Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

/// Returns a flat view in which a complex element becomes two numbers.
Tensor flat(const Tensor& plain) {
  const auto numbers = plain.view({-1});
  switch (plain.scalar_type()) {
    case ScalarType::ComplexHalf: return numbers.view(at::kHalf);
    case ScalarType::ComplexFloat: return numbers.view(at::kFloat);
    case ScalarType::ComplexDouble: return numbers.view(at::kDouble);
    default: return numbers;
  }
}

void reduce_plain(Group& group, const Tensor& tensor, Reduce reduce) {
  if (tensor.numel() == 0) return;
  const auto [kind, parts] = numbers("shm_all_reduce", tensor.scalar_type());
  const std::lock_guard lock(group.mutex);
  if (group.communicator) {
    auto* const data = tensor.mutable_data_ptr();
    group.communicator->all_reduce(data, data, static_cast<std::size_t>(tensor.numel() * parts),
                                   kind, reduce);
    return;
  }
  reduce_over_c10d(group, flat(tensor), kind, reduce);
}

void all_reduce_(const Tensor& self, const std::string& op, const std::string& name) {
  const auto reduce = reduction("shm_all_reduce_", op, self.scalar_type());
  const auto group = find_group(name);
  const Plain plain(self);
  reduce_plain(*group, plain.tensor, reduce);
  plain.finish(self);
}

Tensor all_reduce(const Tensor& self, const std::string& op, const std::string& name) {
  const auto reduce = reduction("shm_all_reduce", op, self.scalar_type());
  const auto group = find_group(name);
  auto result = empty(self.sizes(), self.options());
  const Plain plain(result, false);
  plain.tensor.copy_(self);
  reduce_plain(*group, plain.tensor, reduce);
  plain.finish(result);
  return result;
}

std::vector<std::int64_t> gathered_sizes(const Tensor& self, int ranks) {
  auto sizes = self.sizes().vec();
  if (sizes.empty()) sizes.push_back(1);
  sizes[0] *= ranks;
  return sizes;
}

Tensor all_gather(const Tensor& self, const std::string& name) {
  const auto group = find_group(name);
  auto result = empty(gathered_sizes(self, group->size), self.options());
  if (result.numel() == 0) return result;
  const Plain in(self);
  const Plain out(result, false);
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    group->communicator->all_gather(in.data(), out.data(), in.bytes());
  else
    as_bytes(out.tensor).copy_(gather_over_c10d(*group, as_bytes(in.tensor)));
  out.finish(result);
  return result;
}

std::vector<std::int64_t> scattered_sizes(const Tensor& self, int ranks) {
  auto sizes = self.sizes().vec();
  if (sizes.empty() || sizes[0] % ranks != 0)
    throw Error(ErrorCode::invalid_argument, "shm_reduce_scatter",
                {.what = "the first dimension must be a multiple of the number of ranks",
                 .got = sizes.empty() ? "a scalar" : std::to_string(sizes[0]),
                 .want = "a multiple of " + std::to_string(ranks)});
  sizes[0] /= ranks;
  return sizes;
}

Tensor reduce_scatter(const Tensor& self, const std::string& op, const std::string& name) {
  const auto reduce = reduction("shm_reduce_scatter", op, self.scalar_type());
  const auto group = find_group(name);
  auto result = empty(scattered_sizes(self, group->size), self.options());
  if (result.numel() == 0) return result;
  const Plain in(self);
  const Plain out(result, false);
  const std::lock_guard lock(group->mutex);
  if (group->communicator) {
    const auto [kind, parts] = numbers("shm_reduce_scatter", self.scalar_type());
    group->communicator->reduce_scatter(
        in.data(), out.data(), static_cast<std::size_t>(result.numel() * parts), kind, reduce);
  } else {
    // All-reduce and take a slice, like c10d's gloo backend.
    const auto whole = in.same ? in.tensor.clone() : in.tensor;
    const auto part = result.numel();
    reduce_over_c10d(*group, flat(whole), numbers("shm_reduce_scatter", self.scalar_type()).first,
                     reduce);
    out.tensor.view({-1}).copy_(
        whole.view({-1}).slice(0, group->rank * part, (group->rank + 1) * part));
  }
  out.finish(result);
  return result;
}

void broadcast_(const Tensor& self, std::int64_t source, const std::string& name) {
  const auto group = find_group(name);
  if (source < 0 || source > std::numeric_limits<int>::max())
    throw Error(ErrorCode::invalid_argument, "shm_broadcast",
                {.what = "the source rank is out of range", .got = std::to_string(source)});
  const Plain plain(self);
  if (self.numel() == 0) return;
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    group->communicator->broadcast(plain.data(), plain.bytes(), static_cast<int>(source));
  else
    broadcast_over_c10d(*group, as_bytes(plain.tensor), source);
  if (source != group->rank) plain.finish(self);
}

void barrier(const std::string& name) {
  const auto group = find_group(name);
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    group->communicator->barrier();
  else
    apply_over_c10d(*group, empty({1}, at::kInt).zero_(), "sum");
}

// Kernels for the ops with DeepSpeed's names, whose calls do not name a group.
Tensor inference_all_reduce(const Tensor& self) { return all_reduce(self, "sum", chosen_group()); }
Tensor inference_all_reduce_meta(const Tensor& self) { return empty(self.sizes(), self.options()); }
Tensor& inference_all_reduce_(Tensor& self) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("anyaccel::shm_all_reduce_", "")
                             .typed<void(const Tensor&, const std::string&, const std::string&)>();
  op.call(self, "sum", chosen_group());
  return self;
}

/// Returns true if this library has registered the names, and false if another library has.
bool offer_deepspeed_names(const std::string& group) {
  static std::mutex mutex;
  static torch::Library* library = nullptr;
  find_group(group);
  choose_group(group);
  const std::lock_guard lock(mutex);
  if (library != nullptr) return true;
  if (c10::Dispatcher::singleton().findSchema({"deepspeed::inference_all_reduce_", ""}))
    return false;
  library =
      new torch::Library(torch::Library::FRAGMENT, "deepspeed", std::nullopt, __FILE__, __LINE__);
  library->def("inference_all_reduce(Tensor self) -> Tensor",
               torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, inference_all_reduce));
  // This definition is decomposed into the op above before tracing and functionalization.
  library->def("inference_all_reduce_(Tensor(a!) self) -> Tensor(a!)", inference_all_reduce_);
  library->impl("inference_all_reduce",
                torch::dispatch(c10::DispatchKey::Meta, inference_all_reduce_meta));
  return true;
}

// The fastest path for C++: a function that takes a group handle and bypasses the dispatcher and
// tensors.
void reduce_at(void* handle_at, const void* in, void* out, std::int64_t count, std::int8_t dtype,
               int op) {
  static constexpr Reduce kReductions[] = {Reduce::sum, Reduce::avg, Reduce::product, Reduce::min,
                                           Reduce::max};
  constexpr const char* kWhere = "ShareMemComm::all_reduce";
  const auto held = group_of(*static_cast<const GroupHandle*>(handle_at));
  auto& group = *held;
  const auto type = static_cast<ScalarType>(dtype);
  const auto [kind, parts] = numbers(kWhere, type);
  const auto reduce = kReductions[op];
  check_complex(kWhere, parts, reduce);
  if (!can_reduce(kind, reduce)) fail_average(kWhere, type);
  if (count < 0)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "the count is negative", .got = std::to_string(count)});
  const std::lock_guard lock(group.mutex);
  if (group.communicator) {
    group.communicator->all_reduce(in, out, static_cast<std::size_t>(count * parts), kind, reduce);
    return;
  }
  if (count == 0) return;
  if (in != out) std::memcpy(out, in, static_cast<std::size_t>(count * parts) * size_of(kind));
  reduce_over_c10d(group, flat(at::from_blob(out, {count}, at::TensorOptions(type))), kind, reduce);
}

/// Sums float32 values in place, for ops that all-reduce internally. Calls `idle(data)` repeatedly
/// while it waits for other ranks.
void sum_at(void* handle_at, float* values, std::int64_t count, void (*idle)(void*), void* data) {
  const auto held = group_of(*static_cast<const GroupHandle*>(handle_at));
  auto& group = *held;
  struct Idling {
    Communicator* communicator;
    ~Idling() {
      if (communicator) communicator->set_idle({});
    }
  };
  if (!group.communicator)
    return reduce_at(handle_at, values, values, count, static_cast<int>(ScalarType::Float), 0);
  const std::lock_guard lock(group.mutex);
  const Idling idling{group.communicator.get()};
  group.communicator->set_idle({idle, data});
  group.communicator->all_reduce(values, values, static_cast<std::size_t>(count), Kind::f32,
                                 Reduce::sum);
}

/// Returns the addresses of the group's handle, of reduce_at and of sum_at. They remain valid for
/// the lifetime of the process.
std::vector<std::int64_t> pointer_call(const std::string& name) {
  return {reinterpret_cast<std::int64_t>(find_handle(name)),
          reinterpret_cast<std::int64_t>(&reduce_at), reinterpret_cast<std::int64_t>(&sum_at)};
}

/// DeepSpeed's level 2 means that there are vector kernels for all of DeepSpeed's dtypes. Our
/// kernels support every dtype on every CPU.
std::int64_t kernel_level() { return 2; }

std::string reason(const std::string& name) { return find_group(name)->reason; }
std::int64_t error_code(const std::string& message) { return error_code_of(message); }
std::string kernel_name() { return kernels().name; }

// These are functions instead of lambdas, because torch's kernel templates are instantiated once
// per type, and functions with the same signature share an instance.
void all_reduce_meta_(const Tensor& self, const std::string& op, const std::string& /*name*/) {
  reduction("shm_all_reduce_", op, self.scalar_type());
}

Tensor all_reduce_meta(const Tensor& self, const std::string& op, const std::string& /*name*/) {
  reduction("shm_all_reduce", op, self.scalar_type());
  return empty(self.sizes(), self.options());
}

Tensor all_gather_meta(const Tensor& self, const std::string& name) {
  return empty(gathered_sizes(self, find_group(name)->size), self.options());
}

Tensor reduce_scatter_meta(const Tensor& self, const std::string& op, const std::string& name) {
  reduction("shm_reduce_scatter", op, self.scalar_type());
  return empty(scattered_sizes(self, find_group(name)->size), self.options());
}

void broadcast_meta_(const Tensor& /*self*/, std::int64_t /*source*/, const std::string& /*name*/) {
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  define<&init_group>(m,
                      "shm_comm_init(str group, int rank, int size, float timeout_seconds) -> str");
  define<&close_group>(m, "shm_comm_close(str group) -> ()");
  define<&has_group>(m, "shm_comm_has(str group) -> bool");
  define<&reason>(m, "shm_comm_reason(str group) -> str");
  define<&offer_deepspeed_names>(m, "shm_comm_names(str group) -> bool");
  define<&pointer_call>(m, "shm_comm_pointer_call(str group) -> int[]");
  define<&error_code>(m, "shm_comm_error_code(str message) -> int");
  define<&kernel_name>(m, "shm_comm_kernels() -> str");
  define<&kernel_level>(m, "shm_comm_kernel_level() -> int");
  m.def("shm_all_reduce_(Tensor(a!) self, str op, str group) -> ()");
  m.def("shm_all_reduce(Tensor self, str op, str group) -> Tensor");
  m.def("shm_all_gather(Tensor self, str group) -> Tensor");
  m.def("shm_reduce_scatter(Tensor self, str op, str group) -> Tensor");
  m.def("shm_broadcast_(Tensor(a!) self, int source, str group) -> ()");
  define<&barrier>(m, "shm_barrier(str group) -> ()");
}

// Use these kernels on every device. Tensors that are not in host memory are copied to the host and
// back.
TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("shm_all_reduce_", all_reduce_);
  m.impl("shm_all_reduce", all_reduce);
  m.impl("shm_all_gather", all_gather);
  m.impl("shm_reduce_scatter", reduce_scatter);
  m.impl("shm_broadcast_", broadcast_);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("shm_all_reduce_", all_reduce_meta_);
  m.impl("shm_all_reduce", all_reduce_meta);
  m.impl("shm_all_gather", all_gather_meta);
  m.impl("shm_reduce_scatter", reduce_scatter_meta);
  m.impl("shm_broadcast_", broadcast_meta_);
}

}  // namespace

void gather_bytes(const Group& group, const void* mine, std::size_t bytes, void* all) {
  const auto piece = empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  std::memcpy(piece.mutable_data_ptr(), mine, bytes);
  const auto gathered = gather_over_c10d(group, piece);
  std::memcpy(all, gathered.const_data_ptr(), gathered.nbytes());
}

}  // namespace anyaccel::ops::shm
