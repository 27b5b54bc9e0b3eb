// Registers token_sort_, token_gather and token_scatter_ for tensors on CUDA devices. Untested on
// hardware.
#include "ATen/ops/sort.h"
#include "ops/random_ltd/arguments.h"
#include "ops/shared/device_tensors.h"
#include "ops/shared/empty.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void check_together(const char* where, const Tensor& whole, const Tensor& ids) {
  if (ids.device() != whole.device())
    fail_argument(where, "the token ids are on a different device than the activations", words(ids),
                  words(whole));
}

/// Does not detect out-of-range ids, because that would require synchronization with the device.
void copy_tokens(const char* where, const TokenCopy& copy, const Tensor& ids, bool gather) {
  check_launch(where, cuda_copy_tokens(copy, ids.numel(), ids.scalar_type() == at::kLong, gather,
                                       current_stream(ids.device())));
}

Tensor gather_cuda(const Tensor& whole, const Tensor& ids, bool batch_first) {
  constexpr const char* where = "token_gather";
  check_tokens(where, whole, ids, batch_first);
  check_together(where, whole, ids);
  const c10::DeviceGuard guard(whole.device());
  const std::int64_t batch = ids.size(0), count = ids.size(1), channels = whole.size(2);
  const auto sizes =
      batch_first ? std::array{batch, count, channels} : std::array{count, batch, channels};
  return gather_into(whole, ids, empty(sizes, whole.options()), batch_first,
                     [&](const TokenCopy& copy) { copy_tokens(where, copy, ids, true); });
}

void scatter_cuda(const Tensor& whole, const Tensor& part, const Tensor& ids, bool batch_first) {
  constexpr const char* where = "token_scatter_";
  check_together(where, whole, ids);
  const c10::DeviceGuard guard(whole.device());
  scatter_into(where, whole, part, ids, batch_first,
               [&](const TokenCopy& copy) { copy_tokens(where, copy, ids, false); });
}

void sort_cuda(const Tensor& ids, std::int64_t) {
  check_ids("token_sort_", ids, ids.dim());
  ids.copy_(std::get<0>(at::sort(ids, -1)));
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("token_sort_", sort_cuda);
  m.impl("token_gather", gather_cuda);
  m.impl("token_scatter_", scatter_cuda);
}

}  // namespace
}  // namespace anyaccel::ops
