// The simulated accelerator: devices without hardware, with memory that the host cannot access, one
// worker thread per stream, and injected faults. `DS_ACCELERATOR=sim` starts it with the SIM_*
// environment variables; a program starts it with install().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::sim {

/// Options of the simulator. Each member corresponds to an environment variable, whose syntax
/// docs/reference/environment.md describes.
struct Options {
  int devices = 2;  ///< SIM_DEVICES: number of devices, 1 to 16
  /// SIM_VISIBLE_DEVICES, or the variable of the replaced backend, such as CUDA_VISIBLE_DEVICES:
  /// the devices that this process sees, in this order. Unset: all. Empty: none.
  std::optional<std::vector<int>> visible = {};
  std::int64_t memory = 8LL << 30;  ///< SIM_MEMORY: bytes of each device
  /// SIM_DTYPES: names of the supported dtypes. Empty: all.
  std::vector<std::string> dtypes = {};
  double latency_us = 0;  ///< SIM_LATENCY: minimum launch time of a kernel in microseconds
  /// SIM_STANDS_IN_FOR: backend or device type that the simulator replaces. Empty: none.
  std::string stands_in_for = {};
  std::uint64_t seed = 0;   ///< SIM_SEED: seed for faults that occur with a probability
  std::string faults = {};  ///< SIM_FAULTS: which faults to inject, and when
  /// SIM_CHECK: "report" or "abort" enables the checker, which detects incorrect use of devices.
  /// Empty: the value of the environment variable, otherwise off.
  std::string check = {};
  /// SIM_CHECK_JSON: file for the problems that the checker finds. `%p` becomes the process id.
  std::string check_json = {};
};

/// Read the SIM_* variables. Throws `invalid_argument` with the variable's name, its value and the
/// accepted values.
ANYACCEL_API Options options_from_environment();

/// Register the simulated device with torch, as PrivateUse1 with the name "sim" or as the device
/// type that it replaces. Call it before anything uses that device type, because torch keeps the
/// implementation that it finds first.
///
/// Takes effect once per process; a second call with the same options is a no-op. Throws
/// `invalid_state` if the device was installed with different options, `invalid_argument` for
/// options out of range, and `unavailable` if torch already has the device type or the system does
/// not provide the memory. Thread-safe.
ANYACCEL_API void install(const Options& options);

/// Incorrect use of a device that the checker found. docs/reference/checking.md explains each kind.
struct Problem {
  /// One of "host_access", "wrong_device", "not_synchronized", "unordered_streams", "freed_in_use",
  /// "memory_limit" and "other_accelerator".
  std::string kind;
  std::string op;       ///< the op, for example "aten::mm"; "host code" outside of ops
  std::string stream;   ///< the stream, for example "stream 3 of sim:0"; empty if none is involved
  std::string shape;    ///< dtype and shape, for example "float32 [8, 64]"
  std::string message;  ///< the complete message, as printed
};

/// Return the problems found so far, without duplicates. Empty without the checker. Thread-safe.
ANYACCEL_API std::vector<Problem> problems();

/// Return the out-of-memory errors from which the program has recovered so far. Thread-safe.
ANYACCEL_API std::vector<Problem> notes();

/// Return whether install() has succeeded in this process. Thread-safe.
ANYACCEL_API bool installed() noexcept;

}  // namespace anyaccel::sim
