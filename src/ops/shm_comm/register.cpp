// Registers torch.ops.anyaccel.shm_*: schemas, and kernels for tensors of every dtype and device.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <cstring>
#include <limits>
#include <mutex>

#include "anyaccel/error.h"
#include "comm/shm/communicator.h"
#include "direct_calls.h"
#include "groups.h"
#include "ops/shared/boxed.h"
#include "ops/shared/empty.h"
#include "ops/shared/error.h"
#include "over_c10d.h"
#include "tensors.h"

namespace anyaccel::ops::shm {

namespace {

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
