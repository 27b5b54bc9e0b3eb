// Suite "streams": the current stream, new streams, and the order of work.
#include "support.h"

namespace anyaccel::conformance {

namespace {

class StreamScope {
 public:
  explicit StreamScope(Accelerator& accelerator)
      : accelerator_(accelerator), stream_(accelerator.current_stream()) {}
  ~StreamScope() {
    try {
      accelerator_.set_stream(stream_);
    } catch (...) {  // the case has already failed for this reason
    }
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Accelerator& accelerator_;
  Stream stream_;
};

Stream new_stream(Accelerator& accelerator, std::optional<DeviceIndex> index = std::nullopt) {
  return feature([&] { return accelerator.Stream(index); });
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(streams, a_thread_starts_on_the_default_stream, required) {
  on_thread([&] {
    for (DeviceIndex i = 0; i < accelerator.device_count(); ++i)
      expect(accelerator.current_stream(i) == accelerator.default_stream(i),
             "a new thread does not start on the default stream");
  });
}

ANYACCEL_CONFORMANCE_CASE(streams, current_stream_follows_set_stream, required) {
  const StreamScope scope(accelerator);
  const auto a = new_stream(accelerator), b = new_stream(accelerator);
  for (const auto& stream : {a, b, a}) {
    accelerator.set_stream(stream);
    expect(accelerator.current_stream() == stream,
           "current_stream() is not the stream passed to set_stream()");
  }
}

ANYACCEL_CONFORMANCE_CASE(streams, default_stream_stays, required) {
  const auto before = accelerator.default_stream();
  const auto guard = accelerator.stream(new_stream(accelerator));
  expect(accelerator.default_stream() == before,
         "default_stream() changes with the current stream");
}

ANYACCEL_CONFORMANCE_CASE(streams, new_stream_is_not_the_default, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i)
    expect(!(new_stream(accelerator, i) == accelerator.default_stream(i)),
           "Stream() returns the default stream");
}

ANYACCEL_CONFORMANCE_CASE(streams, new_streams_differ, required) {
  const auto a = new_stream(accelerator), b = new_stream(accelerator);
  expect(!(a == b), "Stream() returns the same stream twice");
}

ANYACCEL_CONFORMANCE_CASE(streams, new_stream_is_on_its_device, required) {
  const auto before = accelerator.current_device();
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto stream = new_stream(accelerator, i);
    expect_equal(stream.device_index(), i, "the device of Stream(" + std::to_string(i) + ")");
    expect_equal(stream.unwrap().device_type(), accelerator.device_type(),
                 "the device type of a new stream");
    expect_equal(accelerator.current_device(), before, "the current device after Stream()");
  }
}

ANYACCEL_CONFORMANCE_CASE(streams, new_stream_does_not_become_current, required) {
  const auto before = accelerator.current_stream();
  new_stream(accelerator);
  expect(accelerator.current_stream() == before, "Stream() changes the current stream");
}

ANYACCEL_CONFORMANCE_CASE(streams, guard_restores_the_stream, required) {
  const auto before = accelerator.current_stream();
  const auto a = new_stream(accelerator), b = new_stream(accelerator);
  {
    const auto outer = accelerator.stream(a);
    { const auto inner = accelerator.stream(b); }
    expect(accelerator.current_stream() == a, "an inner guard did not restore the stream");
  }
  expect(accelerator.current_stream() == before, "the guard did not restore the stream");
}

ANYACCEL_CONFORMANCE_CASE(streams, guard_restores_after_an_exception, required) {
  const auto before = accelerator.current_stream();
  try {
    const auto guard = accelerator.stream(new_stream(accelerator));
    throw Failure("thrown by the case");
  } catch (const Failure&) {  // expected
  }
  expect(accelerator.current_stream() == before,
         "the guard did not restore the stream after an exception");
}

ANYACCEL_CONFORMANCE_CASE(streams, guard_makes_the_streams_device_current, required) {
  need_devices(accelerator, 2);
  const DeviceScope scope(accelerator);
  accelerator.set_device(0);
  {
    const auto guard = accelerator.stream(new_stream(accelerator, 1));
    expect_equal(accelerator.current_device(), 1,
                 "the device under a guard for a stream on device 1");
  }
  expect_equal(accelerator.current_device(), 0, "the device after the guard");
}

ANYACCEL_CONFORMANCE_CASE(streams, each_device_has_its_own_current_stream, required) {
  need_devices(accelerator, 2);
  const auto first_before = accelerator.current_stream(0);
  {
    const auto guard = accelerator.stream(new_stream(accelerator, 1));
    expect(accelerator.current_stream(0) == first_before,
           "setting a stream of device 1 changes device 0's current stream");
  }
  const DeviceScope scope(accelerator);
  const auto side = new_stream(accelerator, 0);
  const auto guard = accelerator.stream(side);
  const auto inner = accelerator.stream(new_stream(accelerator, 1));
  expect(accelerator.current_stream(0) == side,
         "setting a stream of device 1 replaces device 0's side stream");
}

ANYACCEL_CONFORMANCE_CASE(streams, priorities_are_accepted, optional) {
  for (const int priority : {-1, 0}) {
    const auto stream = accelerator.Stream(std::nullopt, priority);
    const auto guard = accelerator.stream(stream);
    expect_equal(first(filled(accelerator, 2).mul(3)), 6.0,
                 "work in a stream of priority " + std::to_string(priority));
  }
}

ANYACCEL_CONFORMANCE_CASE(streams, stream_with_a_priority_is_not_the_default, recommended) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto urgent = feature([&] { return accelerator.Stream(i, -1); });
    expect(!(urgent == accelerator.default_stream(i)),
           "Stream() with priority -1 returns the default stream");
    expect_equal(urgent.device_index(), i, "the device of a stream with a priority");
  }
}

ANYACCEL_CONFORMANCE_CASE(streams, stream_of_another_device_type_is_refused, required) {
  const Stream other(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kMeta, 0), 0), 0);
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.set_stream(other); },
      "a stream of a different device type");
}

ANYACCEL_CONFORMANCE_CASE(streams, idle_stream_is_done, required) {
  const auto stream = new_stream(accelerator);
  expect(stream.query(), "a new stream has pending work");
  stream.synchronize();
  accelerator.synchronize();
  expect(accelerator.current_stream().query(),
         "the current stream has pending work after synchronize()");
}

ANYACCEL_CONFORMANCE_CASE(streams, synchronize_waits_for_its_work, required) {
  need_asynchronous(accelerator);
  const auto stream = new_stream(accelerator);
  {
    const auto guard = accelerator.stream(stream);
    queue_work(accelerator, 60);
  }
  stream.synchronize();
  expect(stream.query(), "work is pending after Stream::synchronize()");
}

ANYACCEL_CONFORMANCE_CASE(streams, work_in_a_stream_is_in_order, required) {
  const auto stream = new_stream(accelerator);
  double result = 0;
  {
    const auto guard = accelerator.stream(stream);
    auto x = filled(accelerator, 1, 1000);
    for (int i = 0; i < 20; ++i) x.mul_(2).sub_(1).add_(1);
    stream.synchronize();
    result = first(x);
  }
  expect_equal(result, 1048576.0, "twenty doublings on a stream");
}

ANYACCEL_CONFORMANCE_CASE(streams, wait_stream_orders_streams, required) {
  need_asynchronous(accelerator);
  const double got = copied_in_another_stream(
      accelerator, [](const Stream& from, const Stream& to) { to.wait_stream(from); });
  expect_equal(got, 1.0, "the value that a stream read after wait_stream()");
}

ANYACCEL_CONFORMANCE_CASE(streams, dependencies_are_resolved_where_claimed, required) {
  need_asynchronous(accelerator);
  if (!accelerator.resolves_data_dependency()) skip("streams require explicit waits");
  if (standing_in()) skip(kNotImitated);
  const double got = copied_in_another_stream(accelerator, [](const Stream&, const Stream&) {});
  expect_equal(
      got, 1.0,
      "the value that a stream read without a wait, although resolves_data_dependency() is true");
}

ANYACCEL_CONFORMANCE_CASE(streams, record_stream_keeps_memory, recommended) {
  need_asynchronous(accelerator);
  need_own_memory(accelerator);
  const auto side = new_stream(accelerator);
  auto sum = filled(accelerator, 0, 1 << 16);
  accelerator.synchronize();
  {
    const auto x = filled(accelerator, 1, 1 << 16);
    side.wait_stream(accelerator.current_stream());
    const auto guard = accelerator.stream(side);
    queue_work(accelerator, 60);
    sum.add_(x);
    x.record_stream(side.unwrap());
  }
  // If the allocator wrongly considers x free, this tensor reuses the memory of x.
  const auto other = filled(accelerator, 1000, 1 << 16);
  accelerator.synchronize();
  const auto sums = values(sum);
  for (const double value : sums)
    expect_equal(value, 1.0, "a sum over a tensor that was freed while a stream used it");
}

ANYACCEL_CONFORMANCE_CASE(streams, native_handle_or_a_refusal, optional) {
  // The call may succeed or be unsupported. It must not crash or throw any other exception.
  feature([&] { return accelerator.current_stream().native_handle(); });
}

}  // namespace anyaccel::conformance
