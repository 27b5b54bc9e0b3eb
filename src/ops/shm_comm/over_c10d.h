// Collectives through the process group, for ranks that do not share memory. Included only by
// register.cpp, because the dispatcher's headers take seconds to compile.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "groups.h"

namespace anyaccel::ops::shm {

/// Number of bytes per rank that a reduction gathers at a time.
constexpr std::int64_t kGathered = std::int64_t{1} << 20;

/// Calls one of c10d's functional collectives and waits for it.
inline at::Tensor c10d(const char* name, std::vector<c10::IValue> arguments) {
  // Make a boxed call, because the schemas differ between versions of LibTorch.
  const auto call = [](const char* op, torch::jit::Stack& stack) {
    c10::Dispatcher::singleton()
        .findSchemaOrThrow((std::string("_c10d_functional::") + op).c_str(), "")
        .callBoxed(stack);
  };
  torch::jit::Stack stack = std::move(arguments);
  std::string problem;
  try {
    call(name, stack);
    call("wait_tensor", stack);
    return stack.at(0).toTensor();
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  throw Error(ErrorCode::unavailable, "shm_comm", {.what = "the process group failed: " + problem});
}

/// These functions throw `unavailable` if the collective fails. `op` is c10d's name for the
/// reduction.
inline at::Tensor gather_over_c10d(const Group& group, const at::Tensor& tensor) {
  return c10d("all_gather_into_tensor", {tensor, std::int64_t{group.size}, group.name});
}

inline void apply_over_c10d(const Group& group, const at::Tensor& tensor, const char* op) {
  c10d("all_reduce_", {tensor, op, group.name});
}

inline void broadcast_over_c10d(const Group& group, const at::Tensor& tensor, std::int64_t source) {
  c10d("broadcast_", {tensor, source, group.name});
}

/// Returns whether every c10d backend for host memory performs this reduction exactly like our
/// kernels.
inline bool is_plain(Kind kind, Reduce reduce) {
  switch (kind) {
    case Kind::f32:
    case Kind::f64:
      return reduce == Reduce::sum || reduce == Reduce::avg ||
             reduce == Reduce::product;  // for min and max, backends may treat NaN differently
    case Kind::i8:
    case Kind::u8:
    case Kind::i32:
    case Kind::i64: return true;
    default: return false;
  }
}

inline const char* c10d_name(Reduce reduce) {
  switch (reduce) {
    case Reduce::product: return "product";
    case Reduce::min: return "min";
    case Reduce::max: return "max";
    default: return "sum";  // not every backend supports averages
  }
}

/// For reductions that some backends perform differently from our kernels. Gathers all elements on
/// every rank, in chunks, and reduces them in rank order.
inline void reduce_gathered(const Group& group, const at::Tensor& numbers, Kind kind,
                            Reduce reduce) {
  const auto ranks = static_cast<std::size_t>(group.size);
  const auto most = kGathered / numbers.element_size();
  std::vector<const void*> sources(ranks);
  for (std::int64_t start = 0; start < numbers.numel(); start += most) {
    const auto piece = numbers.slice(0, start, std::min(start + most, numbers.numel()));
    const auto bytes = piece.nbytes();
    const auto all = gather_over_c10d(group, piece.view(at::kByte));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      sources[rank] = static_cast<const char*>(all.const_data_ptr()) + rank * bytes;
    kernels().reduce(kind, reduce, piece.mutable_data_ptr(), sources.data(), group.size,
                     static_cast<std::size_t>(piece.numel()));
  }
}

/// Reduces a one-dimensional tensor in place through the process group, with the semantics of
/// Kernels::reduce.
inline void reduce_over_c10d(const Group& group, const at::Tensor& numbers, Kind kind,
                             Reduce reduce) {
  const bool half = kind == Kind::f16 || kind == Kind::bf16;
  if (half && (reduce == Reduce::sum || reduce == Reduce::avg)) {
    const auto wide = numbers.to(at::kFloat);
    reduce_over_c10d(group, wide, Kind::f32, reduce);
    numbers.copy_(wide);
    return;
  }
  if (!is_plain(kind, reduce)) return reduce_gathered(group, numbers, kind, reduce);
  apply_over_c10d(group, numbers, c10d_name(reduce));
  if (reduce == Reduce::avg) numbers.div_(group.size);
}

}  // namespace anyaccel::ops::shm
