// Fault injection. SIM_FAULTS is a comma-separated list of `KIND[=VALUE]WHEN[/DEVICE]`. WHEN is @N
// (only the N-th call), @N+ (the N-th call and all later ones) or %P (with probability P,
// reproducible for a given seed). Examples:
// - alloc@3 or oom@3: the third allocation fails
// - kernel@10: the tenth launched kernel fails
// - kernel=mm@2: the second launch of aten::mm fails
// - lost@100: the device is lost at its hundredth launch
// - slow=20ms@5: the fifth launch takes 20 ms longer
// - slow=1ms%0.1/1: one in ten launches on device 1 takes 1 ms longer
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anyaccel::backends::sim {

enum class FaultKind { alloc, kernel, lost, slow };

struct Fault {
  FaultKind kind = FaultKind::alloc;
  /// kernel: only this op, by its name without "aten::", with or without the overload name. Empty:
  /// any op.
  std::string op = {};
  double delay_us = 0;   ///< slow: additional time
  std::uint64_t at = 0;  ///< one-based number of the call; 0: use `probability`
  bool onwards = false;  ///< also all later calls
  double probability = 0;
  int device = -1;  ///< -1: every device, each with its own count
};

/// Throws `invalid_argument` with the grammar if `text` is malformed.
std::vector<Fault> parse_faults(const std::string& text);

/// Parses "20us" as 20. Throws `invalid_argument` naming `where`.
double read_microseconds(const char* where, const std::string& text);

/// Faults that apply to one launch.
struct LaunchFault {
  bool fails = false;
  bool lost = false;
  double delay_us = 0;
};

/// Counts the calls on one device and decides which of them fail. Thread-safe.
class FaultCounter {
 public:
  FaultCounter(const std::vector<Fault>& faults, int device, std::uint64_t seed);
  bool any() const noexcept { return !watched_.empty(); }
  /// True if this allocation fails.
  bool allocation();
  LaunchFault launch(const char* op);

 private:
  struct Watched {
    explicit Watched(Fault f) : fault(std::move(f)) {}
    Fault fault;
    std::atomic<std::uint64_t> count{0};
  };
  bool happens(Watched& watched);

  std::vector<std::unique_ptr<Watched>> watched_;
  std::uint64_t seed_;
};

}  // namespace anyaccel::backends::sim
