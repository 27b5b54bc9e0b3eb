// Suite "pinned": pinned and registered host memory.
#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <memory>

#include "support.h"

namespace anyaccel::conformance {

namespace {

bool pins(const Accelerator& accelerator) {
  return accelerator.backend().host_allocator() != nullptr;
}

void need_pinning(const Accelerator& accelerator) {
  if (!pins(accelerator)) skip("the backend does not pin memory: its host_allocator() is null");
}

/// Page-aligned memory that the case owns.
struct Pages {
  static constexpr std::size_t kBytes = 1 << 20;
  Pages() : memory(std::aligned_alloc(4096, kBytes), &std::free) {}
  at::Tensor tensor() const {
    return at::from_blob(memory.get(), {static_cast<std::int64_t>(kBytes)},
                         at::TensorOptions().dtype(c10::kByte));
  }
  std::unique_ptr<void, void (*)(void*)> memory;
};

bool registered(Accelerator& accelerator, const Pages& pages) {
  return feature(
      [&] { return accelerator.register_host_memory(pages.memory.get(), Pages::kBytes); });
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(pinned, pinned_tensor_is_pinned, required) {
  need_pinning(accelerator);
  const auto plain = host_sequence(1000);
  const auto tensor = accelerator.pin_memory(plain);
  expect(accelerator.is_pinned(tensor), "is_pinned() is false for a tensor from pin_memory()");
  expect(!accelerator.is_pinned(plain), "is_pinned() is true for an ordinary tensor");
  expect(tensor.device().is_cpu(), "a pinned tensor is not in host memory");
  expect(tensor.equal(plain), "pin_memory() changed the values");
}

ANYACCEL_CONFORMANCE_CASE(pinned, where_nothing_needs_pinning_the_tensor_stays, required) {
  if (pins(accelerator)) skip("the accelerator pins host memory");
  const auto plain = host_sequence(10);
  expect(accelerator.pin_memory(plain).is_same(plain),
         "pin_memory() copies although nothing needs pinning");
  expect(!accelerator.is_pinned(plain), "is_pinned() is true although nothing can be pinned");
}

// If pageable memory were mistaken for pinned memory, an asynchronous copy could read the memory
// after the program has modified it.
ANYACCEL_CONFORMANCE_CASE(pinned, pageable_memory_is_not_pinned, required) {
  // The memory below must not count as pinned merely because this pinned allocation exists.
  const auto pinned = accelerator.pin_memory(host_sequence(1000));
  const Pages pages;
  float on_the_stack[16] = {};
  const std::pair<const char*, at::Tensor> pageable[] = {
      {"a small host tensor", host_sequence(4)},
      {"a large host tensor", host_sequence(4 << 20)},
      {"memory from malloc()", pages.tensor()},
      {"memory on the stack",
       at::from_blob(on_the_stack, {16}, at::TensorOptions().dtype(c10::kFloat))},
      {"a copy of a pinned tensor", pinned.clone()},
      {"an empty tensor", host_sequence(1).narrow(0, 0, 0).clone()}};
  for (const auto& [what, tensor] : pageable) {
    expect(!accelerator.is_pinned(tensor), std::string("is_pinned() is true for ") + what);
    expect(!tensor.is_pinned(), std::string("torch's is_pinned() is true for ") + what);
  }
}

ANYACCEL_CONFORMANCE_CASE(pinned, pinning_twice_gives_the_same_tensor, required) {
  const auto tensor = accelerator.pin_memory(host_sequence(10));
  expect(accelerator.pin_memory(tensor).is_same(tensor),
         "pin_memory() of a pinned tensor is a copy");
}

ANYACCEL_CONFORMANCE_CASE(pinned, shape_and_type_are_kept, required) {
  const auto plain = host_sequence(12).reshape({3, 4}).to(c10::kDouble);
  const auto pinned = accelerator.pin_memory(plain);
  expect(pinned.sizes() == plain.sizes() && pinned.scalar_type() == plain.scalar_type(),
         "the shape or type changed");
  expect(accelerator.pin_memory(plain, true, false).sizes() == at::IntArrayRef({12}),
         "match_shape = false does not return a flat tensor");
  expect(accelerator.pin_memory(plain, false).sizes() == plain.sizes(),
         "the shape changed without a copy");
}

ANYACCEL_CONFORMANCE_CASE(pinned, strided_tensors_are_copied_right, required) {
  const auto plain = host_sequence(12).reshape({3, 4}).t();
  expect(accelerator.pin_memory(plain).equal(plain),
         "pin_memory() changed the values of a transposed tensor");
}

ANYACCEL_CONFORMANCE_CASE(pinned, empty_pinned_tensors_have_the_shape_asked_for, required) {
  const auto like = host_sequence(6).reshape({2, 3}).to(c10::kHalf);
  const auto a = accelerator.pin_empty(like, {5, 7}), b = accelerator.pin_empty_like(like);
  expect(a.sizes() == at::IntArrayRef({5, 7}) && a.scalar_type() == c10::kHalf,
         "wrong shape or type from pin_empty()");
  expect(b.sizes() == like.sizes() && b.scalar_type() == c10::kHalf,
         "wrong shape or type from pin_empty_like()");
  if (pins(accelerator))
    expect(accelerator.is_pinned(a) && accelerator.is_pinned(b),
           "the memory of pin_empty() is not pinned");
}

ANYACCEL_CONFORMANCE_CASE(pinned, views_are_pinned_too, required) {
  need_pinning(accelerator);
  const auto tensor = accelerator.pin_memory(host_sequence(100));
  expect(accelerator.is_pinned(tensor.narrow(0, 50, 10)),
         "is_pinned() is false for a view of a pinned tensor");
}

ANYACCEL_CONFORMANCE_CASE(pinned, unpinned_copy_is_ordinary_memory, required) {
  const auto plain = host_sequence(100);
  const auto copy = accelerator.unpin_memory(accelerator.pin_memory(plain));
  expect(!accelerator.is_pinned(copy), "is_pinned() is true for the result of unpin_memory()");
  expect(copy.equal(plain), "unpin_memory() changed the values");
}

ANYACCEL_CONFORMANCE_CASE(pinned, device_tensors_are_refused, required) {
  need_own_memory(accelerator);
  const auto tensor = filled(accelerator, 1);
  expect_error(
      ErrorCode::invalid_argument, [&] { (void)accelerator.pin_memory(tensor); },
      "pinning a device tensor");
  expect(!accelerator.is_pinned(tensor), "is_pinned() is true for a device tensor");
}

ANYACCEL_CONFORMANCE_CASE(pinned, negative_sizes_are_refused, required) {
  const auto like = host_sequence(2);
  expect_error(
      ErrorCode::invalid_argument,
      [&] {
        (void)accelerator.pin_empty(like, {2, -1});
      },
      "a negative size");
}

ANYACCEL_CONFORMANCE_CASE(pinned, copies_without_waiting_arrive, required) {
  need_pinning(accelerator);
  const auto host = accelerator.pin_memory(host_sequence(200'000));
  const auto there = host.to(accelerator.torch_device(), c10::kFloat, /*non_blocking=*/true);
  auto back = accelerator.pin_empty_like(host);
  back.copy_(there.mul(2), /*non_blocking=*/true);
  accelerator.synchronize();
  expect(back.equal(accelerator.unpin_memory(host).mul(2)),
         "wrong values after copies through pinned memory");
}

ANYACCEL_CONFORMANCE_CASE(pinned, blocking_copies_have_arrived, required) {
  need_pinning(accelerator);
  need_asynchronous(accelerator);
  auto x = filled(accelerator, 1, 1000);
  auto back = accelerator.pin_memory(host_sequence(1000));
  queue_work(accelerator, 60);
  x.add_(2);
  back.copy_(x, /*non_blocking=*/false);
  for (const double value : values(back))
    expect_equal(value, 3.0, "a value after a blocking copy to pinned memory");
}

ANYACCEL_CONFORMANCE_CASE(pinned, memory_in_use_by_a_copy_is_not_reused, required) {
  need_pinning(accelerator);
  need_asynchronous(accelerator);
  const auto plain = host_sequence(100'000);
  auto target = filled(accelerator, 0, 100'000);
  accelerator.synchronize();
  queue_work(accelerator, 60);
  target.copy_(accelerator.pin_memory(plain), /*non_blocking=*/true);
  // If the allocator wrongly considers the copy's pinned source free, this tensor reuses that
  // memory.
  accelerator.pin_empty_like(plain).fill_(-1);
  accelerator.synchronize();
  expect(target.to(c10::kCPU).equal(plain),
         "a copy read values written after its pinned tensor was freed");
}

ANYACCEL_CONFORMANCE_CASE(pinned, pinned_bytes_are_counted, recommended) {
  need_pinning(accelerator);
  const auto before = accelerator.host_memory_stats().allocated_bytes.current;
  const auto tensor = accelerator.pin_empty(host_sequence(1), {1 << 20});
  const auto grown = accelerator.host_memory_stats().allocated_bytes.current - before;
  expect(grown >= 4 << 20,
         "host_memory_stats() grew by " + std::to_string(grown) + " with 4 MiB of pinned memory");
}

ANYACCEL_CONFORMANCE_CASE(pinned, alignment_is_positive, required) {
  expect(accelerator.pin_memory_alignment() > 0, "pin_memory_alignment() is not positive");
}

ANYACCEL_CONFORMANCE_CASE(pinned, nothing_cannot_be_registered, required) {
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.register_host_memory(nullptr, 4096); },
      "a null address");
  int number = 0;
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.register_host_memory(&number, 0); },
      "a size of 0");
}

ANYACCEL_CONFORMANCE_CASE(pinned, registered_memory_is_pinned, recommended) {
  const Pages pages;
  if (!registered(accelerator, pages)) skip("the accelerator cannot register host memory");
  const bool pinned = accelerator.is_pinned(pages.tensor());
  accelerator.unregister_host_memory(pages.memory.get());
  expect(pinned, "register_host_memory() returned true, but is_pinned() is false");
}

ANYACCEL_CONFORMANCE_CASE(pinned, memory_can_be_unregistered, required) {
  const Pages pages;
  if (!registered(accelerator, pages)) skip("the accelerator cannot register host memory");
  accelerator.unregister_host_memory(pages.memory.get());
  expect(!accelerator.is_pinned(pages.tensor()),
         "is_pinned() is true after unregister_host_memory()");
  expect(registered(accelerator, pages),
         "memory cannot be registered again after it was unregistered");
  accelerator.unregister_host_memory(pages.memory.get());
}

}  // namespace anyaccel::conformance
