// Suite "memory": counters, peaks, free and total memory, the cache, and running out of memory.
#include <c10/util/Exception.h>

#include <algorithm>

#include "support.h"

namespace anyaccel::conformance {

namespace {

constexpr std::int64_t kMiB = 1 << 20;
/// Maximum number of bytes that an allocator may add when it rounds a size up.
constexpr std::int64_t kRounding = 2 * kMiB;

MemoryInfo info_of(const Accelerator& accelerator) {
  return feature([&] { return accelerator.memory_info(); });
}

void reset_peaks(Accelerator& accelerator) {
  feature([&] { accelerator.reset_peak_memory_stats(); });
}

std::string text(std::int64_t number) { return std::to_string(number); }

/// Requests more memory than any device has. Returns the exception's text, or an empty string if
/// the allocation succeeds. `is_memory_error` says whether torch's out-of-memory error is thrown.
std::string failed_allocation(const Accelerator& accelerator, bool& is_memory_error) {
  is_memory_error = false;
  try {
    const auto tensor = bytes_on(accelerator, std::int64_t{1} << 50);
    return {};
  } catch (const c10::OutOfMemoryError& error) {
    is_memory_error = true;
    return error.what_without_backtrace();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

void fail_an_allocation(const Accelerator& accelerator) {
  bool is_memory_error = false;
  if (failed_allocation(accelerator, is_memory_error).empty())
    skip("a tensor of 2^50 bytes can be allocated");
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(memory, allocated_counts_a_known_tensor, required) {
  const auto before = allocated(accelerator);
  const auto tensor = bytes_on(accelerator, 8 * kMiB);
  const auto grown = allocated(accelerator) - before;
  expect(grown >= 8 * kMiB && grown <= 8 * kMiB + kRounding,
         "memory_allocated() after allocating a tensor of " + text(8 * kMiB) +
             " bytes; it grew by " + text(grown));
}

ANYACCEL_CONFORMANCE_CASE(memory, allocated_falls_when_a_tensor_dies, required) {
  const auto before = allocated(accelerator);
  { const auto tensor = bytes_on(accelerator, 8 * kMiB); }
  accelerator.synchronize();
  expect_equal(allocated(accelerator), before, "memory_allocated() after the tensor is freed");
}

ANYACCEL_CONFORMANCE_CASE(memory, views_are_counted_once, required) {
  const auto tensor = bytes_on(accelerator, 4 * kMiB);
  const auto before = allocated(accelerator);
  const auto view = tensor.narrow(0, kMiB, kMiB).reshape({1024, 1024});
  expect_equal(allocated(accelerator), before, "memory_allocated() after creating a view");
}

ANYACCEL_CONFORMANCE_CASE(memory, empty_tensors_take_nothing, required) {
  const auto before = allocated(accelerator);
  const auto tensor = bytes_on(accelerator, 0);
  expect_equal(allocated(accelerator), before, "memory_allocated() after creating an empty tensor");
}

ANYACCEL_CONFORMANCE_CASE(memory, peak_outlives_a_temporary, required) {
  allocated(accelerator);
  reset_peaks(accelerator);
  const auto before = allocated(accelerator);
  { const auto tensor = bytes_on(accelerator, 8 * kMiB); }
  const auto peak = accelerator.max_memory_allocated();
  expect(peak - before >= 8 * kMiB, "the peak after a temporary tensor of " + text(8 * kMiB) +
                                        " bytes is only " + text(peak - before) +
                                        " above the value before");
}

ANYACCEL_CONFORMANCE_CASE(memory, peak_starts_anew_at_reset, required) {
  allocated(accelerator);
  { const auto tensor = bytes_on(accelerator, 16 * kMiB); }
  accelerator.synchronize();
  reset_peaks(accelerator);
  expect_equal(accelerator.max_memory_allocated(), accelerator.memory_allocated(),
               "the peak immediately after a reset");
}

ANYACCEL_CONFORMANCE_CASE(memory, peak_is_never_below_current, required) {
  allocated(accelerator);
  const auto tensor = bytes_on(accelerator, 4 * kMiB);
  reset_peaks(accelerator);
  const auto peak = accelerator.max_memory_allocated(), now = accelerator.memory_allocated();
  expect(peak >= now, "the peak " + text(peak) + " is below the current value " + text(now));
}

ANYACCEL_CONFORMANCE_CASE(memory, reset_keeps_the_current_value, required) {
  const auto tensor = bytes_on(accelerator, 4 * kMiB);
  const auto before = allocated(accelerator);
  reset_peaks(accelerator);
  expect_equal(allocated(accelerator), before, "memory_allocated() after a reset of the peaks");
}

ANYACCEL_CONFORMANCE_CASE(memory, older_names_of_the_reset_work, required) {
  allocated(accelerator);
  const auto check = [&](const std::function<void()>& reset, const std::string& name) {
    { const auto tensor = bytes_on(accelerator, 4 * kMiB); }
    accelerator.synchronize();
    feature([&] { reset(); });
    expect_equal(accelerator.max_memory_allocated(), accelerator.memory_allocated(),
                 "the peak after " + name);
  };
  check([&] { accelerator.reset_max_memory_allocated(); }, "reset_max_memory_allocated()");
  check([&] { accelerator.reset_max_memory_cached(); }, "reset_max_memory_cached()");
}

ANYACCEL_CONFORMANCE_CASE(memory, reserved_covers_allocated, required) {
  const auto tensor = bytes_on(accelerator, 4 * kMiB);
  const auto now = allocated(accelerator);
  expect(accelerator.memory_reserved() >= now, "memory_reserved() is " +
                                                   text(accelerator.memory_reserved()) +
                                                   ", memory_allocated() is " + text(now));
  expect(accelerator.max_memory_reserved() >= accelerator.memory_reserved(),
         "max_memory_reserved() is below memory_reserved()");
  expect_equal(accelerator.memory_cached(), accelerator.memory_reserved(), "memory_cached()");
  expect_equal(accelerator.max_memory_cached(), accelerator.max_memory_reserved(),
               "max_memory_cached()");
}

ANYACCEL_CONFORMANCE_CASE(memory, allocations_are_counted, recommended) {
  const auto count = [&] {
    return feature([&] { return accelerator.backend().memory_stats(accelerator.current_device()); })
        .allocation_count.current;
  };
  const auto before = count();
  {
    const auto a = bytes_on(accelerator, 1000), b = bytes_on(accelerator, 1000),
               c = bytes_on(accelerator, 1000);
    expect_equal(count(), before + 3, "live allocations after three tensors");
  }
  accelerator.synchronize();
  expect_equal(count(), before, "number of live allocations after all were freed");
}

ANYACCEL_CONFORMANCE_CASE(memory, stats_have_torchs_keys, required) {
  const auto stats = feature([&] { return accelerator.memory_stats(); });
  for (const char* key :
       {"allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.current",
        "reserved_bytes.all.peak", "num_ooms", "num_alloc_retries", "host.rss.current"})
    expect(stats.count(key) == 1, std::string("memory_stats() has no '") + key + "'");
  expect_equal(stats.at("allocated_bytes.all.current"), allocated(accelerator),
               "memory_stats() compared with memory_allocated()");
}

ANYACCEL_CONFORMANCE_CASE(memory, rss_is_the_process, required) {
  const auto rss = accelerator.get_rss();
  expect(rss > kMiB, "get_rss() is " + text(rss) + " bytes");
}

ANYACCEL_CONFORMANCE_CASE(memory, every_device_answers, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    expect(allocated(accelerator, i) >= 0,
           "memory_allocated(" + std::to_string(i) + ") is negative");
    feature([&] { accelerator.reset_peak_memory_stats(i); });
    expect(feature([&] { return accelerator.memory_info(i); }).total > 0,
           "no total memory on device " + std::to_string(i));
  }
}

ANYACCEL_CONFORMANCE_CASE(memory, devices_count_apart, required) {
  need_separate_devices(accelerator, 2);
  const auto first_before = allocated(accelerator, 0), second_before = allocated(accelerator, 1);
  const auto guard = accelerator.device(1);
  const auto tensor = bytes_on(accelerator, 8 * kMiB);
  expect_equal(allocated(accelerator, 0), first_before,
               "memory_allocated(0) after allocating on device 1");
  expect(allocated(accelerator, 1) - second_before >= 8 * kMiB,
         "memory_allocated(1) did not grow after allocating on device 1");
}

ANYACCEL_CONFORMANCE_CASE(memory, reset_of_one_device_leaves_another, required) {
  need_separate_devices(accelerator, 2);
  allocated(accelerator, 0);
  { const auto tensor = bytes_on(accelerator, 8 * kMiB); }
  const auto peak = accelerator.max_memory_allocated(0);
  feature([&] { accelerator.reset_peak_memory_stats(1); });
  expect_equal(accelerator.max_memory_allocated(0), peak,
               "device 0's peak after a reset of device 1");
}

ANYACCEL_CONFORMANCE_CASE(memory, many_steps_leak_nothing, required) {
  const auto step = [&] {
    auto x = filled(accelerator, 1, 10'000);
    for (int i = 0; i < 5; ++i) x = x.mul(0.5).add(1).relu();
    return first(x.sum());
  };
  step();
  accelerator.synchronize();
  const auto before = allocated(accelerator);
  for (int i = 0; i < 30; ++i) step();
  accelerator.synchronize();
  expect_equal(allocated(accelerator), before, "memory_allocated() after thirty steps");
}

ANYACCEL_CONFORMANCE_CASE(memory, free_is_within_total, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto info = feature([&] { return accelerator.memory_info(i); });
    expect(info.total > 0, "total memory is " + text(info.total));
    expect(info.free >= 0 && info.free <= info.total,
           "free memory is " + text(info.free) + " of a total of " + text(info.total));
  }
}

ANYACCEL_CONFORMANCE_CASE(memory, total_and_available_are_of_memory_info, required) {
  const auto info = info_of(accelerator);
  expect_equal(accelerator.total_memory(), info.total, "total_memory()");
  const auto available = accelerator.available_memory();
  expect(available >= 0 && available <= info.total, "available_memory() is " + text(available));
}

ANYACCEL_CONFORMANCE_CASE(memory, total_agrees_with_properties, required) {
  const auto total = info_of(accelerator).total,
             said = accelerator.device_properties().total_memory;
  if (said == -1) skip("the properties do not report total memory");
  // Drivers reserve some memory, and the reported total may or may not include it.
  expect(said >= total - total / 8 && said <= total + total / 8,
         "the properties report " + text(said) + " bytes, memory_info() " + text(total));
}

ANYACCEL_CONFORMANCE_CASE(memory, free_falls_when_memory_is_taken, required) {
  need_own_memory(accelerator);
  accelerator.synchronize();
  accelerator.empty_cache();
  const auto before = info_of(accelerator);
  const auto bytes = std::min<std::int64_t>(before.free / 4, 64 * kMiB);
  const auto tensor = bytes_on(accelerator, bytes).fill_(1);
  accelerator.synchronize();
  const auto fallen = before.free - info_of(accelerator).free;
  expect(fallen >= bytes / 2,
         "free memory fell by " + text(fallen) + " when " + text(bytes) + " bytes were allocated");
}

ANYACCEL_CONFORMANCE_CASE(memory, empty_cache_is_always_allowed, required) {
  const auto tensor = filled(accelerator, 5, 1000);
  accelerator.empty_cache();
  accelerator.empty_cache();
  for (const double value : values(tensor))
    expect_equal(value, 5.0, "a live tensor's value after empty_cache()");
}

ANYACCEL_CONFORMANCE_CASE(memory, empty_cache_gives_memory_back, recommended) {
  allocated(accelerator);
  { const auto tensor = bytes_on(accelerator, 64 * kMiB); }
  accelerator.synchronize();
  const auto held = accelerator.memory_reserved() - accelerator.memory_allocated();
  if (held < 32 * kMiB) skip("the allocator does not cache memory");
  accelerator.empty_cache();
  const auto left = accelerator.memory_reserved() - accelerator.memory_allocated();
  expect(left <= held / 2,
         text(left) + " of " + text(held) + " cached bytes are still reserved after empty_cache()");
}

ANYACCEL_CONFORMANCE_CASE(memory, lack_of_memory_is_an_out_of_memory_error, required, true) {
  bool is_memory_error = false;
  const auto message = failed_allocation(accelerator, is_memory_error);
  expect(!message.empty(), "a tensor of 2^50 bytes can be allocated");
  expect(is_memory_error,
         "a failed allocation throws a c10::Error (RuntimeError in Python), not a "
         "c10::OutOfMemoryError, so programs that free memory and retry do not recognize it: " +
             message);
}

ANYACCEL_CONFORMANCE_CASE(memory, allocation_waits_for_memory_where_claimed, required, true) {
  if (!accelerator.handles_memory_backpressure()) skip("allocations do not wait for memory in use");
  need_own_memory(accelerator);
  const auto side = feature([&] { return accelerator.Stream(); });
  queue_work(accelerator, 1);
  accelerator.synchronize();
  accelerator.empty_cache();
  // Each tensor needs more than half of the free memory. When the next tensor is allocated, queued
  // work still uses the previous one.
  const auto bytes = info_of(accelerator).free / 10 * 6;
  for (int round = 0; round < 16; ++round) {
    try {
      const auto tensor = bytes_on(accelerator, bytes);
      const auto guard = accelerator.stream(side);
      queue_work(accelerator, 5);
      tensor.narrow(0, 0, 1).fill_(1);
      tensor.record_stream(side.unwrap());
    } catch (const c10::OutOfMemoryError&) {
      fail(
          "handles_memory_backpressure() is true, but an allocation failed although memory was "
          "about to be freed");
    }
  }
  accelerator.synchronize();
}

ANYACCEL_CONFORMANCE_CASE(memory, failed_allocations_are_counted, recommended, true) {
  const auto ooms = [&] {
    return feature([&] { return accelerator.backend().memory_stats(accelerator.current_device()); })
        .num_ooms;
  };
  const auto before = ooms();
  fail_an_allocation(accelerator);
  expect_equal(ooms(), before + 1, "num_ooms after a failed allocation");
}

ANYACCEL_CONFORMANCE_CASE(memory, device_works_after_lack_of_memory, required, true) {
  const auto before = allocated(accelerator);
  fail_an_allocation(accelerator);
  expect_equal(allocated(accelerator), before, "memory_allocated() after a failed allocation");
  expect_equal(first(filled(accelerator, 2, 1000).mul(3)), 6.0, "work after a failed allocation");
}

}  // namespace anyaccel::conformance
