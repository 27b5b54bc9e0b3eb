// Tensors that are not dense. Ops on quantized and sparse COO tensors run on the host, one op at a
// time while the host waits. Compressed sparse (CSR and similar) and nested tensors are rejected.
#include <ATen/EmptyTensor.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/CPUAllocator.h>

#include "backends/sim/allocator.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/register.h"
#include "backends/sim/reject.h"

namespace anyaccel::backends::sim {

namespace {

using torch::jit::Stack;

c10::DispatchKey key_of(c10::DispatchKey functionality) {
  return c10::toRuntimePerBackendFunctionalityKey(functionality,
                                                  c10::toBackendComponent(runtime().key));
}

at::QuantizerPtr quantizer_of(const at::Tensor& tensor) {
  return static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl())->quantizer();
}

at::Tensor with_geometry_of(const at::Tensor& like, c10::Storage storage, c10::DispatchKey key) {
  auto result = at::detail::make_tensor<at::QTensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), like.dtype(), quantizer_of(like));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                      like.storage_offset());
  return result;
}

/// A host tensor that aliases the bytes of a quantized device tensor.
at::Tensor quantized_alias(const at::Tensor& tensor) {
  const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  auto host = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(memory_map.alias(storage.data()), c10::Device(c10::kCPU)),
      c10::GetCPUAllocator(), /*resizable=*/false);
  return with_geometry_of(tensor, c10::Storage(std::move(host)), c10::DispatchKey::QuantizedCPU);
}

at::Tensor quantized_to_device(const at::Tensor& host, int device) {
  check_dtype(host.scalar_type());
  const auto bytes = host.storage().nbytes();
  auto data = allocator().allocate_on(device, bytes);
  if (bytes != 0) std::memcpy(memory_map.alias(data.get()), host.storage().data(), bytes);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       std::move(data), &allocator(), false);
  return with_geometry_of(host, c10::Storage(std::move(storage)),
                          key_of(c10::DispatchKey::Quantized));
}

at::SparseTensorImpl& sparse(const at::Tensor& tensor) {
  return *static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

/// Gives a sparse tensor the geometry of another one, and these indices and values.
void assign_sparse(const at::Tensor& tensor, const at::Tensor& like, const at::Tensor& indices,
                   const at::Tensor& values) {
  auto& impl = sparse(tensor);
  impl.raw_resize_(sparse(like).sparse_dim(), sparse(like).dense_dim(), like.sizes());
  impl.set_indices_and_values_unsafe(indices, values);
  impl.set_coalesced(sparse(like).coalesced());
}

at::Tensor sparse_like(const at::Tensor& like, c10::DispatchKey key, const at::Tensor& indices,
                       const at::Tensor& values) {
  auto result =
      at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), like.dtype());
  assign_sparse(result, like, indices, values);
  return result;
}

/// Waits for the current stream, then runs an op on the host.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments)
      : op_(op), name_(op.schema().name()) {
    for (const auto& value : arguments) find_device(value);
    if (device_ >= 0) drain(current_stream(device_), name_.c_str());
    for (const auto& value : arguments) stack_.push_back(to_host(value));
  }

  Stack run() {
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op_.callBoxed(&stack_);
    }
    // An op that writes to a sparse tensor may replace its indices and values.
    for (const auto& [host, tensor] : sparse_pairs_)
      assign_sparse(tensor, host, to_device(sparse(host).indices()),
                    to_device(sparse(host).values()));
    for (auto& value : stack_) value = to_device(value);
    return std::move(stack_);
  }

 private:
  void find_device(const c10::IValue& value) {
    if (value.isTensor()) {
      if (on_device(value.toTensor())) device_ = value.toTensor().device().index();
    } else if (value.isTensorList()) {
      for (const auto& each : value.toListRef()) find_device(each);
    } else if (value.isDevice()) {
      const auto device = value.toDevice();
      to_host_ = device.is_cpu();
      if (device.type() == runtime().type)
        device_ = device.has_index() ? device.index() : sim::current_device();
    }
  }

  at::Tensor to_host(const at::Tensor& tensor) {
    if (!on_device(tensor)) return tensor;
    if (tensor.is_sparse()) {
      const auto host =
          sparse_like(tensor, c10::DispatchKey::SparseCPU, to_host(sparse(tensor).indices()),
                      to_host(sparse(tensor).values()));
      sparse_pairs_.emplace_back(host, tensor);
      pairs_.emplace_back(host, tensor);
      return host;
    }
    const at::Tensor host = tensor.is_quantized() ? quantized_alias(tensor) : sim::alias(tensor);
    pairs_.emplace_back(host, tensor);
    return host;
  }

  c10::IValue to_host(const c10::IValue& value) {
    if (value.isTensor()) return to_host(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& each : value.toTensorVector()) list.push_back(to_host(each));
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == runtime().type)
      return c10::Device(c10::kCPU);
    return value;
  }

  at::Tensor to_device(const at::Tensor& host) const {
    if (!host.defined()) return host;
    for (const auto& [alias, tensor] : pairs_)
      if (alias.is_same(host)) return tensor;
    if (device_ < 0 || to_host_) return host;
    if (host.is_quantized()) return quantized_to_device(host, device_);
    if (host.is_sparse())
      return sparse_like(host, key_of(c10::DispatchKey::Sparse), to_device(sparse(host).indices()),
                         to_device(sparse(host).values()));
    check_layout(name_, host);
    auto tensor = empty_strided(device_, host.sizes(), host.strides(), host.scalar_type());
    if (host.numel() != 0) sim::alias(tensor).copy_(host);
    return tensor;
  }

  c10::IValue to_device(const c10::IValue& value) const {
    if (value.isTensor()) return to_device(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const auto& each : value.toTensorVector()) list.push_back(to_device(each));
    return list;
  }

  const c10::OperatorHandle& op_;
  std::string name_;
  int device_ = -1;
  bool to_host_ = false;  ///< the op has a device argument, and it is the CPU
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;         ///< host aliases and their tensors
  std::vector<std::pair<at::Tensor, at::Tensor>> sparse_pairs_;  ///< those of sparse tensors
  Stack stack_;
};

void on_host(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const auto count = op.schema().arguments().size();
  auto results = HostCall(op, torch::jit::last(*stack, count)).run();
  torch::jit::drop(*stack, count);
  for (auto& value : results) stack->push_back(std::move(value));
}

/// The gradient of an embedding bag is a sparse tensor if the program created it with sparse=True.
void embedding_bag_backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto& schema = op.schema();
  const auto index = schema.argumentIndexWithName("sparse");
  if (index && torch::jit::peek(*stack, *index, schema.arguments().size()).toBool())
    on_host(op, keys, stack);
  else
    anyaccel::backends::sim::fallback(op, keys, stack);
}

template <const char* layout>
void reject_layout(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* /*stack*/) {
  reject<c10::NotImplementedError>(op.schema().name(), ": ", layout,
                                   " tensors are not supported on the simulated device; use dense "
                                   "tensors, or compute on the host");
}

constexpr char kCompressed[] = "compressed sparse";
constexpr char kNested[] = "nested";

/// Registers on_host() for each op with a kernel for sparse tensors on the CPU. The fallback is not
/// enough, because some of these ops also have a generic kernel, which torch prefers and which does
/// not support sparse tensors.
void register_sparse_ops() {
  auto& library = make_library("aten", key_of(c10::DispatchKey::Sparse));
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (name.getNamespace() != "aten" || !op ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::SparseCPU))
      continue;
    const auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_host>());
  }
}

}  // namespace

void register_layouts() {
  auto& library = device_library();
  for (const char* name :
       {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor.tensors",
        "quantize_per_tensor_dynamic", "quantize_per_channel", "_make_per_tensor_quantized_tensor",
        "_make_per_channel_quantized_tensor"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_host>());
  for (const char* name : {"_to_sparse", "_to_sparse.sparse_dim", "sparse_mask"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_host>());
  library.impl("_embedding_bag_backward",
               torch::CppFunction::makeFromBoxedFunction<&embedding_bag_backward>());
  // torch's generic copy_ kernel would copy between host and device with ops for dense tensors.
  make_library("aten", key_of(c10::DispatchKey::Quantized))
      .impl("copy_", torch::CppFunction::makeFromBoxedFunction<&on_host>());
  const auto fallback = [](c10::DispatchKey functionality, torch::CppFunction function) {
    make_library("_", key_of(functionality)).fallback(std::move(function));
  };
  fallback(c10::DispatchKey::Quantized, torch::CppFunction::makeFromBoxedFunction<&on_host>());
  register_sparse_ops();
  fallback(c10::DispatchKey::Sparse, torch::CppFunction::makeFromBoxedFunction<&on_host>());
  fallback(c10::DispatchKey::SparseCsr,
           torch::CppFunction::makeFromBoxedFunction<&reject_layout<kCompressed>>());
  fallback(c10::DispatchKey::NestedTensor,
           torch::CppFunction::makeFromBoxedFunction<&reject_layout<kNested>>());
}

}  // namespace anyaccel::backends::sim
