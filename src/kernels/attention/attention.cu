// CUDA kernels for dense and block-sparse attention. The thread-block code is in
// attention_blocks.h.
#include "kernels/attention/attention_blocks.h"
#include "kernels/cuda/kernels.h"

namespace anyaccel::ops {
namespace {

template <typename T, typename Real, AttentionStep step>
__global__ void __launch_bounds__(attention_lanes)
    attend(AttentionLaunch<Real> launch, AttentionPlan plan) {
  extern __shared__ __align__(128) char memory[];
  for (std::int64_t task = blockIdx.x; task < plan.tasks; task += gridDim.x)
    attention_task<T, Real, step>(launch, plan, BlockThreads(), memory, task);
}

template <typename T, typename Real, AttentionStep step>
const char* start(const AttentionLaunch<Real>& launch, cudaStream_t stream) {
  const AttentionPlan plan = plan_attention<T>(step, launch);
  if (plan.tasks == 0) return nullptr;
  const auto kernel = attend<T, Real, step>;
  if (const char* problem = allow_shared(kernel, plan.bytes)) return problem;
  const auto grid = static_cast<unsigned>(plan.tasks < 1 << 30 ? plan.tasks : 1 << 30);
  kernel<<<grid, attention_lanes, plan.bytes, stream>>>(launch, plan);
  return launch_error();
}

template <typename T, typename Real>
const char* forward(const AttentionLaunch<Real>& launch, void* stream) {
  return start<T, Real, AttentionStep::forward>(launch, static_cast<cudaStream_t>(stream));
}

template <typename T, typename Real>
const char* backward(const AttentionLaunch<Real>& launch, void* stream) {
  auto* const queue = static_cast<cudaStream_t>(stream);
  if (const char* problem = start<T, Real, AttentionStep::prepare>(launch, queue)) return problem;
  if (const char* problem = start<T, Real, AttentionStep::queries>(launch, queue)) return problem;
  if (const char* problem = start<T, Real, AttentionStep::keys>(launch, queue)) return problem;
  return launch.drpe ? start<T, Real, AttentionStep::positions>(launch, queue) : nullptr;
}

}  // namespace

const char* cuda_attention_forward(const AttentionLaunch<float>& launch, Element element,
                                   void* stream) {
  switch (element) {
    case Element::f32: return forward<float>(launch, stream);
    case Element::bf16: return forward<__nv_bfloat16>(launch, stream);
    default: return forward<__half>(launch, stream);
  }
}

const char* cuda_attention_forward(const AttentionLaunch<double>& launch, void* stream) {
  return forward<double>(launch, stream);
}

const char* cuda_attention_backward(const AttentionLaunch<float>& launch, Element element,
                                    void* stream) {
  switch (element) {
    case Element::f32: return backward<float>(launch, stream);
    case Element::bf16: return backward<__nv_bfloat16>(launch, stream);
    default: return backward<__half>(launch, stream);
  }
}

const char* cuda_attention_backward(const AttentionLaunch<double>& launch, void* stream) {
  return backward<double>(launch, stream);
}

}  // namespace anyaccel::ops
