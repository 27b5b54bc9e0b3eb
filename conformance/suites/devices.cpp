// Suite "devices": count, current device, properties, synchronization and copies.
#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <set>

#include "support.h"

namespace anyaccel::conformance {

ANYACCEL_CONFORMANCE_CASE(devices, there_is_at_least_one, required) {
  expect(accelerator.device_count() > 0,
         "device_count() is 0 although the accelerator was selected");
  expect(accelerator.is_available(), "is_available() is false");
}

ANYACCEL_CONFORMANCE_CASE(devices, count_is_stable, required) {
  const auto count = accelerator.device_count();
  for (int i = 0; i < 5; ++i)
    expect_equal(accelerator.device_count(), count, "device_count() in a later call");
}

ANYACCEL_CONFORMANCE_CASE(devices, a_thread_starts_on_a_device_that_exists, required) {
  on_thread([&] {
    const auto device = accelerator.current_device();
    expect(device >= 0 && device < accelerator.device_count(),
           "a new thread's device is " + std::to_string(device) + ", which does not exist");
  });
}

ANYACCEL_CONFORMANCE_CASE(devices, current_device_follows_set_device, required) {
  const DeviceScope scope(accelerator);
  for (int round = 0; round < 2; ++round) {
    for (DeviceIndex i = accelerator.device_count() - 1; i >= 0; --i) {
      accelerator.set_device(i);
      expect_equal(accelerator.current_device(), i, "current_device() after set_device()");
    }
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, guard_restores_the_device, required) {
  const DeviceScope scope(accelerator);
  const auto last = accelerator.device_count() - 1;
  accelerator.set_device(0);
  {
    const auto guard = accelerator.device(last);
    expect_equal(accelerator.current_device(), last, "the device in a guard's scope");
    expect_equal(guard.original_device(), 0, "original_device()");
    { const auto inner = accelerator.device(0); }
    expect_equal(accelerator.current_device(), last, "the device after an inner guard");
  }
  expect_equal(accelerator.current_device(), 0, "the device after the guard");
}

ANYACCEL_CONFORMANCE_CASE(devices, guard_restores_after_an_exception, required) {
  const DeviceScope scope(accelerator);
  accelerator.set_device(0);
  try {
    const auto guard = accelerator.device(accelerator.device_count() - 1);
    throw Failure("thrown by the case");
  } catch (const Failure&) {  // expected
  }
  expect_equal(accelerator.current_device(), 0, "the device after an exception in a guard's scope");
}

ANYACCEL_CONFORMANCE_CASE(devices, index_out_of_range_is_refused, required) {
  need_indexed_names(accelerator);
  for (const DeviceIndex wrong : {-1, accelerator.device_count(), 256, 1 << 20}) {
    const auto index = " with index " + std::to_string(wrong);
    const auto refused = [&](const char* what, const std::function<void()>& body) {
      expect_error(ErrorCode::invalid_argument, body, what + index);
    };
    refused("set_device", [&] { accelerator.set_device(wrong); });
    refused("device_name", [&] { accelerator.device_name(wrong); });
    refused("torch_device", [&] { accelerator.torch_device(wrong); });
    refused("device_properties", [&] { accelerator.device_properties(wrong); });
    refused("synchronize", [&] { accelerator.synchronize(wrong); });
    refused("memory_stats", [&] { (void)accelerator.memory_stats(wrong); });
    refused("memory_info", [&] { accelerator.memory_info(wrong); });
    refused("current_stream", [&] { accelerator.current_stream(wrong); });
    refused("default_generator", [&] { accelerator.default_generator(wrong); });
    refused("dtype_support", [&] { accelerator.dtype_support(c10::kFloat, wrong); });
  }
}

// Programs pass their local rank as the device index, even if the rank exceeds the last index.
// DeepSpeed's accelerators accept that.
ANYACCEL_CONFORMANCE_CASE(devices, any_index_is_accepted_if_names_carry_none, required) {
  if (accelerator.backend().traits().indexed_names) skip("the device names include an index");
  const DeviceScope scope(accelerator);
  for (const DeviceIndex wrong : {-1, accelerator.device_count(), 256, 1 << 20}) {
    accelerator.set_device(accelerator.device_count() - 1);
    accelerator.set_device(wrong);
    const auto index = " with index " + std::to_string(wrong);
    expect_equal(accelerator.current_device(), 0, "the device after set_device()" + index);
    expect_equal(accelerator.device_name(wrong), accelerator.device_name(),
                 "device_name()" + index);
    accelerator.torch_device(wrong);
    accelerator.synchronize(wrong);
    accelerator.current_stream(wrong);
    accelerator.default_generator(wrong);
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, refused_set_device_changes_nothing, required) {
  need_indexed_names(accelerator);
  const auto before = accelerator.current_device();
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.set_device(accelerator.device_count()); },
      "set_device");
  expect_equal(accelerator.current_device(), before,
               "current_device() after a rejected set_device()");
}

// torch.accelerator uses exchangeDevice() and maybeExchangeDevice(): `with
// torch.accelerator.device_index(1):` calls exchangeDevice(1) on entry, and maybeExchangeDevice()
// with the previous device on exit.
ANYACCEL_CONFORMANCE_CASE(devices, torch_changes_the_device_and_back, required) {
  need_own_memory(accelerator);
  const DeviceScope scope(accelerator);
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(accelerator.device_type());
  accelerator.set_device(0);
  try {
    static_cast<void>(hooks.maybeExchangeDevice(hooks.exchangeDevice(0)));
  } catch (const c10::Error& error) {
    skip(std::string("torch.accelerator cannot change the device: ") +
         error.what_without_backtrace());
  }
  const DeviceIndex last = accelerator.device_count() - 1;
  const auto index = static_cast<c10::DeviceIndex>(last);
  const auto current_is = [&](DeviceIndex want, const std::string& after) {
    expect_equal(accelerator.current_device(), want, "current_device() after " + after);
    expect_equal(static_cast<int>(hooks.getCurrentDevice()), want,
                 "getCurrentDevice() after " + after);
  };
  expect_equal(static_cast<int>(hooks.deviceCount()), accelerator.device_count(),
               "deviceCount() of torch's hooks");
  expect_equal(static_cast<int>(hooks.exchangeDevice(index)), 0,
               "the previous device that exchangeDevice() returns");
  current_is(last, "exchangeDevice()");
  expect_equal(static_cast<int>(hooks.maybeExchangeDevice(-1)), last,
               "the result of maybeExchangeDevice(-1)");
  current_is(last, "maybeExchangeDevice(-1)");
  expect_equal(static_cast<int>(hooks.maybeExchangeDevice(0)), last,
               "the previous device that maybeExchangeDevice() returns");
  current_is(0, "maybeExchangeDevice()");
  hooks.setCurrentDevice(index);
  current_is(last, "setCurrentDevice()");
}

ANYACCEL_CONFORMANCE_CASE(devices, torch_guards_restore_the_device, required) {
  need_own_memory(accelerator);
  const DeviceScope scope(accelerator);
  accelerator.set_device(0);
  const c10::impl::VirtualGuardImpl guard(accelerator.device_type());
  const DeviceIndex last = accelerator.device_count() - 1;
  const c10::Device other(accelerator.device_type(), static_cast<c10::DeviceIndex>(last));
  expect_equal(static_cast<int>(guard.exchangeDevice(other).index()), 0,
               "the previous device that exchangeDevice() returns");
  expect_equal(accelerator.current_device(), last,
               "current_device() after exchangeDevice() of the guard");
  accelerator.set_device(0);
  {
    const c10::DeviceGuard inner(other);
    expect_equal(accelerator.current_device(), last,
                 "current_device() in the scope of a c10::DeviceGuard");
  }
  expect_equal(accelerator.current_device(), 0,
               "current_device() after the scope of a c10::DeviceGuard");
}

ANYACCEL_CONFORMANCE_CASE(devices, synchronize_keeps_the_current_device, required) {
  const DeviceScope scope(accelerator);
  for (DeviceIndex current = 0; current < accelerator.device_count(); ++current) {
    accelerator.set_device(current);
    for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
      accelerator.synchronize(i);
      expect_equal(accelerator.current_device(), current,
                   "current_device() after synchronize(" + std::to_string(i) + ")");
    }
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, synchronize_an_idle_device_returns, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    accelerator.synchronize(i);
    accelerator.synchronize(i);
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, synchronize_waits_for_work, required) {
  need_asynchronous(accelerator);
  queue_work(accelerator, 60);
  accelerator.synchronize();
  expect(accelerator.current_stream().query(), "work is pending after synchronize()");
}

ANYACCEL_CONFORMANCE_CASE(devices, synchronize_waits_for_all_streams, required) {
  need_asynchronous(accelerator);
  const auto stream = feature([&] { return accelerator.Stream(); });
  {
    const auto guard = accelerator.stream(stream);
    queue_work(accelerator, 60);
  }
  accelerator.synchronize();
  expect(stream.query(), "a side stream's work is pending after synchronize()");
}

ANYACCEL_CONFORMANCE_CASE(devices, synchronize_waits_for_the_device_asked_for, required) {
  need_asynchronous(accelerator);
  need_separate_devices(accelerator, 2);
  const DeviceScope scope(accelerator);
  accelerator.set_device(1);
  queue_work(accelerator, 60);
  const auto stream = accelerator.current_stream();
  accelerator.set_device(0);
  accelerator.synchronize(1);
  expect(stream.query(), "device 1's work is pending after synchronize(1) on device 0");
}

ANYACCEL_CONFORMANCE_CASE(devices, properties_have_a_name, recommended) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i)
    expect(!accelerator.device_properties(i).name.empty(),
           "device " + std::to_string(i) + " has no name");
}

ANYACCEL_CONFORMANCE_CASE(devices, properties_know_total_memory, recommended) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i)
    expect(accelerator.device_properties(i).total_memory > 0,
           "total_memory of device " + std::to_string(i) + " is " +
               std::to_string(accelerator.device_properties(i).total_memory));
}

ANYACCEL_CONFORMANCE_CASE(devices, properties_are_in_range, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto properties = accelerator.device_properties(i);
    expect(properties.multi_processor_count == -1 || properties.multi_processor_count > 0,
           "multi_processor_count is 0 or below -1");
    expect(properties.numa_node >= -1, "numa_node is less than -1 (-1 means unknown)");
    expect(properties.total_memory >= -1, "total_memory is less than -1 (-1 means unknown)");
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, properties_are_stable, required) {
  const auto a = accelerator.device_properties(), b = accelerator.device_properties();
  expect_equal(b.name, a.name, "the name in a later call");
  expect_equal(b.uuid, a.uuid, "the UUID in a later call");
  expect_equal(b.total_memory, a.total_memory, "total_memory in a later call");
}

ANYACCEL_CONFORMANCE_CASE(devices, properties_agree_with_the_traits, required) {
  const auto& traits = accelerator.backend().traits();
  const auto properties = accelerator.device_properties();
  if (!traits.vendor.empty())
    expect_equal(properties.vendor, traits.vendor, "the vendor in the properties");
  if (traits.triton)
    expect(properties.triton, "the traits claim Triton support, but the properties do not");
}

ANYACCEL_CONFORMANCE_CASE(devices, compute_capability_is_a_pair, required) {
  const auto pair = accelerator.device_properties().compute_capability;
  if (!pair) {
    expect_error(
        ErrorCode::unsupported, [&] { accelerator.compute_capability(); },
        "compute_capability() without a compute capability");
    skip("the devices have no compute capability");
  }
  expect(pair->first >= 0 && pair->second >= 0,
         "the compute capability has a negative component: (" + std::to_string(pair->first) + ", " +
             std::to_string(pair->second) + ")");
  expect(accelerator.compute_capability() == *pair,
         "compute_capability() differs from the properties");
}

ANYACCEL_CONFORMANCE_CASE(devices, uuids_differ, recommended) {
  std::set<std::string> seen;
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto uuid = accelerator.device_properties(i).uuid;
    if (uuid.empty()) skip("the devices have no UUID");
    expect(seen.insert(uuid).second, "two devices have the UUID " + uuid);
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, tensors_land_on_the_current_device, required) {
  const DeviceScope scope(accelerator);
  need_separate_devices(accelerator, 1);
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    accelerator.set_device(i);
    expect_equal(static_cast<int>(filled(accelerator, 1).device().index()), i,
                 "the device of a new tensor");
    const auto plain = host_sequence(3).to(c10::Device(accelerator.device_name()));
    expect_equal(static_cast<int>(plain.device().index()), i,
                 "the device of a tensor moved to the device name without an index");
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, copies_to_and_from_the_host_keep_every_bit, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto guard = accelerator.device(i);
    const auto host = host_sequence(100'003).mul(1.7);
    const auto back = to_device(accelerator, host).to(c10::kCPU);
    expect(back.equal(host),
           "values changed in a copy to device " + std::to_string(i) + " and back");
  }
}

ANYACCEL_CONFORMANCE_CASE(devices, copies_between_devices_keep_every_bit, required) {
  need_separate_devices(accelerator, 2);
  const auto host = host_sequence(50'021).mul(0.3);
  const auto there = host.to(accelerator.torch_device(0)).to(accelerator.torch_device(1));
  expect_equal(there.device(), accelerator.torch_device(1), "the device of the copy");
  expect(there.to(c10::kCPU).equal(host), "values changed in a copy between devices");
}

ANYACCEL_CONFORMANCE_CASE(devices, strided_copies_keep_every_bit, required) {
  const auto host = host_sequence(60 * 70).reshape({60, 70});
  const auto device = to_device(accelerator, host);
  expect(device.t().to(c10::kCPU).equal(host.t()),
         "a transposed tensor changed in the copy to the host");
  expect(to_device(accelerator, host.t()).to(c10::kCPU).equal(host.t()),
         "a transposed host tensor changed in the copy to the device");
  auto target = filled(accelerator, 0, 60 * 70).reshape({70, 60});
  target.t().copy_(host);
  expect(target.t().to(c10::kCPU).equal(host),
         "wrong values after a copy into a transposed tensor");
}

}  // namespace anyaccel::conformance
