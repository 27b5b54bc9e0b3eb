// The accelerator: what programs use. Every method has DeepSpeed's name and works on every backend;
// what a device cannot do is an `Error` with code `unsupported`, never a silent nothing.
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

/// What the build of an extension needs; see Accelerator::build_extension.
struct BuildExtension {
  std::vector<std::string> include_dirs;  ///< AnyAccel's and LibTorch's headers
  std::vector<std::string> library_dirs;  ///< folders of their libraries
  std::vector<std::string> libraries;     ///< names for -l
  std::vector<std::string> cxx_flags;     ///< language standard and ABI flags
  std::string torch_version;              ///< LibTorch that the extension will belong to
};

/// The accelerator of a program. Get it from `get_accelerator()`.
///
/// Arguments: without a device index, methods use the current device. An index outside
/// 0..device_count()-1 throws `invalid_argument` with the valid range, or means device 0 if device
/// names carry no index (cpu, hpu). Thread-safe. The current device and the current stream are per
/// thread. Fork: names, capabilities and getters stay usable in a forked child; torch limits
/// computation there.
class ANYACCEL_API Accelerator {
 public:
  explicit Accelerator(std::shared_ptr<sdk::Backend> backend);
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  /// @name Kind of device
  /// @{

  /// True when work is finished once the call that queues it returns (cpu).
  /// torch.cuda: -. DeepSpeed: is_synchronized_device.
  bool is_synchronized_device() const noexcept;

  /// True when timers should read the host's clock and not events.
  /// torch.cuda: -. DeepSpeed: use_host_timers.
  bool use_host_timers() const noexcept;

  /// True when the device orders dependent work of different streams itself.
  /// torch.cuda: -. DeepSpeed: resolves_data_dependency.
  bool resolves_data_dependency() const noexcept;

  /// True when an allocation waits for memory in use instead of failing.
  /// torch.cuda: -. DeepSpeed: handles_memory_backpressure.
  bool handles_memory_backpressure() const noexcept;

  /// @}
  /// @name Devices
  /// @{

  /// Name in the registry, for example "cuda": what `DS_ACCELERATOR` says.
  /// torch.cuda: -. DeepSpeed: _name.
  const std::string& name() const noexcept;

  /// True when at least one device can be used. Starts nothing.
  /// torch.cuda: is_available. DeepSpeed: is_available.
  [[nodiscard]] bool is_available() const noexcept;

  /// torch's name for the accelerator's devices, for example "cuda", valid as a torch::Device. With
  /// an index "cuda:1", or still the plain name if names carry no index (cpu, hpu). Without an
  /// index it never touches the device. An index out of range is handled as in set_device().
  /// torch.cuda: -. DeepSpeed: device_name.
  std::string device_name(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Makes a device current for a scope: `auto guard = accelerator.device(1);`.
  /// torch.cuda: device. DeepSpeed: device.
  [[nodiscard]] DeviceGuard device(DeviceIndex device_index);

  /// torch's object for a device, to be given to factory functions and `tensor.to`.
  /// torch.cuda: -. DeepSpeed: device (its return value on cuda).
  c10::Device torch_device(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Makes a device current on this thread. If names carry no index (cpu, hpu), an index out of
  /// range means device 0. torch.cuda: set_device. DeepSpeed: set_device.
  void set_device(DeviceIndex device_index);

  /// Index of this thread's device: always a number.
  /// torch.cuda: current_device. DeepSpeed: current_device.
  DeviceIndex current_device() const;

  /// Name of this thread's device: always valid as a torch::Device.
  /// torch.cuda: -. DeepSpeed: current_device_name.
  std::string current_device_name() const;

  /// Number of devices that this process may use. Starts nothing.
  /// torch.cuda: device_count. DeepSpeed: device_count.
  DeviceIndex device_count() const noexcept;

  /// Waits until a device has finished all its work; `device_error` where that work failed.
  /// torch.cuda: synchronize. DeepSpeed: synchronize.
  void synchronize(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Product name, memory, compute capability and more of a device.
  /// torch.cuda: get_device_properties. DeepSpeed: -.
  DeviceProperties device_properties(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// (major, minor) of a device; `unsupported` where the vendor has no such pair.
  /// torch.cuda: get_device_capability. DeepSpeed: -.
  std::pair<int, int> compute_capability(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// True when a tensor lies on this accelerator's kind of device. On cpu: pinned or not.
  /// torch.cuda: Tensor.is_cuda. DeepSpeed: on_accelerator.
  bool on_accelerator(const at::Tensor& tensor) const;

  /// @}
  /// @name Random numbers
  /// @{

  /// The functions of torch.random: host and all devices at once.
  /// torch.cuda: torch.random. DeepSpeed: random.
  Random random();

  /// Puts a generator's state back. `new_state`: 1-d uint8 CPU tensor from get_rng_state();
  /// anything else is `invalid_argument`.
  /// torch.cuda: set_rng_state. DeepSpeed: set_rng_state.
  void set_rng_state(const at::Tensor& new_state,
                     std::optional<DeviceIndex> device_index = std::nullopt);

  /// State of a device's default generator, a 1-d uint8 CPU tensor.
  /// torch.cuda: get_rng_state. DeepSpeed: get_rng_state.
  [[nodiscard]] at::Tensor get_rng_state(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Seeds the current device's generator.
  /// torch.cuda: manual_seed. DeepSpeed: manual_seed.
  void manual_seed(std::uint64_t seed);

  /// Seeds the generators of all devices.
  /// torch.cuda: manual_seed_all. DeepSpeed: manual_seed_all.
  void manual_seed_all(std::uint64_t seed);

  /// The seed of the current device's generator.
  /// torch.cuda: initial_seed. DeepSpeed: initial_seed.
  std::uint64_t initial_seed() const;

  /// A device's default generator; on cpu the one host generator for every index.
  /// torch.cuda: default_generators[i]. DeepSpeed: default_generator.
  at::Generator default_generator(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// @}
  /// @name Streams and events
  /// @{

  /// A new stream. Lower `priority` is more urgent; 0 is normal.
  /// torch.cuda: Stream. DeepSpeed: Stream.
  ::anyaccel::Stream Stream(std::optional<DeviceIndex> device_index = std::nullopt,
                            int priority = 0);

  /// Makes a stream current for a scope.
  /// torch.cuda: stream. DeepSpeed: stream.
  [[nodiscard]] StreamGuard stream(const ::anyaccel::Stream& stream);

  /// Makes a stream current on its device, for this thread, until changed.
  /// torch.cuda: set_stream. DeepSpeed: -.
  void set_stream(const ::anyaccel::Stream& stream);

  /// This thread's stream on a device.
  /// torch.cuda: current_stream. DeepSpeed: current_stream.
  ::anyaccel::Stream current_stream(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// The stream that work goes to when none was chosen.
  /// torch.cuda: default_stream. DeepSpeed: default_stream.
  ::anyaccel::Stream default_stream(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// A new event. Without `enable_timing` elapsed_time is `invalid_state`.
  /// torch.cuda: Event. DeepSpeed: Event.
  ::anyaccel::Event Event(bool enable_timing = false,
                          std::optional<DeviceIndex> device_index = std::nullopt);

  /// @}
  /// @name Memory
  /// @{

  /// Gives unused cached memory of all devices back to the driver.
  /// torch.cuda: empty_cache. DeepSpeed: empty_cache.
  void empty_cache();

  /// Bytes of live tensors on a device. On cpu: tensor bytes, not the process's size (see get_rss).
  /// torch.cuda: memory_allocated. DeepSpeed: memory_allocated.
  std::int64_t memory_allocated(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Highest memory_allocated() since the last reset.
  /// torch.cuda: max_memory_allocated. DeepSpeed: max_memory_allocated.
  std::int64_t max_memory_allocated(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// As reset_peak_memory_stats (torch keeps the old name).
  /// torch.cuda: reset_max_memory_allocated. DeepSpeed: reset_max_memory_allocated.
  void reset_max_memory_allocated(std::optional<DeviceIndex> device_index = std::nullopt);

  /// Old name of memory_reserved.
  /// torch.cuda: memory_cached. DeepSpeed: memory_cached.
  std::int64_t memory_cached(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Old name of max_memory_reserved.
  /// torch.cuda: max_memory_cached. DeepSpeed: max_memory_cached.
  std::int64_t max_memory_cached(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// As reset_peak_memory_stats (torch keeps the old name).
  /// torch.cuda: reset_max_memory_cached. DeepSpeed: reset_max_memory_cached.
  void reset_max_memory_cached(std::optional<DeviceIndex> device_index = std::nullopt);

  /// All that the allocator counts, by torch's keys, with "host.rss.current" and "host.rss.peak".
  /// torch.cuda: memory_stats. DeepSpeed: memory_stats.
  [[nodiscard]] MemoryStatsMap memory_stats(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// The allocator's counters of memory_stats(), as a struct.
  /// torch.cuda: -. DeepSpeed: -.
  [[nodiscard]] MemoryStats allocator_stats(
      std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Starts all peaks anew from the current values.
  /// torch.cuda: reset_peak_memory_stats. DeepSpeed: reset_peak_memory_stats.
  void reset_peak_memory_stats(std::optional<DeviceIndex> device_index = std::nullopt);

  /// Bytes that the allocator holds from the driver.
  /// torch.cuda: memory_reserved. DeepSpeed: memory_reserved.
  std::int64_t memory_reserved(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Highest memory_reserved() since the last reset.
  /// torch.cuda: max_memory_reserved. DeepSpeed: max_memory_reserved.
  std::int64_t max_memory_reserved(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Bytes of a device. On cpu the least of host, NUMA node and cgroup limit.
  /// torch.cuda: get_device_properties(i).total_memory. DeepSpeed: total_memory.
  std::int64_t total_memory(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Bytes of a device that are free now, other processes counted.
  /// torch.cuda: mem_get_info(i)[0]. DeepSpeed: available_memory.
  std::int64_t available_memory(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Free and total bytes in one call.
  /// torch.cuda: mem_get_info. DeepSpeed: -.
  MemoryInfo memory_info(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// Resident set size of this process in bytes.
  /// torch.cuda: -. DeepSpeed: get_rss (cpu).
  std::int64_t get_rss() const;

  /// @}
  /// @name Pinned host memory
  /// @{

  /// A tensor with the same values in page-locked host memory; the tensor itself when it is pinned
  /// already. `make_copy` false: the memory is new and its values are not set; `match_shape` false:
  /// the result is 1-d. On cpu, where nothing needs pinning, the (contiguous) tensor itself.
  /// `invalid_argument` for tensors that are not in host memory. torch.cuda: Tensor.pin_memory.
  /// DeepSpeed: pin_memory.
  [[nodiscard]] at::Tensor pin_memory(const at::Tensor& tensor, bool make_copy = true,
                                      bool match_shape = true);

  /// An uninitialized pinned host tensor of the template's dtype. `shape` sizes may not be
  /// negative. torch.cuda: empty(pin_memory=True). DeepSpeed: pin_empty.
  [[nodiscard]] at::Tensor pin_empty(const at::Tensor& like, c10::IntArrayRef shape);

  /// The same with the template's shape.
  /// torch.cuda: empty_like(pin_memory=True). DeepSpeed: pin_empty_like.
  [[nodiscard]] at::Tensor pin_empty_like(const at::Tensor& like);

  /// Copies a pinned tensor to ordinary memory; the pinned memory is free when its last tensor is.
  /// torch.cuda: -. DeepSpeed: unpin_memory.
  [[nodiscard]] at::Tensor unpin_memory(const at::Tensor& tensor);

  /// True when a tensor is in pinned host memory, views too.
  /// torch.cuda: Tensor.is_pinned. DeepSpeed: is_pinned.
  [[nodiscard]] bool is_pinned(const at::Tensor& tensor) const;

  /// Bytes that register_host_memory wants its address aligned to; 1 means none.
  /// torch.cuda: -. DeepSpeed: pin_memory_alignment.
  std::int64_t pin_memory_alignment() const noexcept;

  /// Page-locks memory of the caller and makes it known to the device; false where that has no
  /// meaning. torch.cuda: cudart().cudaHostRegister. DeepSpeed: register_host_memory.
  bool register_host_memory(void* address, std::int64_t num_bytes);

  /// Ends that.
  /// torch.cuda: cudart().cudaHostUnregister. DeepSpeed: unregister_host_memory.
  void unregister_host_memory(void* address);

  /// Pinned bytes in use and held; zeros where nothing is pinned.
  /// torch.cuda: host_memory_stats. DeepSpeed: -.
  HostMemoryStats host_memory_stats() const;

  /// @}
  /// @name Data types
  /// @{

  /// True when bf16 is fit for training on the current device.
  /// torch.cuda: is_bf16_supported. DeepSpeed: is_bf16_supported.
  bool is_bf16_supported() const;

  /// True when fp16 is fit for training on the current device.
  /// torch.cuda: -. DeepSpeed: is_fp16_supported.
  bool is_fp16_supported() const;

  /// True when the device computes in double precision.
  /// torch.cuda: -. DeepSpeed: is_fp64_supported.
  bool is_fp64_supported() const;

  /// Types to train in: float, then half and bfloat16 where supported.
  /// torch.cuda: -. DeepSpeed: supported_dtypes.
  std::vector<c10::ScalarType> supported_dtypes() const;

  /// What a device can do with one type.
  /// torch.cuda: -. DeepSpeed: -.
  DtypeSupport dtype_support(c10::ScalarType dtype,
                             std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// The same for every floating and integer type that torch has.
  /// torch.cuda: -. DeepSpeed: -.
  std::vector<DtypeRow> dtype_table(std::optional<DeviceIndex> device_index = std::nullopt) const;

  /// @}
  /// @name Mixed precision
  /// @{

  /// Autocast and loss scaling, as older DeepSpeed releases have them.
  /// torch.cuda: amp. DeepSpeed: amp (older releases).
  Amp amp() const noexcept;

  /// Runs the ops of a scope in `dtype` where that is safe.
  /// torch.cuda: torch.autocast. DeepSpeed: -.
  [[nodiscard]] Autocast autocast(c10::ScalarType dtype, bool enabled = true,
                                  bool cache_enabled = true) const;

  /// @}
  /// @name Profiling, start-up, compilation
  /// @{

  /// Opens a named range in the profiler. `domain` and `category` count where the vendor has them.
  /// torch.cuda: nvtx.range_push. DeepSpeed: range_push.
  void range_push(std::string_view message, std::string_view domain = {},
                  std::string_view category = {});

  /// Closes the innermost range of this thread; `invalid_state` when none is open.
  /// torch.cuda: nvtx.range_pop. DeepSpeed: range_pop.
  void range_pop(std::string_view domain = {});

  /// True when range_push uses domains.
  /// torch.cuda: -. DeepSpeed: supports_nvtx_domain.
  bool supports_nvtx_domain() const noexcept;

  /// Calls `callback` once the device runs: now, or at first use. Runs all queued callbacks, then
  /// throws the first error. torch.cuda: _lazy_call. DeepSpeed: lazy_call.
  void lazy_call(std::function<void()> callback);

  /// Name for torch.distributed, for example "nccl".
  /// torch.cuda: -. DeepSpeed: communication_backend_name.
  std::string communication_backend_name() const;

  /// True when Triton can compile for the current device.
  /// torch.cuda: -. DeepSpeed: is_triton_supported.
  bool is_triton_supported() const;

  /// True when a Triton grouped matrix product is faster here than torch's own.
  /// torch.cuda: -. DeepSpeed: prefer_triton_grouped_mm.
  bool prefer_triton_grouped_mm() const;

  /// Backend for torch.compile.
  /// torch.cuda: -. DeepSpeed: get_compile_backend.
  std::string get_compile_backend() const;

  /// Changes it; `invalid_argument` with the list when this accelerator does not know it.
  /// torch.cuda: -. DeepSpeed: set_compile_backend.
  void set_compile_backend(const std::string& backend);

  /// @}
  /// @name Graphs
  /// @{

  /// True when this thread's work is being recorded.
  /// torch.cuda: is_current_stream_capturing. DeepSpeed: is_current_stream_capturing.
  bool is_current_stream_capturing() const;

  /// An empty graph; `unsupported` with the reason where there are none.
  /// torch.cuda: CUDAGraph. DeepSpeed: create_graph.
  [[nodiscard]] Graph create_graph();

  /// Records the work of a scope: `{ auto c = accelerator.capture_to_graph(g); ...; c.end(); }`.
  /// `pool`: memory of another graph to share. `stream`: where to capture; default a side stream.
  /// torch.cuda: graph. DeepSpeed: capture_to_graph.
  [[nodiscard]] GraphCapture capture_to_graph(
      const Graph& graph, std::optional<GraphPool> pool = std::nullopt,
      std::optional<::anyaccel::Stream> stream = std::nullopt);

  /// Runs a captured graph. `invalid_state` before capture.
  /// torch.cuda: CUDAGraph.replay. DeepSpeed: replay_graph.
  void replay_graph(const Graph& graph);

  /// @}
  /// @name Tensors from values: 1-d, on the current device
  /// @{

  /// torch.cuda: tensor(dtype=bfloat16). DeepSpeed: BFloat16Tensor.
  at::Tensor BFloat16Tensor(c10::ArrayRef<double> values) const;
  /// torch.cuda: tensor(dtype=uint8). DeepSpeed: ByteTensor.
  at::Tensor ByteTensor(c10::ArrayRef<std::int64_t> values) const;
  /// torch.cuda: tensor(dtype=float64). DeepSpeed: DoubleTensor.
  at::Tensor DoubleTensor(c10::ArrayRef<double> values) const;
  /// torch.cuda: tensor(dtype=float32). DeepSpeed: FloatTensor.
  at::Tensor FloatTensor(c10::ArrayRef<double> values) const;
  /// torch.cuda: tensor(dtype=float16). DeepSpeed: HalfTensor.
  at::Tensor HalfTensor(c10::ArrayRef<double> values) const;
  /// torch.cuda: tensor(dtype=int32). DeepSpeed: IntTensor.
  at::Tensor IntTensor(c10::ArrayRef<std::int64_t> values) const;
  /// torch.cuda: tensor(dtype=int64). DeepSpeed: LongTensor.
  at::Tensor LongTensor(c10::ArrayRef<std::int64_t> values) const;

  /// @}
  /// @name Op builders
  /// @{

  /// Python package that holds the op builders.
  /// torch.cuda: -. DeepSpeed: op_builder_dir.
  std::string op_builder_dir() const;

  /// A factory of builders, what DeepSpeed's class is in Python. Never empty: an op that this
  /// backend lacks gives builders whose load() is `unsupported` and names op and backend.
  /// torch.cuda: -. DeepSpeed: get_op_builder.
  OpBuilderFactory get_op_builder(const std::string& class_name) const;

  /// A builder. Never null, as get_op_builder.
  /// torch.cuda: -. DeepSpeed: create_op_builder.
  [[nodiscard]] std::shared_ptr<OpBuilder> create_op_builder(const std::string& class_name) const;

  /// What a build needs to make an extension for this LibTorch.
  /// torch.cuda: utils.cpp_extension.BuildExtension. DeepSpeed: build_extension.
  BuildExtension build_extension() const;

  /// @}
  /// @name Environment
  /// @{

  /// Prefixes of the variables that a launcher passes to other nodes.
  /// torch.cuda: -. DeepSpeed: export_envs.
  std::vector<std::string> export_envs() const;

  /// Variables that choose devices; empty where none does (cpu).
  /// torch.cuda: -. DeepSpeed: visible_devices_envs.
  std::vector<std::string> visible_devices_envs() const;

  /// Writes the devices of a local rank into an environment: each of visible_devices_envs() becomes
  /// the ids joined by commas. torch.cuda: -. DeepSpeed: set_visible_devices_envs.
  void set_visible_devices_envs(std::map<std::string, std::string>& current_env,
                                const std::vector<std::string>& local_accelerator_ids) const;

  /// @}

  /// torch's device type of this accelerator.
  c10::DeviceType device_type() const noexcept;
  /// The backend, for the SDK and for tests.
  sdk::Backend& backend() const noexcept { return *backend_; }

 private:
  /// The index, or the current device. Out of range: 0 if names carry no index, else throws with
  /// `where` as caller.
  DeviceIndex checked(std::optional<DeviceIndex> index, const char* where) const;
  /// Runs what lazy_call() kept back, once the device runs.
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
