// Times the AnyAccel calls that programs make in inner loops, and the underlying c10 calls.
#include <c10/core/impl/VirtualGuardImpl.h>

#include "anyaccel/anyaccel.h"
#include "timing.h"

int main() {
  using benchmarks::keep;
  using benchmarks::nanoseconds;
  anyaccel::Accelerator& accelerator = anyaccel::get_accelerator();
  const c10::impl::VirtualGuardImpl guard(accelerator.device_type());
  anyaccel::Event event = accelerator.Event(/*enable_timing=*/true);
  const anyaccel::Stream stream = accelerator.current_stream();
  benchmarks::Numbers numbers;
  numbers.add("get_accelerator_ns", nanoseconds([] { keep(&anyaccel::get_accelerator()); }));
  numbers.add("bare_current_device_ns", nanoseconds([&] { keep(guard.getDevice().index()); }));
  numbers.add("current_device_ns", nanoseconds([&] { keep(accelerator.current_device()); }));
  numbers.add("device_name_ns", nanoseconds([&] { keep(accelerator.device_name().size()); }));
  numbers.add("memory_allocated_ns", nanoseconds([&] { keep(accelerator.memory_allocated()); }));
  numbers.add("bare_clock_ns", nanoseconds([] { keep(std::chrono::steady_clock::now()); }));
  numbers.add("event_record_ns", nanoseconds([&] { event.record(stream); }));
  numbers.print();
}
