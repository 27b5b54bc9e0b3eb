// The simulated accelerator: devices without hardware, with memory that the host cannot access, one
// worker thread per stream, and injected faults. Select it with `DS_ACCELERATOR=sim`, which reads
// the SIM_* environment variables, or call install() from a program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::sim {

/// Simulator options. Each member corresponds to an environment variable, whose syntax
/// docs/reference/environment.md describes.
struct Options {
  int devices = 2;  ///< SIM_DEVICES: number of devices, 1 to 16
  /// SIM_VISIBLE_DEVICES, or the variable of the replaced backend, such as CUDA_VISIBLE_DEVICES:
  /// the devices that this process sees, in this order. Unset: all. Empty: none.
  std::optional<std::vector<int>> visible = {};
  std::int64_t memory = 8LL << 30;  ///< SIM_MEMORY: memory per device in bytes
  /// SIM_DTYPES: names of the supported dtypes. Empty: all.
  std::vector<std::string> dtypes = {};
  double latency_us = 0;  ///< SIM_LATENCY: delay before each kernel starts, in microseconds
  /// SIM_STANDS_IN_FOR: backend or device type that the simulator replaces. Empty: none.
  std::string stands_in_for = {};
  std::uint64_t seed = 0;   ///< SIM_SEED: seed for random faults
  std::string faults = {};  ///< SIM_FAULTS: which faults to inject, and when
  /// SIM_CHECK: "report" or "abort" enables the checker, which detects incorrect use of devices. If
  /// empty, the environment variable applies; if that is unset too, the checker is off.
  std::string check = {};
  /// SIM_CHECK_JSON: file to which the checker writes the problems. `%p` becomes the PID.
  std::string check_json = {};
};

/// Read the SIM_* variables. Throws `invalid_argument` with the variable's name, its value and the
/// accepted values.
ANYACCEL_API Options options_from_environment();

/// Set the option that corresponds to a SIM_* variable, from text in the variable's syntax. Throws
/// `invalid_argument` for an unknown variable or an invalid value, except for SIM_FAULTS, whose
/// value install() and reset() check.
ANYACCEL_API void set_option(Options& options, const std::string& variable,
                             const std::string& value);

/// Register the simulated device with torch, as PrivateUse1 with the name "sim" or as the device
/// type that it replaces. Call it before anything uses that device type, because torch keeps the
/// first implementation that it finds.
///
/// Takes effect once per process; a second call with the same options is a no-op. Throws
/// `invalid_state` if the device was installed with different options, `invalid_argument` for
/// out-of-range options, and `unavailable` if torch already has the device type or the system
/// cannot provide the memory. Thread-safe.
ANYACCEL_API void install(const Options& options);

/// Reset every device to the state of a new device with these options: wait for all streams,
/// discard stored errors and recover lost devices, empty the allocator's cache, reset memory
/// statistics, seeds, the current device and the current streams, and discard the problems found so
/// far. Each test in a process can therefore start with a fresh device.
///
/// `options` may differ from those of install() in `memory` (which may only be smaller), `dtypes`,
/// `latency_us`, `seed` and `faults`; an empty `check`, `check_json` or `visible` means no change.
/// Existing tensors stay valid and keep their memory.
///
/// No other thread may use the devices during the call. Throws `invalid_state` if the simulator is
/// not installed or a graph is being captured, and `invalid_argument` for invalid options or
/// options that cannot change.
ANYACCEL_API void reset(const Options& options);

/// Incorrect use of a device that the checker found. docs/reference/checking.md explains each kind.
struct Problem {
  /// One of "host_access", "wrong_device", "not_synchronized", "unordered_streams", "freed_in_use",
  /// "memory_limit", "unordered_threads", "uninitialized", "leak", "other_accelerator" and
  /// "out_of_bounds".
  std::string kind;
  std::string op;       ///< the op, for example "aten::mm"; "host code" outside of ops
  std::string stream;   ///< the stream, for example "stream 3 of sim:0"; empty if none is involved
  std::string shape;    ///< dtype and shape, for example "float32 [8, 64]"
  std::string message;  ///< the complete message, as printed
  std::string what = {};                ///< one sentence: what the program did
  std::string remedy = {};              ///< how to fix it
  std::vector<std::string> stack = {};  ///< the launching thread's stack, innermost call first
};

/// Return the problems found so far, without duplicates. Returns an empty list if the checker is
/// off. Thread-safe.
ANYACCEL_API std::vector<Problem> problems();

/// Return what the checker found that is not a problem: out-of-memory errors from which the program
/// has recovered, rejected calls and unseeded devices. Thread-safe.
ANYACCEL_API std::vector<Problem> notes();

/// Return whether install() has succeeded in this process. Thread-safe.
ANYACCEL_API bool installed() noexcept;

}  // namespace anyaccel::sim
