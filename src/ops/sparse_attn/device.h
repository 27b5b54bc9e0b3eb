// Block-sparse attention on device memory, computed by the kernels in kernels/attention. Included
// by register_cuda.cpp, and by a test that runs the launches on the host.
#pragma once

#include "ATen/ops/ne.h"
#include "ops/shared/attention_tensors.h"
#include "ops/shared/empty.h"
#include "ops/sparse_attn/arguments.h"

namespace anyaccel::ops {
namespace {

[[maybe_unused]] void check_together(const Arguments& g) {
  const auto check = [&](const char* name, const Tensor& tensor) {
    if (tensor.device() != g.q.device())
      fail_argument(where, std::string(name) + " is on a different device than the query",
                    words(tensor), words(g.q));
  };
  check("the key", g.k);
  check("the value", g.v);
  check("the layout", g.layout);
  if (is_given(g.rpe)) check("rpe", *g.rpe);
  if (is_given(g.key_padding_mask)) check("key_padding_mask", *g.key_padding_mask);
  if (is_given(g.attn_mask)) check("attn_mask", *g.attn_mask);
}

/// Sets the inputs of the launch.
template <typename Real>
void read_arguments(const Arguments& g, AttentionTensors<Real>& tensors) {
  auto& launch = tensors.launch;
  launch.q = tensors.reads(g.q);
  launch.k = tensors.reads(g.k);
  launch.v = tensors.reads(g.v);
  launch.scale = static_cast<Real>(g.factor());
  launch.block = static_cast<int>(g.block);
  launch.blocks = g.layout.size(1);
  const Tensor there = g.layout.scalar_type() == at::kBool ? g.layout : at::ne(g.layout, 0);
  launch.layout =
      static_cast<const unsigned char*>(tensors.kept(there.contiguous()).const_data_ptr());
  launch.layout_head = g.layout.size(0) == 1 ? 0 : launch.blocks * launch.blocks;
  if (is_given(g.rpe)) launch.bias[0] = tensors.added(*g.rpe, false);
  if (is_given(g.attn_mask))
    launch.bias[1] = tensors.added(*g.attn_mask, g.attn_mask_mode == "mul");
  if (is_given(g.key_padding_mask)) {
    const Tensor& mask = *g.key_padding_mask;
    launch.bias[2] = tensors.added(mask.dim() == 2 ? mask.unsqueeze(1).unsqueeze(1) : mask,
                                   g.key_padding_mask_mode == "mul");
  }
}

template <typename Real>
std::tuple<Tensor, Tensor> forward_on_device(const Arguments& g, void* stream) {
  AttentionTensors<Real> tensors(g.q.size(0), g.q.size(1), g.q.size(2), g.q.size(3),
                                 g.q.scalar_type());
  read_arguments(g, tensors);
  const Tensor out = empty(g.q.sizes(), g.q.options());
  const Tensor stats = empty({g.q.size(0), g.q.size(1), g.q.size(2), 2},
                             g.q.options().dtype(c10::CppTypeToScalarType<Real>::value));
  tensors.launch.out = tensors.writes(out);
  tensors.launch.stats = stats.mutable_data_ptr<Real>();
  tensors.forward(where, stream);
  return {out, stats};
}

template <typename Real>
Grads backward_on_device(const Tensor& grad_out, const Arguments& g, const Tensor& out,
                         const Tensor& stats, bool rpe_grad, void* stream) {
  AttentionTensors<Real> tensors(g.q.size(0), g.q.size(1), g.q.size(2), g.q.size(3),
                                 g.q.scalar_type());
  read_arguments(g, tensors);
  auto& launch = tensors.launch;
  const auto like = [](const Tensor& tensor) { return empty(tensor.sizes(), tensor.options()); };
  const Tensor dq = like(g.q), dk = like(g.k), dv = like(g.v), sums = stats.contiguous();
  launch.grad = tensors.reads(grad_out);
  launch.out = tensors.writes(tensors.kept(out.contiguous()));
  launch.stats = const_cast<Real*>(sums.const_data_ptr<Real>());
  launch.dq = tensors.writes(dq);
  launch.dk = tensors.writes(dk);
  launch.dv = tensors.writes(dv);
  const auto reals = g.q.options().dtype(c10::CppTypeToScalarType<Real>::value);
  // The tensor is freed before the kernels have run. This is safe, because torch's allocator reuses
  // the memory only for later work on the same stream.
  const Tensor delta = empty({g.q.size(0), g.q.size(1), g.q.size(2)}, reals);
  launch.delta = delta.mutable_data_ptr<Real>();
  Tensor drpe;
  if (rpe_grad) {
    launch.drpe_batches = g.rpe->dim() > 3 ? g.rpe->size(0) : 1;
    launch.drpe_heads = g.rpe->dim() > 2 ? g.rpe->size(-3) : 1;
    drpe = empty({launch.drpe_batches, launch.drpe_heads, launch.length, launch.length}, reals);
    launch.drpe = drpe.mutable_data_ptr<Real>();
  }
  tensors.backward(where, stream);
  return {dq, dk, dv,
          rpe_grad ? drpe.sum_to_size(g.rpe->sizes()).to(g.rpe->scalar_type())
                   : empty({0}, g.q.options())};
}

std::tuple<Tensor, Tensor> sparse_forward_on_device(const Arguments& g, void* stream) {
  return g.q.scalar_type() == at::kDouble ? forward_on_device<double>(g, stream)
                                          : forward_on_device<float>(g, stream);
}

Grads sparse_backward_on_device(const Tensor& grad_out, const Arguments& g, const Tensor& out,
                                const Tensor& stats, bool rpe_grad, void* stream) {
  rpe_grad = rpe_grad && is_given(g.rpe);
  return g.q.scalar_type() == at::kDouble
             ? backward_on_device<double>(grad_out, g, out, stats, rpe_grad, stream)
             : backward_on_device<float>(grad_out, g, out, stats, rpe_grad, stream);
}

}  // namespace
}  // namespace anyaccel::ops
