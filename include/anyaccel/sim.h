// The simulated accelerator: devices without hardware, with memory that the host cannot touch, a
// worker thread per stream, and faults on request. `DS_ACCELERATOR=sim` starts it with the SIM_*
// variables; a program starts it here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::sim {

/// What is simulated. Each member is also a variable of the environment:
/// docs/reference/environment.md has their grammar.
struct Options {
  int devices = 2;                  ///< SIM_DEVICES: 1 to 16
  std::int64_t memory = 8LL << 30;  ///< SIM_MEMORY: bytes of each device
  std::vector<std::string> dtypes =
      {};                 ///< SIM_DTYPES: the only types that tensors may have, by name; empty: all
  double latency_us = 0;  ///< SIM_LATENCY: microseconds that each kernel takes at least to start
  std::string stands_in_for =
      {};  ///< SIM_STANDS_IN_FOR: a backend or device type whose place it takes; empty: none
  std::uint64_t seed = 0;   ///< SIM_SEED: decides faults that are given by probability
  std::string faults = {};  ///< SIM_FAULTS: what goes wrong, and when
  std::string check = {};   ///< SIM_CHECK: "report" or "abort" watches for wrong use of devices;
                            ///< empty: what the variable says, else off
  std::string check_json =
      {};  ///< SIM_CHECK_JSON: a file that gets the problems; "%p" is the process's number
};

/// Reads the SIM_* variables. Throws `invalid_argument` naming the variable, what it holds and what
/// it may hold.
ANYACCEL_API Options options_from_environment();

/// Registers the simulated device with torch, as PrivateUse1 named "sim" or as what it stands in
/// for. Happens once in a process: `invalid_state` when it was installed with other options,
/// nothing when with the same. `invalid_argument` for options out of range, `unavailable` when
/// torch has the device type already or the system refuses the memory. Call it before anything uses
/// that device type: torch keeps what it found first. Thread-safe.
ANYACCEL_API void install(const Options& options);

/// One misuse of a device that the checker found; docs/reference/checking.md explains each kind.
struct Problem {
  std::string kind;     ///< "host_access", "wrong_device", "not_synchronized", "unordered_streams",
                        ///< "freed_in_use", "memory_limit", "other_accelerator"
  std::string op;       ///< "aten::mm"; "host code" outside of ops
  std::string stream;   ///< "stream 3 of sim:0"; empty where none takes part
  std::string shape;    ///< "float32 [8, 64]"
  std::string message;  ///< all of it, as printed
};

/// Problems found so far, without repetitions; empty without a checker. Thread-safe.
ANYACCEL_API std::vector<Problem> problems();

/// Errors that the program has handled so far: out-of-memory errors after which it continued.
/// Thread-safe.
ANYACCEL_API std::vector<Problem> notes();

/// True once install() has succeeded in this process. Thread-safe.
ANYACCEL_API bool installed() noexcept;

}  // namespace anyaccel::sim
