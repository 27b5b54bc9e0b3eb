// Registers torch.ops.anyaccel.{token_sort_, token_gather, token_scatter, token_scatter_,
// mask_gather_bert, mask_gather_gpt}: CPU kernels, meta kernels and autograd. The mask ops are
// composed of torch operations, so they work on every device.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/index.h"
#include "ATen/ops/zeros.h"
#include "ops/random_ltd/arguments.h"
#include "ops/shared/empty.h"
#include "ops/shared/parallel.h"
#include "torch/csrc/autograd/custom_function.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

template <typename Call>
auto with_id(const Tensor& ids, const Call& call) {
  return ids.scalar_type() == at::kInt ? call(std::int32_t{}) : call(std::int64_t{});
}

/// Calls function(begin, end) for ranges that cover `rows` rows of `bytes` bytes each, on torch's
/// threads.
template <typename Function>
void in_pieces(std::int64_t rows, std::int64_t bytes, const Function& function) {
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, bytes));
  parallel_elements(
      &rows, 1, grain,
      [&](std::size_t, std::int64_t begin, std::int64_t end) { function(begin, end); }, 1);
}

void check_range(const char* where, const Tensor& ids, std::int64_t tokens) {
  with_id(ids, [&](auto id) {
    using Id = decltype(id);
    const Id* at = ids.const_data_ptr<Id>();
    for (std::int64_t i = 0; i < ids.numel(); ++i)
      if (at[i] < 0 || at[i] >= tokens)
        fail_argument(where, "a token id is out of range", std::to_string(at[i]),
                      "0 to " + std::to_string(tokens - 1));
  });
}

void copy_tokens(const char* where, const TokenCopy& copy, const Tensor& ids, bool gather) {
  check_range(where, ids, copy.tokens);
  if (copy.bytes == 0) return;
  with_id(ids, [&](auto id) {
    in_pieces(ids.numel(), copy.bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const TokenPlaces at = token_places<decltype(id)>(copy, row);
        std::memcpy(gather ? at.part : at.whole, gather ? at.whole : at.part,
                    static_cast<std::size_t>(copy.bytes));
      }
    });
  });
}

Tensor gather_cpu(const Tensor& whole, const Tensor& ids, bool batch_first) {
  constexpr const char* where = "token_gather";
  check_tokens(where, whole, ids, batch_first);
  check_on_host(where, "the activations", whole);
  check_on_host(where, "the token ids", ids);
  const std::int64_t batch = ids.size(0), count = ids.size(1), channels = whole.size(2);
  const auto sizes =
      batch_first ? std::array{batch, count, channels} : std::array{count, batch, channels};
  const Tensor numbers = ids.contiguous();
  return gather_into(whole, numbers, empty(sizes, whole.options()), batch_first,
                     [&](const TokenCopy& copy) { copy_tokens(where, copy, numbers, true); });
}

Tensor gather_meta(const Tensor& whole, const Tensor& ids, bool batch_first) {
  check_kinds("token_gather", whole, ids);
  const auto batch = ids.sym_size(0), count = ids.sym_size(1);
  return whole.new_empty_symint(
      {batch_first ? batch : count, batch_first ? count : batch, whole.sym_size(2)});
}

void scatter_cpu(const Tensor& whole, const Tensor& part, const Tensor& ids, bool batch_first) {
  constexpr const char* where = "token_scatter_";
  check_on_host(where, "the activations", whole);
  check_on_host(where, "the layer's activations", part);
  check_on_host(where, "the token ids", ids);
  const Tensor numbers = ids.contiguous();
  scatter_into(where, whole, part, numbers, batch_first,
               [&](const TokenCopy& copy) { copy_tokens(where, copy, numbers, false); });
}

void scatter_meta(const Tensor& whole, const Tensor&, const Tensor& ids, bool) {
  check_kinds("token_scatter_", whole, ids);
}

/// Sorts with a bit set, or with std::sort if the ids are sparse or contain duplicates.
template <typename Id>
void sort_row(Id* ids, std::int64_t count, std::int64_t tokens, std::vector<std::uint64_t>& set) {
  if (tokens > 64 * count) return std::sort(ids, ids + count);
  set.assign(static_cast<std::size_t>((tokens + 63) / 64), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t& word = set[static_cast<std::size_t>(ids[i]) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (ids[i] % 64);
    if (word & bit) return std::sort(ids, ids + count);
    word |= bit;
  }
  for (std::size_t i = 0; i < set.size(); ++i)
    for (std::uint64_t word = set[i]; word; word &= word - 1)
      *ids++ = static_cast<Id>(i * 64 + static_cast<std::size_t>(std::countr_zero(word)));
}

void sort_cpu(const Tensor& ids, std::int64_t tokens) {
  constexpr const char* where = "token_sort_";
  check_ids(where, ids, ids.dim());
  check_on_host(where, "the token ids", ids);
  at::assert_no_internal_overlap(ids);
  const Tensor rows = ids.contiguous();
  check_range(where, rows, tokens);
  if (rows.numel() == 0) return;
  const std::int64_t count = rows.dim() ? rows.size(-1) : 1;
  with_id(rows, [&](auto id) {
    auto* const at = static_cast<decltype(id)*>(changed_memory(rows));
    in_pieces(rows.numel() / count, 8 * count, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::uint64_t> set;
      for (std::int64_t row = begin; row < end; ++row)
        sort_row(at + row * count, count, tokens, set);
    });
  });
  if (!rows.is_same(ids)) ids.copy_(rows);
}

void sort_meta(const Tensor& ids, std::int64_t) { check_ids("token_sort_", ids, ids.dim()); }

void call_scatter(const Tensor& whole, const Tensor& part, const Tensor& ids, bool batch_first) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("anyaccel::token_scatter_", "")
                             .typed<void(const Tensor&, const Tensor&, const Tensor&, bool)>();
  op.call(whole, part, ids, batch_first);
}

Tensor functional_scatter(const Tensor& whole, const Tensor& part, const Tensor& ids,
                          bool batch_first) {
  const Tensor out = whole.clone(at::MemoryFormat::Contiguous);
  call_scatter(out, part, ids, batch_first);
  return out;
}

Tensor call_gather(const Tensor& whole, const Tensor& ids, bool batch_first) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("anyaccel::token_gather", "")
                             .typed<Tensor(const Tensor&, const Tensor&, bool)>();
  return op.call(whole, ids, batch_first);
}

/// Returns the ids in the shape that torch's scatter functions require.
Tensor as_index(const Tensor& ids, bool batch_first, const c10::SymInt& channels) {
  const Tensor numbers = (batch_first ? ids : ids.t()).to(at::kLong).unsqueeze(2);
  return numbers.expand_symint({numbers.sym_size(0), numbers.sym_size(1), channels});
}

class Gather : public torch::autograd::Function<Gather> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& whole,
                        const Tensor& ids, bool batch_first) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor out = call_gather(whole, ids, batch_first);
    context->save_for_backward({ids});
    context->saved_data["batch_first"] = batch_first;
    context->saved_data["tokens"] = whole.sym_size(batch_first ? 1 : 0);
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const Tensor ids = context->get_saved_variables()[0];
    const bool batch_first = context->saved_data["batch_first"].toBool();
    const Tensor& grad = grads[0];
    auto sizes = grad.sym_sizes().vec();
    sizes[batch_first ? 1 : 0] = context->saved_data["tokens"].toSymInt();
    const Tensor zeros = at::zeros_symint(sizes, grad.options());
    return {
        zeros.scatter_add(batch_first ? 1 : 0, as_index(ids, batch_first, grad.sym_size(2)), grad),
        Tensor(), Tensor()};
  }
};

class Scatter : public torch::autograd::Function<Scatter> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& whole,
                        const Tensor& part, const Tensor& ids, bool batch_first) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({ids});
    context->saved_data["batch_first"] = batch_first;
    return functional_scatter(whole, part, ids, batch_first);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const Tensor ids = context->get_saved_variables()[0];
    const bool batch_first = context->saved_data["batch_first"].toBool();
    const Tensor& grad = grads[0];
    const Tensor index = as_index(ids, batch_first, grad.sym_size(2));
    return {grad.scatter(batch_first ? 1 : 0, index, 0), call_gather(grad, ids, batch_first),
            Tensor(), Tensor()};
  }
};

Tensor gather_autograd(const Tensor& whole, const Tensor& ids, bool batch_first) {
  return Gather::apply(whole, ids, batch_first);
}

Tensor scatter_autograd(const Tensor& whole, const Tensor& part, const Tensor& ids,
                        bool batch_first) {
  return Scatter::apply(whole, part, ids, batch_first);
}

void scatter_in_place_autograd(const Tensor& whole, const Tensor& part, const Tensor& ids,
                               bool batch_first) {
  if (c10::GradMode::is_enabled() && (whole.requires_grad() || part.requires_grad()))
    fail_argument("token_scatter_",
                  "activations require a gradient, but tokens are scattered in place",
                  "a tensor with requires_grad", "tensors without requires_grad",
                  "use token_scatter, or torch.no_grad()");
  const at::AutoDispatchBelowADInplaceOrView below;
  call_scatter(whole, part, ids, batch_first);
  // If the device falls back to the CPU, the kernel bumps only the version of its copy.
  if (!whole.is_inference()) whole.unsafeGetTensorImpl()->bump_version();
}

void check_mask(const char* where, const Tensor& mask) {
  if (mask.dim() != 4 || mask.sym_size(2) != mask.sym_size(3))
    fail_argument(where, "the mask has the wrong shape", words(mask),
                  "[batch, 1 or heads, tokens, tokens]");
}

Tensor mask_bert(const Tensor& mask, const Tensor& ids) {
  constexpr const char* where = "mask_gather_bert";
  check_mask(where, mask);
  check_ids(where, ids, 3);
  if (ids.sym_size(1) != mask.sym_size(0))
    fail_argument(where, "token ids and mask differ in batch size", words(ids),
                  "[layers, batch, count]");
  const Tensor numbers = ids.to(at::kLong);
  const auto place = at::TensorOptions(at::kLong).device(mask.device());
  const Tensor batch =
      at::arange(mask.sym_size(0).guard_int(__FILE__, __LINE__), place).view({-1, 1, 1, 1});
  const Tensor heads =
      at::arange(mask.sym_size(1).guard_int(__FILE__, __LINE__), place).view({-1, 1, 1});
  return at::index(
      mask, {batch, heads, numbers.unsqueeze(2).unsqueeze(4), numbers.unsqueeze(2).unsqueeze(3)});
}

Tensor mask_gpt(const Tensor& mask, c10::SymInt count) {
  constexpr const char* where = "mask_gather_gpt";
  check_mask(where, mask);
  if (count < 0 || count > mask.sym_size(3))
    fail_argument(where, "the length is out of range", c10::str(count),
                  c10::str("0 to ", mask.sym_size(3)));
  return mask.slice_symint(2, 0, count).slice_symint(3, 0, count).contiguous();
}

#define TOKENS ", Tensor sorted_indices, bool batch_first"

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("token_sort_(Tensor(a!) unsorted_token_ids, int original_tokens) -> ()");
  m.def("token_gather(Tensor activations" TOKENS ") -> Tensor");
  m.def("token_scatter(Tensor all_activations, Tensor layer_activations" TOKENS ") -> Tensor");
  m.def("token_scatter_(Tensor(a!) all_activations, Tensor layer_activations" TOKENS ") -> ()");
  m.def("mask_gather_bert(Tensor dense_mask, Tensor sorted_indices) -> Tensor", mask_bert);
  m.def("mask_gather_gpt(Tensor dense_mask, SymInt truncated_seq_len) -> Tensor", mask_gpt);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("token_sort_", sort_cpu);
  m.impl("token_gather", gather_cpu);
  m.impl("token_scatter_", scatter_cpu);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("token_sort_", sort_meta);
  m.impl("token_gather", gather_meta);
  m.impl("token_scatter_", scatter_meta);
}

TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("token_scatter", functional_scatter);
}

TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("token_gather", gather_autograd);
  m.impl("token_scatter", scatter_autograd);
  m.impl("token_scatter_", scatter_in_place_autograd);
}

}  // namespace
}  // namespace anyaccel::ops
