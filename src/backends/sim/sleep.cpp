// The op anyaccel_sim::sleep, which torch.cuda._sleep() uses to delay a stream.
#include <chrono>
#include <thread>

#include "backends/sim/device.h"
#include "backends/sim/kernels.h"
#include "backends/sim/register.h"

namespace anyaccel::backends::sim {

namespace {

/// Clock rate of a simulated device, close to that of a GPU. Programs that call _sleep() assume
/// about two cycles per nanosecond.
constexpr std::int64_t kCyclesPerNanosecond = 2;

/// Queues a kernel that occupies the device's current stream for this number of cycles.
void sleep(std::int64_t device, std::int64_t cycles) {
  TORCH_CHECK(cycles >= 0, "_sleep: the number of cycles must not be negative (got ", cycles, ")");
  const std::chrono::nanoseconds time(cycles / kCyclesPerNanosecond);
  launch_function(current_stream(static_cast<int>(device)), "sleep", {},
                  [time] { std::this_thread::sleep_for(time); });
}

}  // namespace

void register_sleep() {
  // Never destroyed, because that would unregister the op.
  static auto& library = *new torch::Library(torch::Library::FRAGMENT, "anyaccel_sim", std::nullopt,
                                             __FILE__, static_cast<std::uint32_t>(__LINE__));
  library.def("sleep(int device, int cycles) -> ()", &sleep);
}

}  // namespace anyaccel::backends::sim
