// Registers torch.ops.anyaccel.{sparse_attention, sparse_attention_layout, ...}: argument checks,
// conversions, threading and autograd.
#include <array>
#include <limits>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/constant_pad_nd.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/where.h"
#include "ATen/ops/zeros.h"
#include "kernels/attention/divide.h"
#include "kernels/attention/sparse.h"
#include "kernels/attention/sparse_layouts.h"
#include "ops/shared/scratch.h"
#include "ops/sparse_attn/arguments.h"
#include "ops/sparse_attn/rpe_grad.h"
#include "torch/csrc/autograd/autograd_not_implemented_fallback.h"
#include "torch/csrc/autograd/custom_function.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

/// The key blocks of each block row, for each head of the layout.
struct Blocks {
  std::vector<std::int64_t> first;
  std::vector<std::int32_t> columns;
  std::int64_t heads, rows;

  explicit Blocks(const Tensor& layout) : heads(layout.size(0)), rows(layout.size(1)) {
    const Tensor there = (layout.scalar_type() == at::kBool ? layout : layout.ne(0)).contiguous();
    const bool* at = there.const_data_ptr<bool>();
    first.reserve(static_cast<std::size_t>(heads * (rows + 1)));
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t row = 0; row < rows; ++row) {
        first.push_back(static_cast<std::int64_t>(columns.size()));
        for (std::int64_t column = 0; column < rows; ++column)
          if (*at++) columns.push_back(static_cast<std::int32_t>(column));
      }
      first.push_back(static_cast<std::int64_t>(columns.size()));
    }
  }
  const std::int64_t* of_head(std::int64_t head) const {
    return first.data() + (heads == 1 ? 0 : head) * (rows + 1);
  }
};

/// Converts a tensor to the compute dtype and makes its head dimension contiguous. The head
/// dimension is zero-padded to a multiple of 16, which does not change any product.
template <typename T>
Tensor as_rows(const Tensor& tensor) {
  Tensor out = tensor.to(c10::CppTypeToScalarType<T>::value);
  if (const std::int64_t over = out.size(3) % 16; over || !out.size(3))
    out = at::constant_pad_nd(out, {0, 16 - over});
  return out.stride(3) == 1 ? out : out.contiguous();
}

template <typename T>
class Work {
 public:
  explicit Work(const Arguments& g)
      : blocks(g.layout), q(as_rows<T>(g.q)), k(as_rows<T>(g.k)), v(as_rows<T>(g.v)), given_(g) {
    constexpr auto type = c10::CppTypeToScalarType<T>::value;
    const std::int64_t batch = q.size(0), length = q.size(2);
    if (is_given(g.rpe)) rpe = g.rpe->to(type).expand({batch, q.size(1), length, length});
    if (is_given(g.attn_mask)) {
      // Use a bool mask directly, because a converted copy would need four or eight times as much
      // memory.
      const bool as_it_is = g.attn_mask->scalar_type() == at::kBool && g.attn_mask_mode == "mul";
      attn_mask = (as_it_is ? *g.attn_mask : g.attn_mask->to(type)).expand({length, length});
    }
    if (is_given(g.key_padding_mask)) {
      key_padding = g.key_padding_mask->to(type);
      if (g.key_padding_mask_mode == "mul")
        key_padding =
            at::where(key_padding.eq(0), -std::numeric_limits<double>::infinity(), 0.0).to(type);
      key_padding = key_padding.expand({batch, length}).contiguous();
    }
  }

  std::int64_t dim() const { return q.size(3); }
  std::int64_t heads() const { return q.size(0) * q.size(1); }

  AttentionHead<T> head(std::int64_t index, T* out, T* stats) const {
    const std::int64_t batch = index / q.size(1), head = index % q.size(1), length = q.size(2);
    const auto at = [&](const Tensor& tensor) {
      return tensor.const_data_ptr<T>() + batch * tensor.stride(0) + head * tensor.stride(1);
    };
    AttentionHead<T> h{};
    h.q = at(q);
    h.k = at(k);
    h.v = at(v);
    h.q_row = q.stride(2);
    h.k_row = k.stride(2);
    h.v_row = v.stride(2);
    h.dim = dim();
    h.block = given_.block;
    h.scale = static_cast<T>(given_.factor());
    if (rpe.defined()) {
      h.rpe = at(rpe);
      h.rpe_row = rpe.stride(2);
      h.rpe_column = rpe.stride(3);
    }
    if (attn_mask.defined()) {
      if (attn_mask.scalar_type() == at::kBool)
        h.seen = static_cast<const std::uint8_t*>(attn_mask.const_data_ptr());
      else
        h.attn_mask = attn_mask.const_data_ptr<T>();
      h.mask_row = attn_mask.stride(0);
      h.mask_column = attn_mask.stride(1);
      h.mask_multiplies = given_.attn_mask_mode == "mul";
    }
    if (key_padding.defined()) h.key_padding = key_padding.const_data_ptr<T>() + batch * length;
    h.out = out + index * length * dim();
    h.stats = stats + 2 * index * length;
    h.first = blocks.of_head(head);
    h.columns = blocks.columns.data();
    return h;
  }

  Blocks blocks;
  Tensor q, k, v, rpe, attn_mask, key_padding;

 private:
  const Arguments& given_;
};

Tensor cut(const Tensor& rows, const Tensor& like) {
  return rows.narrow(3, 0, like.size(3)).to(like.scalar_type()).contiguous();
}

template <typename T>
std::tuple<Tensor, Tensor> forward_as(const Arguments& g) {
  const Work<T> work(g);
  const std::int64_t rows = work.blocks.rows;
  Tensor out = at::empty({g.q.size(0), g.q.size(1), g.q.size(2), work.dim()}, work.q.options());
  Tensor stats = at::empty({g.q.size(0), g.q.size(1), g.q.size(2), 2}, work.q.options());
  T* const out_at = out.mutable_data_ptr<T>();
  T* const stats_at = stats.mutable_data_ptr<T>();
  const Isa isa = best_isa();
  const ScratchMemory<T> scratch(attention_scratch(work.dim()));
  parallel_tasks(work.heads() * rows, scratch.threads(), [&](std::int64_t i, std::int64_t thread) {
    attention_forward(isa, work.head(i / rows, out_at, stats_at), i % rows, scratch.of(thread));
  });
  return {cut(out, g.q), stats};
}

template <typename T>
Grads backward_as(const Tensor& grad_out, const Arguments& g, const Tensor& out,
                  const Tensor& stats, bool rpe_grad) {
  const Work<T> work(g);
  const Tensor grad = as_rows<T>(grad_out).contiguous();
  const Tensor rows = as_rows<T>(out).contiguous();
  const Tensor sums = stats.contiguous();
  std::array<Tensor, 3> grads;
  for (Tensor& tensor : grads) tensor = at::zeros(rows.sizes(), rows.options());
  const std::int64_t length = g.q.size(2);
  const std::int64_t size = length * work.dim();
  const RpeGrad<T> drpe(g, rpe_grad, rows.options());
  const Isa isa = best_isa();
  // The kernels do not write to `out` and `stats`.
  T* const out_at = const_cast<T*>(rows.const_data_ptr<T>());
  T* const stats_at = const_cast<T*>(sums.const_data_ptr<T>());
  const T* const grad_at = grad.const_data_ptr<T>();
  const std::array<T*, 3> to = {grads[0].mutable_data_ptr<T>(), grads[1].mutable_data_ptr<T>(),
                                grads[2].mutable_data_ptr<T>()};
  const ScratchMemory<T> scratch(attention_scratch(work.dim()));
  const Division parts(drpe.slices(work.heads()), work.blocks.rows, scratch.threads());
  for (std::int64_t step = 0; step < parts.groups; ++step)
    parallel_tasks(parts.tasks(), scratch.threads(), [&](std::int64_t task, std::int64_t thread) {
      const std::int64_t slice = parts.slice(task);
      for (std::int64_t i = 0; i < work.heads(); ++i)
        if (drpe.slice(i) == slice)
          attention_backward(isa, work.head(i, out_at, stats_at),
                             {grad_at + i * size, to[0] + i * size, to[1] + i * size,
                              to[2] + i * size, drpe.of(slice), length},
                             parts.square(step, task), scratch.of(thread));
    });
  return {cut(grads[0], g.q), cut(grads[1], g.k), cut(grads[2], g.v),
          rpe_grad ? drpe.result(*g.rpe) : at::empty({0}, g.q.options())};
}

std::tuple<Tensor, Tensor> forward_cpu(SPARSE_ATTN_GIVEN) {
  const Arguments g{SPARSE_ATTN_PASSED};
  check_types(g);
  check_sizes(g);
  check_on_host(g);
  return q.scalar_type() == at::kDouble ? forward_as<double>(g) : forward_as<float>(g);
}

std::tuple<Tensor, Tensor> forward_meta(SPARSE_ATTN_GIVEN) {
  const Arguments g{SPARSE_ATTN_PASSED};
  check_types(g);
  const auto sizes = q.sym_sizes();
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty_like(q, q.options(), at::MemoryFormat::Contiguous),
          at::empty_symint({sizes[0], sizes[1], sizes[2], 2}, q.options().dtype(type))};
}

Grads backward_cpu(const Tensor& grad_out, SPARSE_ATTN_GIVEN, const Tensor& out,
                   const Tensor& stats, bool rpe_grad) {
  const Arguments g{SPARSE_ATTN_PASSED};
  check_types(g);
  check_sizes(g);
  check_on_host(g);
  check_results(g, grad_out, out, stats);
  rpe_grad = rpe_grad && is_given(rpe);
  return q.scalar_type() == at::kDouble ? backward_as<double>(grad_out, g, out, stats, rpe_grad)
                                        : backward_as<float>(grad_out, g, out, stats, rpe_grad);
}

Grads backward_meta(const Tensor&, SPARSE_ATTN_GIVEN, const Tensor&, const Tensor&, bool rpe_grad) {
  check_types({SPARSE_ATTN_PASSED});
  const auto like = [](const Tensor& tensor) {
    return at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous);
  };
  return {like(q), like(k), like(v),
          rpe_grad && is_given(rpe) ? like(*rpe) : at::empty({0}, q.options())};
}

Tensor attention(SPARSE_ATTN_GIVEN) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("anyaccel::_sparse_attention_forward", "")
                             .typed<std::tuple<Tensor, Tensor>(SPARSE_ATTN_GIVEN)>();
  return std::get<0>(op.call(SPARSE_ATTN_PASSED));
}

class Attention : public torch::autograd::Function<Attention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, SPARSE_ATTN_GIVEN) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("anyaccel::_sparse_attention_forward", "")
                               .typed<std::tuple<Tensor, Tensor>(SPARSE_ATTN_GIVEN)>();
    auto [out, stats] = op.call(SPARSE_ATTN_PASSED);
    const auto or_none = [](const OptionalTensor& tensor) {
      return is_given(tensor) ? *tensor : Tensor();
    };
    context->save_for_backward(
        {q, k, v, layout, or_none(rpe), or_none(key_padding_mask), or_none(attn_mask), out, stats});
    context->saved_data["block"] = block;
    if (scale) context->saved_data["scale"] = *scale;
    context->saved_data["modes"] =
        std::string(key_padding_mask_mode) + "," + std::string(attn_mask_mode);
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto optional = [&](std::size_t i) {
      return saved[i].defined() ? OptionalTensor(saved[i]) : std::nullopt;
    };
    const std::string modes = context->saved_data["modes"].toStringRef();
    const auto& data = context->saved_data;
    const auto scale = data.find("scale");
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("anyaccel::_sparse_attention_backward", "")
            .typed<Grads(const Tensor&, SPARSE_ATTN_GIVEN, const Tensor&, const Tensor&, bool)>();
    auto [dq, dk, dv, drpe] = op.call(
        grads[0], saved[0], saved[1], saved[2], saved[3], data.at("block").toInt(),
        scale == data.end() ? std::nullopt : std::optional<double>(scale->second.toDouble()),
        optional(4), optional(5), optional(6), modes.substr(0, 3), modes.substr(4), saved[7],
        saved[8], saved[4].defined() && context->needs_input_grad(4));
    const Tensor none;
    return {dq, dk, dv, none, none, none, saved[4].defined() ? drpe : none, none, none, none, none};
  }
};

Tensor attention_autograd(SPARSE_ATTN_GIVEN) {
  for (const OptionalTensor* mask : {&key_padding_mask, &attn_mask})
    if (is_given(*mask) && (*mask)->requires_grad() && c10::GradMode::is_enabled())
      fail_argument(where, "a mask requires a gradient", (*mask)->toString(),
                    "a mask without requires_grad", "pass learned biases as rpe");
  return Attention::apply(SPARSE_ATTN_PASSED);
}

Tensor layout_op(c10::string_view kind, std::int64_t num_heads, std::int64_t block,
                 std::int64_t seq_len, bool different_layout_per_head,
                 at::IntArrayRef local_window_blocks, at::IntArrayRef global_block_indices,
                 at::OptionalIntArrayRef global_block_end_indices, std::int64_t num_local_blocks,
                 std::int64_t num_global_blocks, std::int64_t num_random_blocks,
                 std::int64_t num_sliding_window_blocks, std::int64_t num_different_global_patterns,
                 c10::string_view attention, bool horizontal_global_attention, std::int64_t seed,
                 std::optional<at::Device> device) {
  const LayoutOptions options{
      std::string(kind),
      num_heads,
      block,
      seq_len,
      different_layout_per_head,
      local_window_blocks.vec(),
      global_block_indices.vec(),
      global_block_end_indices ? std::optional(global_block_end_indices->vec()) : std::nullopt,
      num_local_blocks,
      num_global_blocks,
      num_random_blocks,
      num_sliding_window_blocks,
      num_different_global_patterns,
      std::string(attention),
      horizontal_global_attention,
      seed};
  if (std::string error = layout_error(options); !error.empty())
    throw c10::ValueError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                          std::move(error));
  const std::int64_t blocks = seq_len / block;
  const auto where_to = at::TensorOptions(at::kLong);
  // torch uses the meta device to query only the shape.
  if (device && device->is_meta())
    return at::empty({num_heads, blocks, blocks}, where_to.device(*device));
  // Allocate the result first, because torch rejects impossible sizes.
  Tensor out = at::empty({num_heads, blocks, blocks}, where_to);
  const auto made = make_layout(options);
  std::copy(made.begin(), made.end(), out.mutable_data_ptr<std::int64_t>());
  return device ? out.to(*device) : out;
}

#define ARGUMENTS                                                                                 \
  "Tensor q, Tensor k, Tensor v, Tensor layout, int block, float? scale=None, Tensor? rpe=None, " \
  "Tensor? key_padding_mask=None, Tensor? attn_mask=None, str key_padding_mask_mode='add', str "  \
  "attn_mask_mode='mul'"

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("sparse_attention(" ARGUMENTS ") -> Tensor");
  m.def("_sparse_attention_forward(" ARGUMENTS ") -> (Tensor, Tensor)");
  m.def("_sparse_attention_backward(Tensor grad_out, " ARGUMENTS
        ", *, Tensor out, Tensor stats, bool rpe_grad) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "sparse_attention_layout(str kind, int num_heads, int block, int seq_len, bool "
      "different_layout_per_head=False, "
      "int[] local_window_blocks=[4], int[] global_block_indices=[0], int[]? "
      "global_block_end_indices=None, "
      "int num_local_blocks=4, int num_global_blocks=1, int num_random_blocks=0, int "
      "num_sliding_window_blocks=3, "
      "int num_different_global_patterns=1, str attention='bidirectional', bool "
      "horizontal_global_attention=False, "
      "int seed=0, *, Device? device=None) -> Tensor",
      torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, layout_op));
}

// The public op only calls the forward op, so it is the same on every device.
TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("sparse_attention", attention);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("_sparse_attention_forward", forward_cpu);
  m.impl("_sparse_attention_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("_sparse_attention_forward", forward_meta);
  m.impl("_sparse_attention_backward", backward_meta);
}

TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("sparse_attention", attention_autograd);
  m.impl("_sparse_attention_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("_sparse_attention_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace
}  // namespace anyaccel::ops
