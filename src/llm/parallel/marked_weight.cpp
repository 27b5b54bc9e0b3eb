#include "llm/parallel/marked_weight.h"

#include <ATen/ops/_to_copy.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/t.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>

namespace anyaccel::llm {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The dispatch key that the archived project torchdistX used. The key is above autograd, so
/// autograd differentiates the calls in these kernels as if the caller had made them.
constexpr auto kKey = c10::DispatchKey::DeferredInit;
using Unmarked = c10::impl::ExcludeDispatchKeyGuard;

struct Mark : c10::BackendMeta {
  WeightShare share;
};

/// Returns null for unmarked tensors. Views have the key but no mark.
const WeightShare* share_of(const at::Tensor& tensor) {
  const auto* mark = dynamic_cast<const Mark*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return mark ? &mark->share : nullptr;
}

at::Tensor mark_as(const at::Tensor& tensor, const at::Tensor& other) {
  auto* impl = tensor.unsafeGetTensorImpl();
  if (share_of(other))
    impl->set_backend_meta(other.unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr());
  return tensor;
}

at::Tensor with_key(const at::Tensor& values) {
  const at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(values.storage()), values.key_set().add(kKey), values.dtype());
  auto* impl = out.unsafeGetTensorImpl();
  impl->set_storage_offset(values.storage_offset());
  impl->set_sizes_and_strides(values.sizes(), values.strides());
  return out;
}

/// Marks a copy of a marked weight and connects the copy to the autograd graph.
struct MarkCopy : torch::autograd::Function<MarkCopy> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& copy, const at::Tensor& weight) {
    return mark_as(with_key(copy), weight);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], at::Tensor()};
  }
};

at::Tensor summed(const at::Tensor& tensor, const WeightShare& share) {
  const at::Tensor out = tensor.clone(at::MemoryFormat::Contiguous);
  share.group->all_reduce(out);
  return out;
}

/// Follows a row-parallel layer: all-reduces the partial results. The backward pass is the
/// identity.
struct AddUp : torch::autograd::Function<AddUp> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const WeightShare* share) {
    return summed(x, *share);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], at::Tensor()};
  }
};

/// Precedes a column-parallel layer: the identity in the forward pass. The backward pass
/// all-reduces the gradient.
struct HandOut : torch::autograd::Function<HandOut> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, WeightShare share) {
    context->saved_data["share"] =
        c10::IValue::make_capsule(c10::make_intrusive<Kept>(std::move(share)));
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = context->saved_data["share"].toCapsule();
    return {summed(gradients[0], static_cast<Kept*>(kept.get())->share), at::Tensor()};
  }
  struct Kept : torch::CustomClassHolder {
    explicit Kept(WeightShare s) : share(std::move(s)) {}
    WeightShare share;
  };
};

/// Follows a layer with gathered outputs: each rank computes some of the outputs. The gather is an
/// all-reduce in which the other ranks contribute zeros.
struct Gather : torch::autograd::Function<Gather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const WeightShare* share) {
    const Slice mine = share->part.slices[0];
    context->saved_data["begin"] = mine.begin;
    context->saved_data["count"] = mine.count;
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = share->whole;
    at::Tensor out = at::zeros(shape, x.options());
    out.narrow(-1, mine.begin, mine.count).copy_(x);
    share->group->all_reduce(out);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0].narrow(-1, context->saved_data["begin"].toInt(),
                                context->saved_data["count"].toInt()),
            at::Tensor()};
  }
};

at::Tensor before(const at::Tensor& x, const WeightShare& share) {
  return share.part.style == ModuleStyle::row ? x : HandOut::apply(x, share);
}

at::Tensor behind(const at::Tensor& y, const WeightShare& share) {
  switch (share.part.style) {
    case ModuleStyle::row: return AddUp::apply(y, &share);
    case ModuleStyle::gathered:
    case ModuleStyle::vocabulary: return Gather::apply(y, &share);
    default: return y;
  }
}

// Tensors that autograd saves for backward must be unmarked. Views are unmarked.
at::Tensor plain(const at::Tensor& weight) { return at::alias(weight); }

// Kernels of kKey, called for marked and unmarked tensors.
namespace kernels {

at::Tensor t(const at::Tensor& self) {
  const Unmarked guard(kKey);
  return mark_as(at::t(self), self);
}

at::Tensor matmul(const at::Tensor& self, const at::Tensor& other) {
  const Unmarked guard(kKey);
  const WeightShare* share = share_of(other);
  if (!share) return at::matmul(self, other);
  return behind(at::matmul(before(self, *share), plain(other)), *share);
}

at::Tensor mm(const at::Tensor& self, const at::Tensor& other) {
  const Unmarked guard(kKey);
  const WeightShare* share = share_of(other);
  if (!share) return at::mm(self, other);
  return behind(at::mm(before(self, *share), plain(other)), *share);
}

at::Tensor addmm(const at::Tensor& bias, const at::Tensor& x, const at::Tensor& other,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  const Unmarked guard(kKey);
  const WeightShare* share = share_of(other);
  if (!share) return at::addmm(bias, x, other, beta, alpha);
  if (share->part.style == ModuleStyle::column) {
    return at::addmm(bias, before(x, *share), plain(other), beta, alpha);
  }
  return bias.mul(beta).add(behind(at::mm(before(x, *share), plain(other)), *share), alpha);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  const Unmarked guard(kKey);
  const WeightShare* share = share_of(weight);
  if (!share) return at::linear(x, weight, bias);
  const at::Tensor y = behind(at::linear(before(x, *share), plain(weight)), *share);
  return bias && bias->defined() ? y.add(*bias) : y;
}

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids, c10::SymInt padding,
                     bool by_frequency, bool sparse) {
  const Unmarked guard(kKey);
  const WeightShare* share = share_of(weight);
  if (!share) return at::embedding_symint(weight, ids, std::move(padding), by_frequency, sparse);
  const Slice mine = share->part.slices[0];
  const at::Tensor local = ids.sub(mine.begin);
  const at::Tensor others = local.lt(0).logical_or(local.ge(mine.count));
  const std::int64_t pad = padding.expect_int() - mine.begin;
  const at::Tensor rows =
      at::embedding(plain(weight), local.masked_fill(others, 0),
                    pad >= 0 && pad < mine.count ? pad : -1, by_frequency, sparse);
  return AddUp::apply(rows.masked_fill(others.unsqueeze(-1), 0), share);
}

at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype,
                   std::optional<at::Layout> layout, std::optional<at::Device> device,
                   std::optional<bool> pinned, bool non_blocking,
                   std::optional<at::MemoryFormat> format) {
  const Unmarked guard(kKey);
  const at::Tensor out = at::_to_copy(self, dtype, layout, device, pinned, non_blocking, format);
  return share_of(self) ? MarkCopy::apply(out, self) : out;
}

at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  const Unmarked guard(kKey);
  const at::Tensor out = at::clone(self, format);
  return share_of(self) ? MarkCopy::apply(out, self) : out;
}

}  // namespace kernels

void register_kernels() {
  static const auto kLibraries = [] {
    auto all =
        std::make_unique<torch::Library>(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    all->fallback(torch::CppFunction::makeFallthrough());
    auto aten =
        std::make_unique<torch::Library>(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    aten->impl("t", TORCH_FN(kernels::t));
    aten->impl("matmul", TORCH_FN(kernels::matmul));
    aten->impl("mm", TORCH_FN(kernels::mm));
    aten->impl("addmm", TORCH_FN(kernels::addmm));
    aten->impl("linear", TORCH_FN(kernels::linear));
    aten->impl("embedding", TORCH_FN(kernels::embedding));
    aten->impl("clone", TORCH_FN(kernels::clone));
    aten->impl("_to_copy", TORCH_FN(kernels::to_copy));
    return std::pair(std::move(all), std::move(aten));
  }();
  static_cast<void>(kLibraries);
}

}  // namespace

at::Tensor marked(const at::Tensor& weight, WeightShare share) {
  register_kernels();
  const at::Tensor out = with_key(weight);
  auto mark = c10::make_intrusive<Mark>();
  mark->share = std::move(share);
  out.unsafeGetTensorImpl()->set_backend_meta(std::move(mark));
  return out;
}

}  // namespace anyaccel::llm
