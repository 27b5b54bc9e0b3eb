// The fastest path for C++: functions that take a group handle and bypass the dispatcher and
// tensors. ShareMemComm and other ops call them through the addresses that pointer_call() returns.
// Included only by register.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "comm/shm/communicator.h"
#include "groups.h"
#include "over_c10d.h"
#include "tensors.h"

namespace anyaccel::ops::shm {

/// A checked reduction.
struct Reduction {
  Kind kind;
  Reduce reduce;
  std::size_t numbers;  ///< a complex number counts as two
};

/// Checks the arguments of a reduction. `op` is an anyaccel::ReduceOp.
inline Reduction check_reduction(const char* where, std::int64_t count, std::int8_t dtype, int op) {
  static constexpr Reduce kReductions[] = {Reduce::sum, Reduce::avg, Reduce::product, Reduce::min,
                                           Reduce::max};
  const auto type = static_cast<ScalarType>(dtype);
  const auto [kind, parts] = numbers(where, type);
  const auto reduce = kReductions[op];
  check_complex(where, parts, reduce);
  if (!can_reduce(kind, reduce)) fail_average(where, type);
  if (count < 0)
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the count is negative", .got = std::to_string(count)});
  return {kind, reduce, static_cast<std::size_t>(count * parts)};
}

inline Tensor tensor_at(const void* data, std::int64_t count, ScalarType type) {
  return at::from_blob(const_cast<void*>(data), {count}, at::TensorOptions(type));
}

inline std::shared_ptr<Group> group_at(void* handle_at) {
  return group_of(*static_cast<const GroupHandle*>(handle_at));
}

inline void reduce_at(void* handle_at, const void* in, void* out, std::int64_t count,
                      std::int8_t dtype, int op) {
  const auto group = group_at(handle_at);
  const auto what = check_reduction("ShareMemComm::all_reduce", count, dtype, op);
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    return group->communicator->all_reduce(in, out, what.numbers, what.kind, what.reduce);
  if (count == 0) return;
  if (in != out) std::memcpy(out, in, what.numbers * size_of(what.kind));
  reduce_over_c10d(*group, flat(tensor_at(out, count, static_cast<ScalarType>(dtype))), what.kind,
                   what.reduce);
}

/// Sums float32 values in place, for ops that all-reduce internally. Calls `idle(data)` repeatedly
/// while it waits for other ranks.
inline void sum_at(void* handle_at, float* values, std::int64_t count, void (*idle)(void*),
                   void* data) {
  const auto group = group_at(handle_at);
  struct Idling {
    Communicator* communicator;
    ~Idling() {
      if (communicator) communicator->set_idle({});
    }
  };
  if (!group->communicator)
    return reduce_at(handle_at, values, values, count, static_cast<int>(ScalarType::Float), 0);
  const std::lock_guard lock(group->mutex);
  const Idling idling{group->communicator.get()};
  group->communicator->set_idle({idle, data});
  group->communicator->all_reduce(values, values, static_cast<std::size_t>(count), Kind::f32,
                                  Reduce::sum);
}

/// Writes one block of `bytes` bytes per rank to `out`, in rank order.
inline void gather_at(void* handle_at, const void* in, void* out, std::int64_t bytes) {
  const auto group = group_at(handle_at);
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    return group->communicator->all_gather(in, out, static_cast<std::size_t>(bytes));
  if (bytes == 0) return;
  const auto all = gather_over_c10d(*group, tensor_at(in, bytes, at::kByte));
  std::memcpy(out, all.const_data_ptr(), all.nbytes());
}

/// Reads one block of `count` elements per rank from `in` and writes this rank's reduced block to
/// `out`.
inline void scatter_at(void* handle_at, const void* in, void* out, std::int64_t count,
                       std::int8_t dtype, int op) {
  const auto group = group_at(handle_at);
  const auto what = check_reduction("ShareMemComm::reduce_scatter", count, dtype, op);
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    return group->communicator->reduce_scatter(in, out, what.numbers, what.kind, what.reduce);
  if (count == 0) return;
  // All-reduce and take a slice, like c10d's gloo backend.
  const auto whole =
      flat(tensor_at(in, count * group->size, static_cast<ScalarType>(dtype)).clone());
  reduce_over_c10d(*group, whole, what.kind, what.reduce);
  const auto bytes = what.numbers * size_of(what.kind);
  std::memcpy(out,
              static_cast<const char*>(whole.const_data_ptr()) +
                  static_cast<std::size_t>(group->rank) * bytes,
              bytes);
}

inline void broadcast_at(void* handle_at, void* data, std::int64_t bytes, std::int64_t source) {
  const auto group = group_at(handle_at);
  if (source < 0 || source > std::numeric_limits<int>::max())
    throw Error(ErrorCode::invalid_argument, "ShareMemComm::broadcast",
                {.what = "the source rank is out of range", .got = std::to_string(source)});
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    return group->communicator->broadcast(data, static_cast<std::size_t>(bytes),
                                          static_cast<int>(source));
  if (bytes != 0) broadcast_over_c10d(*group, tensor_at(data, bytes, at::kByte), source);
}

inline void barrier_at(void* handle_at) {
  const auto group = group_at(handle_at);
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    group->communicator->barrier();
  else
    apply_over_c10d(*group, empty({1}, at::kInt).zero_(), "sum");
}

inline void set_timeout_at(void* handle_at, std::int64_t milliseconds) {
  const auto group = group_at(handle_at);
  const std::lock_guard lock(group->mutex);
  if (group->communicator)
    group->communicator->set_timeout(std::chrono::milliseconds(milliseconds));
}

/// Does not lock the group, because a thread may be inside an operation.
inline void abort_at(void* handle_at) {
  if (const auto group = static_cast<const GroupHandle*>(handle_at)->group.lock())
    if (group->communicator) group->communicator->abort();
}

/// Returns the address of the group's handle, and those of the functions above in the order of
/// their definitions. They remain valid for the lifetime of the process.
inline std::vector<std::int64_t> pointer_call(const std::string& name) {
  const auto address = [](auto* function) { return reinterpret_cast<std::int64_t>(function); };
  return {address(find_handle(name)), address(&reduce_at),      address(&sum_at),
          address(&gather_at),        address(&scatter_at),     address(&broadcast_at),
          address(&barrier_at),       address(&set_timeout_at), address(&abort_at)};
}

}  // namespace anyaccel::ops::shm
