// Faults that are injected on request. SIM_FAULTS is a list of `KIND[=VALUE]WHEN[/DEVICE]`,
// separated by commas:
//   alloc@3         the third allocation fails          kernel@10   the tenth launched kernel fails
//   kernel=mm@2     the second launch of aten::mm fails  lost@100   the device is lost at its
//   hundredth launch slow=20ms@5     the fifth launch takes 20 ms longer  slow=1ms%0.1/1   each
//   launch on device 1, one in ten
// WHEN is @N (once), @N+ (from the N-th on) or %P (with probability P, decided by the seed).
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
  std::string op = {};   ///< kernel: only this op, by its name without "aten::", with or without
                         ///< overload; empty: any
  double delay_us = 0;   ///< slow: how much longer
  std::uint64_t at = 0;  ///< the N-th, from 1; 0: by probability
  bool onwards = false;  ///< and all after it
  double probability = 0;
  int device = -1;  ///< -1: each device, counted apart
};

/// Throws `invalid_argument` with the grammar.
std::vector<Fault> parse_faults(const std::string& text);

/// "20us" as 20. Throws `invalid_argument` naming `where`.
double read_microseconds(const char* where, const std::string& text);

/// What happens to one launch.
struct LaunchFault {
  bool fails = false;
  bool lost = false;
  double delay_us = 0;
};

/// Counts calls of one device and says which of them go wrong. Thread-safe.
class FaultCounter {
 public:
  FaultCounter(const std::vector<Fault>& faults, int device, std::uint64_t seed);
  bool any() const noexcept { return !watched_.empty(); }
  /// True when this allocation fails.
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
