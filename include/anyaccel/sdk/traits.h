// Traits: what a backend says about itself as data. Needs no torch, so the launcher can read it.
#pragma once

#include <string>
#include <vector>

namespace anyaccel::sdk {

/// The answer of a cheap look for devices.
struct Probe {
  int device_count = 0;  ///< devices that this process may use; 0 when none
  std::string reason;    ///< one sentence: where the count comes from, or why it is 0
};

/// A variable that a backend sets when it is chosen, unless the user has set it already.
struct EnvironmentSetting {
  std::string name;
  std::string value;
  std::string reason;  ///< why; `anyaccel report` prints it
};

/// Data of one backend. Filled by `src/backends/<name>/traits.cpp` or by a plugin's text file.
/// Flags default to an asynchronous device with indexed names.
struct Traits {
  std::string name;  ///< what `DS_ACCELERATOR` says, for example "cuda"; unique in the registry
  std::string class_name;   ///< DeepSpeed's class for it, for example "CUDA_Accelerator"
  std::string device_type;  ///< torch's device type, for example "cuda"; another name than torch's
                            ///< own types means PrivateUse1 renamed to it
  std::string vendor;       ///< maker of the devices; "" when it differs by device
  std::string communication_backend;         ///< default of communication_backend_name()
  std::string compile_backend = "inductor";  ///< default of get_compile_backend()
  std::vector<std::string>
      compile_backends;  ///< what set_compile_backend() accepts; empty: only the default

  bool synchronized = false;     ///< is_synchronized_device(): work is done when the call returns
  bool use_host_timers = false;  ///< use_host_timers(): time with host clocks, not events
  bool resolves_data_dependency =
      false;  ///< resolves_data_dependency(): streams need no explicit waits
  bool handles_memory_backpressure =
      false;                  ///< handles_memory_backpressure(): allocation waits for memory
  bool indexed_names = true;  ///< device_name(1) is "name:1"; false: "name"
  bool supports_nvtx_domain = false;  ///< range_push() knows domains and categories
  bool fp64 = true;                   ///< is_fp64_supported()
  bool triton = false;                ///< is_triton_supported(), where it does not differ by device

  /// Place in detection: higher is asked first. A stack that imitates another one stands above it.
  int priority = 0;

  std::vector<std::string>
      visible_devices_envs;  ///< variables that select devices, first one is the default
  std::vector<std::string> export_envs;  ///< variable prefixes that a launcher passes on
  std::vector<EnvironmentSetting> start_environment;  ///< set once when the backend is chosen
  std::string op_builder_dir;                         ///< Python package of its op builders

  /// Looks for devices without torch: no context, no fork poisoning, milliseconds. Optional:
  /// null means that only torch can tell.
  Probe (*probe)() noexcept = nullptr;
};

}  // namespace anyaccel::sdk
