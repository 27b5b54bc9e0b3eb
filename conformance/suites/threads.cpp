// Suite "threads": per-thread state, and concurrent use.
#include <atomic>

#include "support.h"

namespace anyaccel::conformance {

ANYACCEL_CONFORMANCE_CASE(threads, accelerator_is_one_object, required) {
  on_threads(4, [&](int) {
    expect(&get_accelerator() == &accelerator, "get_accelerator() differs between threads");
  });
}

ANYACCEL_CONFORMANCE_CASE(threads, device_is_each_threads_own, required) {
  need_devices(accelerator, 2);
  const DeviceScope scope(accelerator);
  accelerator.set_device(0);
  on_thread([&] {
    accelerator.set_device(1);
    expect_equal(accelerator.current_device(), 1, "the thread's own device");
  });
  expect_equal(accelerator.current_device(), 0,
               "the device of this thread after another thread selected device 1");
}

ANYACCEL_CONFORMANCE_CASE(threads, stream_is_each_threads_own, required) {
  const auto before = accelerator.current_stream();
  const auto stream = feature([&] { return accelerator.Stream(); });
  on_thread([&] {
    accelerator.set_stream(stream);
    expect(accelerator.current_stream() == stream,
           "the thread's stream is not the one that it set");
  });
  expect(accelerator.current_stream() == before,
         "another thread's set_stream() changed this thread's stream");
}

ANYACCEL_CONFORMANCE_CASE(threads, getters_answer_at_once_on_many, required) {
  const auto count = accelerator.device_count();
  on_threads(4, [&](int) {
    for (int i = 0; i < 50; ++i) {
      expect_equal(accelerator.device_count(), count, "device_count() on a thread");
      accelerator.current_device();
      accelerator.current_stream();
      accelerator.dtype_support(c10::kFloat);
      accelerator.device_name(0);
    }
    accelerator.device_properties(0);
  });
}

ANYACCEL_CONFORMANCE_CASE(threads, allocations_are_counted_right, required) {
  const auto before = allocated(accelerator);
  on_threads(4, [&](int) {
    for (int i = 0; i < 100; ++i) {
      const auto a = bytes_on(accelerator, 1000 + i * 37), b = bytes_on(accelerator, 100'000);
    }
    accelerator.synchronize();
  });
  accelerator.synchronize();
  expect_equal(allocated(accelerator), before,
               "memory_allocated() after four threads freed all their tensors");
}

ANYACCEL_CONFORMANCE_CASE(threads, each_computes_its_own_result, required) {
  on_threads(4, [&](int number) {
    auto x = filled(accelerator, number, 5000);
    for (int i = 0; i < 30; ++i) x = x.mul(2).sub(number);
    for (const double value : values(x))
      expect_equal(value, double(number), "2x - x, computed thirty times");
  });
}

ANYACCEL_CONFORMANCE_CASE(threads, each_computes_in_its_own_stream, required) {
  feature([&] { accelerator.Stream(); });
  on_threads(3, [&](int number) {
    const auto stream = accelerator.Stream();
    const auto guard = accelerator.stream(stream);
    auto x = filled(accelerator, 1, 3000);
    for (int i = 0; i < 20; ++i) x.add_(number);
    stream.synchronize();
    for (const double value : values(x))
      expect_equal(value, 1.0 + 20 * number, "a sum computed on a thread's stream");
  });
}

ANYACCEL_CONFORMANCE_CASE(threads, event_of_one_can_be_waited_for_on_another, required) {
  auto event = feature([&] { return accelerator.Event(); });
  const auto x = filled(accelerator, 1);
  queue_work(accelerator, 20);
  x.fill_(2);
  event.record();
  on_thread([&] {
    event.synchronize();
    expect(event.query(), "query() is false on another thread after synchronize()");
  });
  expect_equal(first(x), 2.0, "the value computed before the event");
}

ANYACCEL_CONFORMANCE_CASE(threads, random_numbers_can_be_drawn_on_many, required) {
  const RngGuard restored(accelerator);
  on_threads(4, [&](int) {
    for (int i = 0; i < 20; ++i)
      for (const double x : drawn(accelerator, 32))
        expect(x >= 0 && x < 1, "rand() on a thread gave " + std::to_string(x));
  });
}

}  // namespace anyaccel::conformance
