// Traits: a backend's static data. Does not need torch, so that the launcher can read it.
#pragma once

#include <string>
#include <vector>

namespace anyaccel::sdk {

/// Result of probing for devices.
struct Probe {
  int device_count = 0;  ///< number of devices that this process may use
  std::string reason;    ///< how the devices were counted, or why there are none, in one sentence
};

/// An environment variable that is set when the backend is chosen, unless the user has set it.
struct EnvironmentSetting {
  std::string name;
  std::string value;
  std::string reason;  ///< explanation for `anyaccel report`
};

/// Static data of a backend, from `src/backends/<name>/traits.cpp` or a plugin's text file. The
/// default flags describe an asynchronous device with indexed names.
struct Traits {
  /// Name for `DS_ACCELERATOR`, for example "cuda". Unique in the registry.
  std::string name;
  /// Name of DeepSpeed's accelerator class for this backend, for example "CUDA_Accelerator".
  std::string class_name;
  /// torch's device type, for example "cuda". A name that torch does not know selects PrivateUse1,
  /// which is renamed to that name.
  std::string device_type;
  std::string vendor;  ///< vendor of the devices; empty if it differs by device
  /// Default value of communication_backend_name().
  std::string communication_backend;
  /// Default value of get_compile_backend().
  std::string compile_backend = "inductor";
  /// Names that set_compile_backend() accepts. Empty: only the default.
  std::vector<std::string> compile_backends;

  /// is_synchronized_device(): calls return only after their work is complete.
  bool synchronized = false;
  bool use_host_timers = false;  ///< use_host_timers(): use the host clock instead of events
  /// resolves_data_dependency(): streams do not need explicit waits.
  bool resolves_data_dependency = false;
  /// handles_memory_backpressure(): allocations wait for memory.
  bool handles_memory_backpressure = false;
  bool indexed_names = true;  ///< device_name(1) is "name:1"; false: "name"
  /// supports_nvtx_domain(): range_push() uses domains and categories.
  bool supports_nvtx_domain = false;
  bool fp64 = true;     ///< is_fp64_supported(): the device supports float64
  bool triton = false;  ///< is_triton_supported(), if all devices have the same value

  /// Priority in detection: backends with higher values are probed first. A backend whose software
  /// stack imitates another backend's stack needs a higher value than that backend.
  int priority = 0;

  /// Environment variables that select devices. The first one is the default.
  std::vector<std::string> visible_devices_envs;
  /// Other variables that the vendor's library reads if none of `visible_devices_envs` is set. The
  /// launcher reads them, and sets only `visible_devices_envs`.
  std::vector<std::string> visible_devices_aliases = {};
  /// Prefixes of the environment variables that a launcher passes to other nodes.
  std::vector<std::string> export_envs;
  /// Variables to set once when the backend is chosen.
  std::vector<EnvironmentSetting> start_environment;
  /// Python package that contains the backend's op builders.
  std::string op_builder_dir;

  /// Counts devices within milliseconds and without torch. Does not create a context, so the
  /// process can still fork afterwards. The pointer is null if torch is needed to count the
  /// devices.
  Probe (*probe)() noexcept = nullptr;
};

}  // namespace anyaccel::sdk
