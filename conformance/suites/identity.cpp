// Suite "identity": the accelerator's names, traits, execution model and detection.
#include <algorithm>
#include <cctype>

#include "support.h"

namespace anyaccel::conformance {

ANYACCEL_CONFORMANCE_CASE(identity, name_is_set, required) {
  const auto& name = accelerator.name();
  expect(!name.empty(), "the accelerator has no name");
  const bool plain =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return std::isspace(c) != 0; });
  expect(plain, "the name '" + name + "' contains whitespace, so DS_ACCELERATOR cannot name it");
}

ANYACCEL_CONFORMANCE_CASE(identity, name_is_registered, recommended) {
  const auto names = registered_backends();
  expect(std::find(names.begin(), names.end(), accelerator.name()) != names.end(),
         "'" + accelerator.name() + "' is not in the registry, so DS_ACCELERATOR cannot select it");
}

ANYACCEL_CONFORMANCE_CASE(identity, class_name_is_set, required) {
  expect(!accelerator.backend().traits().class_name.empty(), "the traits have no class_name");
}

ANYACCEL_CONFORMANCE_CASE(identity, device_name_is_a_torch_device, required) {
  const c10::Device device(accelerator.device_name());
  expect_equal(device.type(), accelerator.device_type(), "the device type of device_name()");
}

ANYACCEL_CONFORMANCE_CASE(identity, device_name_with_index_is_a_torch_device, required) {
  const bool indexed = accelerator.backend().traits().indexed_names;
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto guard = accelerator.device(i);
    const c10::Device device(accelerator.device_name(i));
    const auto tensor = filled(accelerator, 2).to(device).add(1);
    expect_equal(first(tensor), 3.0, "arithmetic on '" + accelerator.device_name(i) + "'");
    expect_equal(tensor.device().type(), accelerator.device_type(),
                 "the device type of a tensor on '" + accelerator.device_name(i) + "'");
    if (indexed)
      expect_equal(static_cast<int>(tensor.device().index()), i,
                   "the device index of a tensor on '" + accelerator.device_name(i) + "'");
  }
}

ANYACCEL_CONFORMANCE_CASE(identity, current_device_name_is_a_torch_device, required) {
  const DeviceScope scope(accelerator);
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    accelerator.set_device(i);
    expect_equal(accelerator.current_device_name(), accelerator.device_name(i),
                 "current_device_name()");
    expect_equal(c10::Device(accelerator.current_device_name()), accelerator.torch_device(),
                 "torch_device()");
  }
}

ANYACCEL_CONFORMANCE_CASE(identity, tensors_are_on_the_accelerator, required) {
  expect(accelerator.on_accelerator(filled(accelerator, 1)),
         "on_accelerator() is false for a tensor on torch_device()");
  expect(!accelerator.on_accelerator(at::Tensor()),
         "on_accelerator() is true for an undefined tensor");
}

ANYACCEL_CONFORMANCE_CASE(identity, host_tensors_are_not_on_the_accelerator, required) {
  need_own_memory(accelerator);
  expect(!accelerator.on_accelerator(host_sequence(2)),
         "on_accelerator() is true for a host tensor");
}

ANYACCEL_CONFORMANCE_CASE(identity, device_runs_after_first_use, required) {
  filled(accelerator, 1).add_(1);
  accelerator.synchronize();
  expect(accelerator.backend().is_initialized(),
         "is_initialized() is false although the device has been used");
}

ANYACCEL_CONFORMANCE_CASE(identity, lazy_call_runs_at_once_on_a_running_device, required) {
  accelerator.synchronize();
  filled(accelerator, 1).add_(1);
  int calls = 0;
  accelerator.lazy_call([&] { ++calls; });
  expect_equal(calls, 1, "calls of a callback passed to a running device");
}

ANYACCEL_CONFORMANCE_CASE(identity, lazy_call_runs_once_at_first_use, required, true) {
  int calls = 0;
  accelerator.lazy_call([&] { ++calls; });
  accelerator.set_device(0);
  filled(accelerator, 1).add_(1);
  accelerator.synchronize();
  accelerator.synchronize();
  expect_equal(calls, 1, "calls of a callback passed before the first use");
}

ANYACCEL_CONFORMANCE_CASE(identity, empty_lazy_call_is_refused, required) {
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.lazy_call(nullptr); }, "an empty callback");
}

ANYACCEL_CONFORMANCE_CASE(identity, synchronized_work_is_done_at_return, required) {
  if (!accelerator.is_synchronized_device()) skip("the accelerator is asynchronous");
  if (standing_in()) skip(kNotImitated);
  queue_work(accelerator, 30);
  expect(accelerator.current_stream().query(),
         "is_synchronized_device() is true, but work is pending after the call");
}

ANYACCEL_CONFORMANCE_CASE(identity, asynchronous_work_runs_beside_the_host, recommended) {
  need_asynchronous(accelerator);
  queue_work(accelerator, 100);
  const bool pending = !accelerator.current_stream().query();
  accelerator.synchronize();
  expect(
      pending,
      "is_synchronized_device() is false, but 100 ms of matrix products (aten::mm.out in float32) "
      "had completed when the calls returned. Check whether a fallback runs aten::mm.out on the "
      "host.");
}

ANYACCEL_CONFORMANCE_CASE(identity, timers_work, required) {
  if (accelerator.use_host_timers()) skip("the accelerator uses host timers");
  auto begin = accelerator.Event(true), end = accelerator.Event(true);
  begin.record();
  begin.synchronize();
  sleep_ms(5);
  end.record();
  end.synchronize();
  expect(begin.elapsed_time(end) > 0, "use_host_timers() is false, but events do not measure time");
}

ANYACCEL_CONFORMANCE_CASE(identity, communication_backend_is_named, required) {
  expect(!accelerator.communication_backend_name().empty(),
         "communication_backend_name() is empty");
}

ANYACCEL_CONFORMANCE_CASE(identity, compile_backend_is_named, required) {
  expect(!accelerator.get_compile_backend().empty(), "get_compile_backend() is empty");
}

ANYACCEL_CONFORMANCE_CASE(identity, compile_backends_can_be_chosen, required) {
  const auto before = accelerator.get_compile_backend();
  for (const auto& name : accelerator.backend().traits().compile_backends) {
    accelerator.set_compile_backend(name);
    expect_equal(accelerator.get_compile_backend(), name, "get_compile_backend() after setting");
  }
  accelerator.set_compile_backend(before);
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.set_compile_backend("no such backend"); },
      "an unknown compile backend");
  expect_equal(accelerator.get_compile_backend(), before,
               "get_compile_backend() after a rejected name");
}

ANYACCEL_CONFORMANCE_CASE(identity, probe_agrees_with_device_count, required) {
  const auto& traits = accelerator.backend().traits();
  if (traits.probe == nullptr)
    skip("the traits have no probe_ keys, so only the library counts devices");
  if (standing_in()) skip("the probe looks for hardware, but the device is simulated");
  const auto probe = traits.probe();
  // A probe may count boards even if torch counts each board as several devices.
  expect_equal(probe.device_count > 0, accelerator.device_count() > 0,
               "whether the probe finds devices");
  expect(!probe.reason.empty(), "the probe gives no reason");
}

ANYACCEL_CONFORMANCE_CASE(identity, host_is_asked_after_devices, required) {
  if (!on_host(accelerator)) skip("the case applies only to the host");
  const auto priority = accelerator.backend().traits().priority;
  expect(priority <= -1000,
         "the host would take precedence over devices in detection: its priority is " +
             std::to_string(priority) + ", devices have 0 or above");
}

ANYACCEL_CONFORMANCE_CASE(identity, detection_says_why, required) {
  const auto found = detection();
  expect_equal(found.accelerator, accelerator.name(), "detection().accelerator");
  expect(!found.reason.empty(), "detection() gives no reason");
}

ANYACCEL_CONFORMANCE_CASE(identity, capability_questions_answer, required) {
  accelerator.is_triton_supported();
  accelerator.prefer_triton_grouped_mm();
  accelerator.is_bf16_supported();
  accelerator.is_fp16_supported();
  accelerator.is_fp64_supported();
  expect(accelerator.is_available(), "is_available() is false although the accelerator runs");
}

}  // namespace anyaccel::conformance
