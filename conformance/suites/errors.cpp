// Suite "errors": a rejected call throws an Error with a code and a message, and the device remains
// usable.
#include <c10/util/Exception.h>

#include "support.h"

namespace anyaccel::conformance {

namespace {

/// Expects `body` to succeed, or to throw an Error with code `unsupported` and a message.
void works_or_refuses(const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    expect(error.code() == ErrorCode::unsupported, what + " fails with the code " +
                                                       to_string(error.code()) +
                                                       " instead of unsupported: " + error.what());
    const std::string text = error.what();
    const auto end = text.find("] ");
    expect(end != std::string::npos && text.size() > end + 4,
           what + " fails without a message: '" + text + "'");
  } catch (const std::exception& error) {
    fail(what + " throws an exception that is not an Error: " + error.what());
  }
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(errors, refusals_are_typed, required) {
  works_or_refuses("Stream", [&] { accelerator.Stream(); });
  works_or_refuses("Event", [&] { accelerator.Event(true); });
  works_or_refuses("memory_stats", [&] { (void)accelerator.memory_stats(); });
  works_or_refuses("memory_info", [&] { accelerator.memory_info(); });
  works_or_refuses("reset_peak_memory_stats", [&] { accelerator.reset_peak_memory_stats(); });
  works_or_refuses("empty_cache", [&] { accelerator.empty_cache(); });
  works_or_refuses("create_graph", [&] { (void)accelerator.create_graph(); });
  works_or_refuses("compute_capability", [&] { accelerator.compute_capability(); });
  works_or_refuses("native_handle", [&] { accelerator.current_stream().native_handle(); });
  works_or_refuses("default_generator", [&] { accelerator.default_generator(); });
}

ANYACCEL_CONFORMANCE_CASE(errors, messages_say_what_was_wanted, required) {
  try {
    accelerator.set_compile_backend("no such backend");
    fail("set_compile_backend() accepts an unknown compile backend");
  } catch (const Error& error) {
    const std::string text = error.what();
    expect(text.find("; got ") != std::string::npos && text.find("want ") != std::string::npos,
           "the message lacks `got X, want Y`: " + text);
  }
}

ANYACCEL_CONFORMANCE_CASE(errors, wrong_shapes_are_refused_and_the_device_goes_on, required) {
  const auto a = filled(accelerator, 1, 6).reshape({2, 3});
  for (int i = 0; i < 2; ++i) {
    try {
      const auto product = a.mm(a);
      accelerator.synchronize();
      fail("matrices with incompatible shapes are multiplied without an error");
    } catch (const c10::Error&) {  // expected
    }
  }
  expect_equal(first(a.mm(a.t())), 3.0, "a matrix product after a rejected one");
}

ANYACCEL_CONFORMANCE_CASE(errors, index_out_of_range_is_an_error, optional, true) {
  auto index = to_device(accelerator, host_sequence(1).add(1000).to(c10::kLong));
  const auto x = filled(accelerator, 1, 10);
  try {
    const auto chosen = x.index_select(0, index);
    accelerator.synchronize();
    values(chosen);
  } catch (const std::exception&) {
    return;
  }
  fail("an out-of-range index is read without an error");
}

ANYACCEL_CONFORMANCE_CASE(errors, synchronize_reports_failed_work, optional, true) {
  const auto good = to_device(accelerator, host_sequence(1).to(c10::kLong));
  const auto index = good.add(1000), x = filled(accelerator, 1, 10);
  // The first run of an op may synchronize and thereby report the error itself, so run the op once
  // with valid indices.
  auto chosen = x.index_select(0, good);
  accelerator.synchronize();
  try {
    chosen = x.index_select(0, index);
  } catch (const c10::Error&) {
    return;  // the error was reported before any work was queued
  }
  expect_error(
      ErrorCode::device_error, [&] { accelerator.synchronize(); },
      "synchronize() after work that failed");
}

ANYACCEL_CONFORMANCE_CASE(errors, tensors_of_two_devices_are_refused, required) {
  need_own_memory(accelerator);
  const auto there = filled(accelerator, 1, 10), host = host_sequence(10);
  try {
    const auto sum = there.add(host);
    fail("a device tensor and a host tensor are added without an error");
  } catch (const c10::Error&) {  // expected
  }
}

ANYACCEL_CONFORMANCE_CASE(errors, undefined_tensors_are_refused, required) {
  expect_error(
      ErrorCode::invalid_argument, [&] { (void)accelerator.pin_memory(at::Tensor()); },
      "pinning an undefined tensor");
  expect_error(
      ErrorCode::invalid_argument, [&] { (void)accelerator.unpin_memory(at::Tensor()); },
      "unpinning an undefined tensor");
  expect(!accelerator.is_pinned(at::Tensor()), "is_pinned() is true for an undefined tensor");
}

ANYACCEL_CONFORMANCE_CASE(errors, unknown_accelerators_are_refused, required) {
  expect_error(
      ErrorCode::invalid_argument, [] { set_accelerator(std::string("no such accelerator")); },
      "an unknown accelerator");
  expect_error(
      ErrorCode::invalid_argument, [] { set_accelerator(std::shared_ptr<sdk::Backend>()); },
      "a null backend");
  expect(&get_accelerator() == &accelerator, "a failed set_accelerator() changes the accelerator");
}

}  // namespace anyaccel::conformance
