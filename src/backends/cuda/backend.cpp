#include "backends/cuda/backend.h"

#include "anyaccel/error.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/graph_library.h"
#include "backends/cuda/nvml.h"
#include "backends/cuda/nvtx.h"
#include "backends/cuda/traits.h"
#include "backends/torch/parts.h"
#include "base/env.h"
#include "base/log.h"

namespace anyaccel::backends::cuda {

namespace {

/// NVML names a device "GPU-<uuid>" or "MIG-<uuid>"; the driver returns the UUID without a prefix.
std::optional<std::string> nvml_uuid(const std::string& number) {
  for (const char* kind : {"MIG-", "GPU-"}) {
    try {
      Nvml::instance().memory(kind + number);
      return kind + number;
    } catch (const Error&) {  // the device has the other prefix
    }
  }
  return std::nullopt;
}

}  // namespace

CudaBackend::CudaBackend() : TorchBackend(cuda::traits()), counted_(probe_devices().device_count) {
  traits_.supports_nvtx_domain = nvtx_has_domains();
}

// torch's own implementation would initialize the driver, after which fork() is unsafe.
bool CudaBackend::is_initialized() const noexcept {
  if (runs_.load(std::memory_order_relaxed)) return true;
  // Without NVML, torch's CUDA device type is not backed by NVIDIA's driver, so query torch itself.
  const bool torch_may_tell = !Nvml::instance().reason().empty();
  const bool runs = driver_runs().value_or(torch_may_tell && TorchBackend::is_initialized());
  if (runs) runs_.store(true, std::memory_order_relaxed);
  return runs;
}

// Until CUDA runs, NVML counts the devices, because torch would initialize the driver.
DeviceIndex CudaBackend::device_count() const noexcept {
  return counted_ > 0 && !is_initialized() ? counted_ : TorchBackend::device_count();
}

std::optional<std::string> CudaBackend::uuid(DeviceIndex index) const {
  const auto& nvml = Nvml::instance();
  if (!nvml.reason().empty()) return std::nullopt;
  try {
    if (const auto driver = driver_properties(index)) return nvml_uuid(driver->uuid);
    if (!nvml.order_is_certain()) {
      start();
      if (const auto driver = driver_properties(index)) return nvml_uuid(driver->uuid);
      return std::nullopt;
    }
    const auto uuids = nvml.visible_uuids();
    if (static_cast<std::size_t>(index) < uuids.size())
      return uuids[static_cast<std::size_t>(index)];
  } catch (const Error& error) {
    log_once(LogLevel::info, "nvml",
             std::string("NVML cannot identify the devices: ") + error.what());
  }
  return std::nullopt;
}

Capability CudaBackend::capability(DeviceIndex index) const {
  if (const auto driver = driver_properties(index)) return driver->capability;
  const auto id = uuid(index);
  return id ? Nvml::instance().properties(*id).capability : Capability{-1, -1};
}

DeviceProperties CudaBackend::properties(DeviceIndex index) const {
  auto properties = Backend::properties(index);
  const auto id = uuid(index);
  if (!id) start();  // NVML does not report the UUID, so initialize CUDA
  Capability found{-1, -1};
  if (id) {
    const auto nvml = Nvml::instance().properties(*id);
    properties.name = nvml.name;
    properties.uuid = nvml.uuid;
    properties.driver_version = nvml.driver_version;
    properties.numa_node = nvml.numa_node;
    found = nvml.capability;
    properties.total_memory = memory_info(index).total;
  } else {
    properties = TorchBackend::properties(index);
  }
  if (const auto driver = driver_properties(index)) {
    properties.name = driver->name;
    properties.total_memory = static_cast<std::int64_t>(driver->total_memory);
    properties.multi_processor_count = driver->multi_processor_count;
    found = driver->capability;
  }
  if (found.first >= 0) properties.compute_capability = found;
  properties.triton = triton(found);
  properties.prefers_triton_grouped_mm = prefers_triton_grouped_mm(found);
  return properties;
}

DtypeSupport CudaBackend::dtype_support(DeviceIndex index, c10::ScalarType dtype) const {
  const auto found = capability(index);
  if (found.first < 0) return TorchBackend::dtype_support(index, dtype);
  switch (dtype) {
    case c10::ScalarType::Half:
      return {true, true, fast_fp16(found, env("DS_ALLOW_DEPRECATED_FP16") == "1"), true};
    case c10::ScalarType::BFloat16: return {true, true, fast_bf16(found), true};
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
      return {.storable = true, .computable = fp8(found), .fast = fp8(found), .reducible = false};
    default: return TorchBackend::dtype_support(index, dtype);
  }
}

MemoryInfo CudaBackend::memory_info(DeviceIndex index) const {
  if (const auto id = uuid(index)) {
    try {
      const auto memory = Nvml::instance().memory(*id);
      return {.free = static_cast<std::int64_t>(memory.free),
              .total = static_cast<std::int64_t>(memory.total)};
    } catch (const Error& error) {
      log_once(LogLevel::info, "nvml memory",
               std::string("NVML does not report free memory: ") + error.what());
    }
  }
  return TorchBackend::memory_info(index);
}

// Like torch.cuda.cudart().cudaHostRegister.
bool CudaBackend::register_host_memory(void* address, std::size_t bytes) {
  start();
  if (!driver_runs())
    fail_unsupported("register_host_memory", "registering host memory",
                     "the CUDA driver is not loaded");
  const auto reason = driver_register_host(address, bytes, current_device());
  if (reason.empty()) return true;
  throw Error(ErrorCode::device_error, "register_host_memory",
              {.what = "the CUDA driver rejected the request: " + reason,
               .hint = "pass host memory that is not registered yet"});
}

void CudaBackend::unregister_host_memory(void* address) {
  const auto reason = driver_unregister_host(address);
  if (!reason.empty())
    throw Error(ErrorCode::device_error, "unregister_host_memory",
                {.what = "the CUDA driver rejected the request: " + reason,
                 .hint = "pass memory that was registered"});
}

// torch releases up to 2.13 do not register CUDA graphs in torch's graph registry. If LibTorch was
// built without CUDA, the registry may contain the graphs of a simulated device that stands in for
// CUDA.
std::shared_ptr<sdk::GraphImpl> CudaBackend::new_graph() {
  const auto& library = GraphLibrary::instance();
  if (library.without_cuda) {
    if (auto graph = torch_parts::make_graph(device_type())) {
      start();
      return graph;
    }
  }
  if (!library.reason.empty()) fail_unsupported("create_graph", "capturing graphs", library.reason);
  start();
  return std::shared_ptr<sdk::GraphImpl>(library.create());
}

bool CudaBackend::is_current_stream_capturing() const {
  if (!is_initialized()) return false;
  const auto& library = GraphLibrary::instance();
  return library.reason.empty() ? library.capturing() != 0
                                : TorchBackend::is_current_stream_capturing();
}

// Ranges are reported to two profilers: torch's, which also detects a pop without an open range,
// and NVIDIA's.
void CudaBackend::range_push(const std::string& message, const std::string& domain,
                             const std::string& category) {
  TorchBackend::range_push(message, domain, category);
  nvtx_push(message, domain, category);
}

void CudaBackend::range_pop(const std::string& domain) {
  TorchBackend::range_pop(domain);
  nvtx_pop();
}

}  // namespace anyaccel::backends::cuda
