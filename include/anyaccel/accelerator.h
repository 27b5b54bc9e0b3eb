// Device interface for programs. Methods are named after their DeepSpeed counterparts, if any, and
// every method exists on every backend. If a device lacks a feature, the method throws an `Error`
// with code `unsupported`.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "anyaccel/amp.h"
#include "anyaccel/device.h"
#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "anyaccel/event.h"
#include "anyaccel/export.h"
#include "anyaccel/graph.h"
#include "anyaccel/memory.h"
#include "anyaccel/op_builder.h"
#include "anyaccel/random.h"
#include "anyaccel/registry.h"
#include "anyaccel/stream.h"

namespace at {
class Tensor;
}

namespace anyaccel {

namespace sdk {
class Backend;
}

/// Compiler and linker settings for building a C++ extension. See `Accelerator::build_extension()`.
struct BuildExtension {
  std::vector<std::string> include_dirs;  ///< AnyAccel and LibTorch include folders
  std::vector<std::string> library_dirs;  ///< AnyAccel and LibTorch library folders
  std::vector<std::string> libraries;     ///< library names, without `-l`
  std::vector<std::string> cxx_flags;     ///< language standard and ABI flags
  std::string torch_version;              ///< LibTorch version that the extension is built for
};

/// Interface to the process's accelerator and all of its devices. Obtain it from
/// `get_accelerator()`.
///
/// Device index: methods with an optional index default to the current device. An index outside the
/// range 0 to device_count() - 1 throws `invalid_argument` with the valid range. If device names
/// have no index (cpu, hpu), an out-of-range index selects device 0 instead.
///
/// Thread safety: all methods are thread-safe. The current device and the current stream are per
/// thread.
///
/// Fork: names, capabilities and getters remain usable in a forked child. Computation in the child
/// is subject to torch's fork restrictions.
///
///     auto& accelerator = anyaccel::get_accelerator();
///     at::Tensor x = at::ones({2, 3}, accelerator.torch_device());
///     accelerator.synchronize();
class ANYACCEL_API Accelerator {
 public:
  /// Wrap a backend. Programs call `get_accelerator()` instead. Throws `invalid_argument` if
  /// `backend` is null.
  explicit Accelerator(std::shared_ptr<sdk::Backend> backend);
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  /// @name Kind of device
  /// @{

  /// Return whether the device is synchronous: work is complete when the call that submits it
  /// returns, as on cpu.
  /// torch.cuda: -. DeepSpeed: is_synchronized_device.
  bool is_synchronized_device() const noexcept;

  /// Return whether to time work with the host clock instead of events.
  /// torch.cuda: -. DeepSpeed: use_host_timers.
  bool use_host_timers() const noexcept;

  /// Return whether the device itself orders dependent work on different streams.
  /// torch.cuda: -. DeepSpeed: resolves_data_dependency.
  bool resolves_data_dependency() const noexcept;

  /// Return whether an allocation waits for memory to be freed instead of failing.
  /// torch.cuda: -. DeepSpeed: handles_memory_backpressure.
  bool handles_memory_backpressure() const noexcept;

  /// @}
  /// @name Devices
  /// @{

  /// Name in the registry, for example "cuda". `DS_ACCELERATOR` accepts the same names.
  /// torch.cuda: -. DeepSpeed: _name.
  const std::string& name() const noexcept;

  /// Return whether at least one device is usable. Does not initialize any device.
  /// torch.cuda: is_available. DeepSpeed: is_available.
  [[nodiscard]] bool is_available() const noexcept;

  /// Return torch's name for the accelerator's devices, for example "cuda". With an index, return
  /// the name of that device, for example "cuda:1", or the plain name if device names have no index
  /// (cpu, hpu). torch::Device accepts both forms. Without an index, the call does not touch the
  /// device. An out-of-range index is handled as in set_device().
  /// torch.cuda: -. DeepSpeed: device_name.
  std::string device_name(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Make a device current until the returned guard is destroyed: `auto guard =
  /// accelerator.device(1);`.
  /// torch.cuda: device. DeepSpeed: device.
  [[nodiscard]] DeviceGuard device(DeviceIndex device_index);

  /// Return a device as a torch::Device, for factory functions and `tensor.to()`. The call does not
  /// initialize the device. Some device types that vendors add to torch must be initialized before
  /// the first tensor is created in C++; set_device() does that.
  /// torch.cuda: -. DeepSpeed: device (its return value on cuda).
  c10::Device torch_device(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Make a device current on this thread. An out-of-range index throws `invalid_argument`, or
  /// selects device 0 if device names have no index (cpu, hpu).
  /// torch.cuda: set_device. DeepSpeed: set_device.
  void set_device(DeviceIndex device_index);

  /// Index of this thread's current device. Never empty.
  /// torch.cuda: current_device. DeepSpeed: current_device.
  DeviceIndex current_device() const;

  /// Name of this thread's current device, in a form that torch::Device accepts.
  /// torch.cuda: -. DeepSpeed: current_device_name.
  std::string current_device_name() const;

  /// Number of devices that this process may use. Does not initialize any device.
  /// torch.cuda: device_count. DeepSpeed: device_count.
  DeviceIndex device_count() const noexcept;

  /// Wait until a device has finished all queued work. Throws `device_error` if that work failed.
  /// torch.cuda: synchronize. DeepSpeed: synchronize.
  void synchronize(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Return a device's product name, memory, compute capability and other properties.
  /// torch.cuda: get_device_properties. DeepSpeed: -.
  DeviceProperties device_properties(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Return the compute capability (major, minor) of a device. Throws `unsupported` if the vendor
  /// does not define one.
  /// torch.cuda: get_device_capability. DeepSpeed: -.
  std::pair<int, int> compute_capability(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Return whether a tensor is on this accelerator's device type. On cpu, that includes all host
  /// tensors, pinned or not.
  /// torch.cuda: Tensor.is_cuda. DeepSpeed: on_accelerator.
  bool on_accelerator(const at::Tensor& tensor) const;

  /// @}
  /// @name Random numbers
  /// @{

  /// Return the counterpart of the torch.random module, for the host and all devices.
  /// torch.cuda: torch.random. DeepSpeed: random.
  Random random();

  /// Restore the state of a device's default generator. `new_state`: a 1-d uint8 CPU tensor from
  /// get_rng_state(). Throws `invalid_argument` for anything else.
  /// torch.cuda: set_rng_state. DeepSpeed: set_rng_state.
  void set_rng_state(const at::Tensor& new_state,
                     std::optional<DeviceIndex> device_index = std::nullopt);

  /// Return the state of a device's default generator as a 1-d uint8 CPU tensor.
  /// torch.cuda: get_rng_state. DeepSpeed: get_rng_state.
  [[nodiscard]] at::Tensor get_rng_state(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Seed the default generator of the current device.
  /// torch.cuda: manual_seed. DeepSpeed: manual_seed.
  void manual_seed(std::uint64_t seed);

  /// Seed the default generators of all devices.
  /// torch.cuda: manual_seed_all. DeepSpeed: manual_seed_all.
  void manual_seed_all(std::uint64_t seed);

  /// Return the seed of the current device's default generator.
  /// torch.cuda: initial_seed. DeepSpeed: initial_seed.
  std::uint64_t initial_seed() const;

  /// Return a device's default generator. On cpu, every index returns the host's generator.
  /// torch.cuda: default_generators[i]. DeepSpeed: default_generator.
  at::Generator default_generator(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// @}
  /// @name Streams and events
  /// @{

  /// Create a stream. `priority`: lower values are more urgent; 0 is normal.
  /// torch.cuda: Stream. DeepSpeed: Stream.
  ::anyaccel::Stream Stream(std::optional<DeviceIndex> device_index = std::nullopt,
                            int priority = 0);

  /// Make a stream and its device current until the returned guard is destroyed.
  /// torch.cuda: stream. DeepSpeed: stream.
  [[nodiscard]] StreamGuard stream(const ::anyaccel::Stream& stream);

  /// Make a stream current on its device, for this thread. Throws `invalid_argument` if the stream
  /// belongs to a different accelerator.
  /// torch.cuda: set_stream. DeepSpeed: -.
  void set_stream(const ::anyaccel::Stream& stream);

  /// Return this thread's current stream on a device.
  /// torch.cuda: current_stream. DeepSpeed: current_stream.
  ::anyaccel::Stream current_stream(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Return a device's default stream, which receives work until a different stream is made
  /// current.
  /// torch.cuda: default_stream. DeepSpeed: default_stream.
  ::anyaccel::Stream default_stream(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Create an event. Without `enable_timing`, `Event::elapsed_time()` throws `invalid_state`.
  /// torch.cuda: Event. DeepSpeed: Event.
  ::anyaccel::Event Event(bool enable_timing = false,
                          std::optional<DeviceIndex> device_index = std::nullopt);

  /// @}
  /// @name Memory
  /// @{

  /// Return unused cached memory of all devices to the driver.
  /// torch.cuda: empty_cache. DeepSpeed: empty_cache.
  void empty_cache();

  /// Bytes occupied by live tensors on a device. On cpu, this counts only tensors, unlike the
  /// process's resident set size (see get_rss()).
  /// torch.cuda: memory_allocated. DeepSpeed: memory_allocated.
  std::int64_t memory_allocated(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Peak of memory_allocated() since the last reset.
  /// torch.cuda: max_memory_allocated. DeepSpeed: max_memory_allocated.
  std::int64_t max_memory_allocated(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Older name for reset_peak_memory_stats(), kept by torch. Resets all peaks.
  /// torch.cuda: reset_max_memory_allocated. DeepSpeed: reset_max_memory_allocated.
  void reset_max_memory_allocated(std::optional<DeviceIndex> device_index = std::nullopt);

  /// Older name for memory_reserved().
  /// torch.cuda: memory_cached. DeepSpeed: memory_cached.
  std::int64_t memory_cached(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Older name for max_memory_reserved().
  /// torch.cuda: max_memory_cached. DeepSpeed: max_memory_cached.
  std::int64_t max_memory_cached(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Older name for reset_peak_memory_stats(), kept by torch. Resets all peaks.
  /// torch.cuda: reset_max_memory_cached. DeepSpeed: reset_max_memory_cached.
  void reset_max_memory_cached(std::optional<DeviceIndex> device_index = std::nullopt);

  /// Return the allocator's counters under torch's keys, plus "host.rss.current" and
  /// "host.rss.peak".
  /// torch.cuda: memory_stats. DeepSpeed: memory_stats.
  [[nodiscard]] MemoryStatsMap memory_stats(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Return the allocator counters from memory_stats() as a struct.
  /// torch.cuda: -. DeepSpeed: -.
  [[nodiscard]] MemoryStats allocator_stats(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Reset all peaks to the current values.
  /// torch.cuda: reset_peak_memory_stats. DeepSpeed: reset_peak_memory_stats.
  void reset_peak_memory_stats(std::optional<DeviceIndex> device_index = std::nullopt);

  /// Bytes that the allocator has reserved from the driver, whether in use or cached.
  /// torch.cuda: memory_reserved. DeepSpeed: memory_reserved.
  std::int64_t memory_reserved(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Peak of memory_reserved() since the last reset.
  /// torch.cuda: max_memory_reserved. DeepSpeed: max_memory_reserved.
  std::int64_t max_memory_reserved(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Total memory of a device in bytes. On cpu, the minimum of the host's memory, the NUMA node's
  /// memory and the cgroup limit.
  /// torch.cuda: get_device_properties(i).total_memory. DeepSpeed: total_memory.
  std::int64_t total_memory(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Free memory of a device in bytes. Memory that other processes use does not count as free.
  /// torch.cuda: mem_get_info(i)[0]. DeepSpeed: available_memory.
  std::int64_t available_memory(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Return a device's free and total memory in bytes, in one call.
  /// torch.cuda: mem_get_info. DeepSpeed: -.
  MemoryInfo memory_info(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Resident set size of this process in bytes.
  /// torch.cuda: -. DeepSpeed: get_rss (cpu).
  std::int64_t get_rss() const;

  /// @}
  /// @name Pinned host memory
  /// @{

  /// Copy a host tensor to page-locked memory. A contiguous tensor that is already pinned is
  /// returned as is. If `make_copy` is false, the result is a new tensor with uninitialized values.
  /// If `match_shape` is false, the result is 1-d. On cpu, memory does not need pinning: the result
  /// is the tensor itself if it is contiguous, otherwise a contiguous copy. Throws
  /// `invalid_argument` if the tensor is not in host memory.
  /// torch.cuda: Tensor.pin_memory. DeepSpeed: pin_memory.
  [[nodiscard]] at::Tensor pin_memory(const at::Tensor& tensor, bool make_copy = true,
                                      bool match_shape = true);

  /// Create an uninitialized pinned host tensor with this shape and with the dtype of `like`.
  /// Throws `invalid_argument` for a negative size, or if `like` is not in host memory.
  /// torch.cuda: empty(pin_memory=True). DeepSpeed: pin_empty.
  [[nodiscard]] at::Tensor pin_empty(const at::Tensor& like, c10::IntArrayRef shape);

  /// Create an uninitialized pinned host tensor with the shape and dtype of `like`.
  /// torch.cuda: empty_like(pin_memory=True). DeepSpeed: pin_empty_like.
  [[nodiscard]] at::Tensor pin_empty_like(const at::Tensor& like);

  /// Copy a pinned tensor to ordinary host memory. A tensor that is not pinned is returned as is.
  /// The pinned memory is freed with the last tensor that uses it.
  /// torch.cuda: -. DeepSpeed: unpin_memory.
  [[nodiscard]] at::Tensor unpin_memory(const at::Tensor& tensor);

  /// Return whether a tensor, which may be a view, is in pinned host memory.
  /// torch.cuda: Tensor.is_pinned. DeepSpeed: is_pinned.
  [[nodiscard]] bool is_pinned(const at::Tensor& tensor) const;

  /// Alignment in bytes that register_host_memory() requires. 1 allows any address.
  /// torch.cuda: -. DeepSpeed: pin_memory_alignment.
  std::int64_t pin_memory_alignment() const noexcept;

  /// Page-lock `num_bytes` of the caller's memory and register it with the device. Returns false if
  /// the accelerator does not need registration. Throws `invalid_argument` for a null address or a
  /// size below 1, `unsupported` if the device cannot register memory, and `device_error` if the
  /// driver rejects it.
  /// torch.cuda: cudart().cudaHostRegister. DeepSpeed: register_host_memory.
  bool register_host_memory(void* address, std::int64_t num_bytes);

  /// Unregister memory registered with register_host_memory().
  /// torch.cuda: cudart().cudaHostUnregister. DeepSpeed: unregister_host_memory.
  void unregister_host_memory(void* address);

  /// Return how many bytes of pinned memory are in use and how many are reserved. All values are 0
  /// if the accelerator does not pin memory.
  /// torch.cuda: host_memory_stats. DeepSpeed: -.
  HostMemoryStats host_memory_stats() const;

  /// @}
  /// @name Data types
  /// @{

  /// Return whether the current device can train in bfloat16.
  /// torch.cuda: is_bf16_supported. DeepSpeed: is_bf16_supported.
  bool is_bf16_supported() const;

  /// Return whether the current device has hardware support for training in float16.
  /// torch.cuda: -. DeepSpeed: is_fp16_supported.
  bool is_fp16_supported() const;

  /// Return whether the device supports double precision.
  /// torch.cuda: -. DeepSpeed: is_fp64_supported.
  bool is_fp64_supported() const;

  /// Return the dtypes that are suitable for training: float32, then float16 and bfloat16 if
  /// supported.
  /// torch.cuda: -. DeepSpeed: supported_dtypes.
  std::vector<c10::ScalarType> supported_dtypes() const;

  /// Return how well a device supports a dtype.
  /// torch.cuda: -. DeepSpeed: -.
  DtypeSupport dtype_support(c10::ScalarType dtype,
                             std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Return how well a device supports each floating-point, integer, bool and complex torch dtype.
  /// torch.cuda: -. DeepSpeed: -.
  std::vector<DtypeRow> dtype_table(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// @}
  /// @name Mixed precision
  /// @{

  /// Return autocast and loss scaling under the names used in older DeepSpeed releases.
  /// torch.cuda: amp. DeepSpeed: amp (older releases).
  Amp amp() const noexcept;

  /// Run ops in `dtype`, where that is numerically safe, until the returned object is destroyed.
  /// Throws `unsupported` if the device does not support computation in `dtype`.
  /// torch.cuda: torch.autocast. DeepSpeed: -.
  [[nodiscard]] Autocast autocast(c10::ScalarType dtype, bool enabled = true,
                                  bool cache_enabled = true) const;

  /// @}
  /// @name Profiling, start-up, compilation
  /// @{

  /// Open a named range in the profiler. `domain` and `category` are ignored unless
  /// supports_nvtx_domain() is true.
  /// torch.cuda: nvtx.range_push. DeepSpeed: range_push.
  void range_push(std::string_view message, std::string_view domain = {},
                  std::string_view category = {});

  /// Close the innermost range of this thread. Throws `invalid_state` if none is open.
  /// torch.cuda: nvtx.range_pop. DeepSpeed: range_pop.
  void range_pop(std::string_view domain = {});

  /// Return whether range_push() uses domains and categories.
  /// torch.cuda: -. DeepSpeed: supports_nvtx_domain.
  bool supports_nvtx_domain() const noexcept;

  /// Call `callback` once the device is initialized: immediately if it already is, otherwise when
  /// the device is first used. If a callback throws, the remaining ones still run, and the first
  /// error is then rethrown.
  /// torch.cuda: _lazy_call. DeepSpeed: lazy_call.
  void lazy_call(std::function<void()> callback);

  /// Return the default backend for torch.distributed, for example "nccl". On cpu, the first call
  /// may start a process to test oneCCL.
  /// torch.cuda: -. DeepSpeed: communication_backend_name.
  std::string communication_backend_name() const;

  /// Return whether Triton can compile for the current device.
  /// torch.cuda: -. DeepSpeed: is_triton_supported.
  bool is_triton_supported() const;

  /// Return whether grouped matrix multiplication is faster with Triton than with torch on the
  /// current device.
  /// torch.cuda: -. DeepSpeed: prefer_triton_grouped_mm.
  bool prefer_triton_grouped_mm() const;

  /// Return the backend for torch.compile.
  /// torch.cuda: -. DeepSpeed: get_compile_backend.
  std::string get_compile_backend() const;

  /// Set the backend for torch.compile. Throws `invalid_argument`, listing the known names, if the
  /// name is unknown.
  /// torch.cuda: -. DeepSpeed: set_compile_backend.
  void set_compile_backend(const std::string& backend);

  /// @}
  /// @name Graphs
  /// @{

  /// Return whether this thread's work is being captured into a graph.
  /// torch.cuda: is_current_stream_capturing. DeepSpeed: is_current_stream_capturing.
  bool is_current_stream_capturing() const;

  /// Create an empty graph. Throws `unsupported` with the reason if the accelerator does
  /// not support graphs.
  /// torch.cuda: CUDAGraph. DeepSpeed: create_graph.
  [[nodiscard]] Graph create_graph();

  /// Capture this thread's work until end() or the destructor of the returned object: `{ auto c =
  /// accelerator.capture_to_graph(g); ...; c.end(); }`. `pool`: another graph's memory pool, which
  /// this graph then shares. `stream`: capture stream (default: a side stream).
  /// torch.cuda: graph. DeepSpeed: capture_to_graph.
  [[nodiscard]] GraphCapture capture_to_graph(
      const Graph& graph, std::optional<GraphPool> pool = std::nullopt,
      std::optional<::anyaccel::Stream> stream = std::nullopt);

  /// Run the work captured in a graph. Throws `invalid_state` if nothing was captured.
  /// torch.cuda: CUDAGraph.replay. DeepSpeed: replay_graph.
  void replay_graph(const Graph& graph);

  /// @}
  /// @name Tensors from values: 1-d, on the current device
  /// @{

  /// Create a 1-d bfloat16 tensor on the current device.
  /// torch.cuda: tensor(dtype=bfloat16). DeepSpeed: BFloat16Tensor.
  at::Tensor BFloat16Tensor(c10::ArrayRef<double> values) const;
  /// Create a 1-d uint8 tensor on the current device.
  /// torch.cuda: tensor(dtype=uint8). DeepSpeed: ByteTensor.
  at::Tensor ByteTensor(c10::ArrayRef<std::int64_t> values) const;
  /// Create a 1-d float64 tensor on the current device. Throws `unsupported` if the device does not
  /// support double precision.
  /// torch.cuda: tensor(dtype=float64). DeepSpeed: DoubleTensor.
  at::Tensor DoubleTensor(c10::ArrayRef<double> values) const;
  /// Create a 1-d float32 tensor on the current device.
  /// torch.cuda: tensor(dtype=float32). DeepSpeed: FloatTensor.
  at::Tensor FloatTensor(c10::ArrayRef<double> values) const;
  /// Create a 1-d float16 tensor on the current device.
  /// torch.cuda: tensor(dtype=float16). DeepSpeed: HalfTensor.
  at::Tensor HalfTensor(c10::ArrayRef<double> values) const;
  /// Create a 1-d int32 tensor on the current device.
  /// torch.cuda: tensor(dtype=int32). DeepSpeed: IntTensor.
  at::Tensor IntTensor(c10::ArrayRef<std::int64_t> values) const;
  /// Create a 1-d int64 tensor on the current device.
  /// torch.cuda: tensor(dtype=int64). DeepSpeed: LongTensor.
  at::Tensor LongTensor(c10::ArrayRef<std::int64_t> values) const;

  /// @}
  /// @name Op builders
  /// @{

  /// Name of the Python package that contains the op builders.
  /// torch.cuda: -. DeepSpeed: op_builder_dir.
  std::string op_builder_dir() const;

  /// Return a factory for an op's builders (in DeepSpeed, the builder class). Never empty: if this
  /// backend lacks the op, the builders' load() throws `unsupported`, naming the op and the
  /// backend.
  /// torch.cuda: -. DeepSpeed: get_op_builder.
  OpBuilderFactory get_op_builder(const std::string& class_name) const;

  /// Create an op builder. Never null: if this backend lacks the op, load() throws `unsupported`.
  /// torch.cuda: -. DeepSpeed: create_op_builder.
  [[nodiscard]] std::shared_ptr<OpBuilder> create_op_builder(const std::string& class_name) const;

  /// Return the settings for building a C++ extension against this process's LibTorch.
  /// torch.cuda: utils.cpp_extension.BuildExtension. DeepSpeed: build_extension.
  BuildExtension build_extension() const;

  /// @}
  /// @name Environment
  /// @{

  /// Prefixes of the environment variables that a launcher passes to other nodes.
  /// torch.cuda: -. DeepSpeed: export_envs.
  std::vector<std::string> export_envs() const;

  /// Environment variables that select devices. Empty if there are none (cpu).
  /// torch.cuda: -. DeepSpeed: visible_devices_envs.
  std::vector<std::string> visible_devices_envs() const;

  /// In `current_env`, set each variable in visible_devices_envs() to the comma-separated
  /// `local_accelerator_ids`, so that a local rank with this environment sees only these devices.
  /// torch.cuda: -. DeepSpeed: set_visible_devices_envs.
  void set_visible_devices_envs(std::map<std::string, std::string>& current_env,
                                const std::vector<std::string>& local_accelerator_ids) const;

  /// @}

  /// torch's device type for this accelerator.
  c10::DeviceType device_type() const noexcept;
  /// The backend, for backend authors and tests.
  sdk::Backend& backend() const noexcept { return *backend_; }

 private:
  /// Return `index`, or the current device's index if `index` is empty. For an out-of-range index,
  /// return 0 if device names have no index, otherwise throw `invalid_argument`. `where`: function
  /// name for the error message.
  DeviceIndex checked(std::optional<DeviceIndex> index, const char* where) const;
  /// Run the callbacks that lazy_call() queued, if the device is initialized.
  void run_lazy_calls() const;

  struct Lazy;
  std::shared_ptr<sdk::Backend> backend_;
  std::unique_ptr<Lazy> lazy_;
};

namespace detail {
ANYACCEL_API extern std::atomic<Accelerator*> chosen;
ANYACCEL_API Accelerator& choose();
}  // namespace detail

inline Accelerator& get_accelerator() {
  Accelerator* accelerator = detail::chosen.load(std::memory_order_acquire);
  return accelerator != nullptr ? *accelerator : detail::choose();
}

}  // namespace anyaccel
