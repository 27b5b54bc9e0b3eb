// One step of an optimizer with a single state, on tensors in host memory: argument checks, memory
// and threading.
#pragma once

#include <vector>

#include "kernels/optimizer/one_state.h"
#include "kernels/simd/isa.h"
#include "ops/shared/host_tensors.h"
#include "ops/shared/parallel.h"

namespace anyaccel::ops {

/// Names for error messages: the op and the optimizer's state.
struct OneStateNames {
  const char* where;
  const char* state;
};

/// Checks the tensors of one parameter and returns the kernel arguments, with the data pointers
/// left unset.
inline OneStateArrays one_state_checked(const OneStateNames& names, const at::Tensor& params,
                                        const at::Tensor& grads, const at::Tensor& states,
                                        bool on_host) {
  check_beside(names.where, "params", params, params, on_host);
  check_beside(names.where, "grads", grads, params, on_host);
  check_beside(names.where, names.state, states, params, on_host);
  OneStateArrays out{};
  out.param = element_of(names.where, "params", params);
  out.grad = element_beside(names.where, "grads", grads, out.param);
  out.state = element_beside(names.where, names.state, states, out.param);
  return out;
}

/// Sets the data pointers. Call it after all checks, because it bumps the tensors' versions for
/// autograd.
inline void take_memory(OneStateArrays& arrays, const at::Tensor& params, const at::Tensor& grads,
                        const at::Tensor& states) {
  arrays.params = changed_memory(params);
  arrays.grads = grads.const_data_ptr();
  arrays.states = changed_memory(states);
}

/// Checks all tensors in the lists, and then calls kernel(isa, constants, arrays, begin, end) for
/// ranges that cover them, in one parallel loop.
template <typename Constants, typename Kernel>
void one_state_step_lists(const OneStateNames& names, const Kernel& kernel,
                          const Constants& constants, at::TensorList params, at::TensorList grads,
                          at::TensorList states, bool on_host) {
  if (grads.size() != params.size() || states.size() != params.size())
    fail_argument(names.where, "the lists differ in length",
                  c10::str("lengths ", params.size(), ", ", grads.size(), ", ", states.size()),
                  "equal lengths");
  std::vector<OneStateArrays> arrays;
  std::vector<std::int64_t> sizes;
  arrays.reserve(params.size());
  sizes.reserve(params.size());
  for (std::size_t i = 0; i < params.size(); ++i)
    arrays.push_back(one_state_checked(names, params[i], grads[i], states[i], on_host));
  if (!on_host) return;
  for (std::size_t i = 0; i < params.size(); ++i) {
    take_memory(arrays[i], params[i], grads[i], states[i]);
    sizes.push_back(params[i].numel());
  }
  const Isa isa = best_isa();
  parallel_elements(sizes.data(), sizes.size(), optimizer_grain,
                    [&](std::size_t i, std::int64_t begin, std::int64_t end) {
                      kernel(isa, constants, arrays[i], begin, end);
                    });
}

}  // namespace anyaccel::ops
