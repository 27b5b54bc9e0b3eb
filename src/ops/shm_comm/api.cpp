#include <atomic>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <type_traits>
#include <vector>

#include "anyaccel/error.h"
#include "anyaccel/ops/call.h"
#include "anyaccel/ops/shm_comm.h"
#include "ops/shm_comm/process_group.h"

namespace anyaccel::ops {

namespace {

// process_group.h relies on these facts. Including both headers also lets the compiler check that
// its declaration matches the one in c10d.
static_assert(sizeof(c10::intrusive_ptr<c10d::ProcessGroup>) ==
              sizeof(c10::intrusive_ptr<c10::intrusive_ptr_target>));
static_assert(std::is_base_of_v<torch::CustomClassHolder, c10d::ProcessGroup> &&
              std::is_base_of_v<c10::intrusive_ptr_target, torch::CustomClassHolder> &&
              sizeof(torch::CustomClassHolder) == sizeof(c10::intrusive_ptr_target));

using Init = std::string(const std::string&, std::int64_t, std::int64_t, double);
using OfGroup = void(const std::string&);
using Change = void(const at::Tensor&, const std::string&, const std::string&);
using Make = at::Tensor(const at::Tensor&, const std::string&, const std::string&);

template <typename Signature>
c10::TypedOperatorHandle<Signature> shm_op(const char* name) {
  return load_op<Signature>("ShareMemCommBuilder", name);
}

/// Returns a name that is unique in the process. The group is registered with c10d under this name,
/// and the op looks it up.
std::string new_name() {
  static std::atomic<int> last{0};
  return "anyaccel_shm_comm_" + std::to_string(++last);
}

}  // namespace

ShareMemComm::ShareMemComm(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                           std::chrono::milliseconds timeout)
    : group_(group), name_(new_name()) {
  if (!group)
    throw Error(ErrorCode::invalid_argument, "ShareMemComm", {.what = "the process group is null"});
  static const auto op = shm_op<Init>("shm_comm_init");
  c10d::register_process_group(name_, group_);
  try {
    reason_ = op.call(name_, group->getRank(), group->getSize(),
                      std::chrono::duration<double>(timeout).count());
    static const auto pointers =
        shm_op<std::vector<std::int64_t>(const std::string&)>("shm_comm_pointer_call");
    const auto found = pointers.call(name_);
    group_at_ = reinterpret_cast<void*>(found.at(0));
    const auto take = [&](auto*& function, std::size_t index) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found.at(index));
    };
    take(calls_.reduce, 1);
    take(calls_.gather, 3);
    take(calls_.scatter, 4);
    take(calls_.broadcast, 5);
    take(calls_.barrier, 6);
    take(calls_.set_timeout, 7);
    take(calls_.abort, 8);
  } catch (...) {
    c10d::unregister_process_group(name_);
    throw;
  }
}

ShareMemComm::~ShareMemComm() {
  static const auto op = shm_op<OfGroup>("shm_comm_close");
  op.call(name_);
  c10d::unregister_process_group(name_);
}

void ShareMemComm::all_reduce_(const at::Tensor& tensor, ReduceOp reduce) {
  static const auto op = shm_op<Change>("shm_all_reduce_");
  op.call(tensor, to_string(reduce), name_);
}

at::Tensor ShareMemComm::all_reduce(const at::Tensor& tensor, ReduceOp reduce) {
  static const auto op = shm_op<Make>("shm_all_reduce");
  return op.call(tensor, to_string(reduce), name_);
}

void ShareMemComm::all_reduce(const void* in, void* out, std::int64_t count, c10::ScalarType dtype,
                              ReduceOp reduce) {
  calls_.reduce(group_at_, in, out, count, static_cast<std::int8_t>(dtype),
                static_cast<int>(reduce));
}

void ShareMemComm::all_gather(const void* in, void* out, std::int64_t bytes) {
  calls_.gather(group_at_, in, out, bytes);
}

void ShareMemComm::reduce_scatter(const void* in, void* out, std::int64_t count,
                                  c10::ScalarType dtype, ReduceOp reduce) {
  calls_.scatter(group_at_, in, out, count, static_cast<std::int8_t>(dtype),
                 static_cast<int>(reduce));
}

void ShareMemComm::broadcast(void* data, std::int64_t bytes, std::int64_t source) {
  calls_.broadcast(group_at_, data, bytes, source);
}

void ShareMemComm::set_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() < 1)
    throw Error(ErrorCode::invalid_argument, "ShareMemComm::set_timeout",
                {.what = "the timeout is out of range",
                 .got = std::to_string(timeout.count()) + " ms",
                 .want = "at least 1 ms"});
  calls_.set_timeout(group_at_, timeout.count());
}

void ShareMemComm::abort() { calls_.abort(group_at_); }

at::Tensor ShareMemComm::all_gather(const at::Tensor& tensor) {
  static const auto op =
      shm_op<at::Tensor(const at::Tensor&, const std::string&)>("shm_all_gather");
  return op.call(tensor, name_);
}

at::Tensor ShareMemComm::reduce_scatter(const at::Tensor& tensor, ReduceOp reduce) {
  static const auto op = shm_op<Make>("shm_reduce_scatter");
  return op.call(tensor, to_string(reduce), name_);
}

void ShareMemComm::broadcast_(const at::Tensor& tensor, std::int64_t source) {
  static const auto op =
      shm_op<void(const at::Tensor&, std::int64_t, const std::string&)>("shm_broadcast_");
  op.call(tensor, source, name_);
}

void ShareMemComm::barrier() { calls_.barrier(group_at_); }

}  // namespace anyaccel::ops
