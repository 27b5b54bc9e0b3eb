#include "support.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace anyaccel::conformance {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

at::TensorOptions options(const Accelerator& accelerator, c10::ScalarType dtype) {
  return at::TensorOptions().device(accelerator.torch_device()).dtype(dtype);
}

/// A square matrix multiplication that keeps the device busy. Its size is calibrated once per
/// process, so that one multiplication takes several milliseconds.
struct Work {
  std::int64_t size = 256;
  double ms = 0;
};

Work measured_work(const Accelerator& accelerator) {
  // Measure several multiplications together: on a busy machine, a wait may take milliseconds
  // longer than the work. A single multiplication would then seem too slow, and too little work
  // would be queued.
  constexpr int kTogether = 8;
  Work work;
  for (;; work.size *= 2) {
    const auto a = at::full({work.size, work.size}, 0.5, options(accelerator, c10::kFloat));
    auto product = at::empty_like(a);
    // Reading a value waits for it even if synchronize() is defective.
    const auto wait = [&] { first(product.reshape({-1}).narrow(0, 0, 1)); };
    at::mm_out(product, a, a);  // the first multiplication may initialize libraries
    wait();
    // Take the minimum, because other load only makes a measurement longer.
    work.ms = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      const auto begin = Clock::now();
      for (int each = 0; each < kTogether; ++each) at::mm_out(product, a, a);
      wait();
      work.ms = std::min(work.ms, ms_since(begin) / kTogether);
    }
    if (work.ms > 4 || work.size >= 8192) return work;
  }
}

}  // namespace

at::Tensor filled(const Accelerator& accelerator, double value, std::int64_t count,
                  c10::ScalarType dtype) {
  return at::full({count}, value, options(accelerator, dtype));
}

at::Tensor bytes_on(const Accelerator& accelerator, std::int64_t bytes) {
  return at::empty({bytes}, options(accelerator, c10::kByte));
}

std::vector<double> drawn(const Accelerator& accelerator, std::int64_t count) {
  return values(at::rand({count}, options(accelerator, c10::kFloat)));
}

std::vector<double> values(const at::Tensor& tensor) {
  const auto host = tensor.to(c10::kCPU).to(c10::kDouble).contiguous();
  const auto* data = host.const_data_ptr<double>();
  return {data, data + host.numel()};
}

double first(const at::Tensor& tensor) { return values(tensor).at(0); }

at::Tensor host_sequence(std::int64_t count) {
  return at::arange(count, at::TensorOptions().dtype(c10::kFloat));
}

at::Tensor to_device(const Accelerator& accelerator, const at::Tensor& host) {
  return host.to(accelerator.torch_device());
}

bool on_host(const Accelerator& accelerator) { return accelerator.device_type() == c10::kCPU; }

bool standing_in() {
  const char* name = std::getenv("SIM_STANDS_IN_FOR");
  return name != nullptr && *name != '\0';
}

void need_devices(const Accelerator& accelerator, int count) {
  if (accelerator.device_count() < count) skip("needs " + std::to_string(count) + " devices");
}

void need_indexed_names(const Accelerator& accelerator) {
  if (!accelerator.backend().traits().indexed_names)
    skip("torch does not distinguish the devices by index");
}

void need_separate_devices(const Accelerator& accelerator, int count) {
  need_indexed_names(accelerator);
  need_devices(accelerator, count);
}

void need_asynchronous(const Accelerator& accelerator) {
  if (accelerator.is_synchronized_device()) skip("the accelerator is synchronous");
}

void need_own_memory(const Accelerator& accelerator) {
  if (on_host(accelerator)) skip("the accelerator uses host memory");
}

std::int64_t allocated(const Accelerator& accelerator, std::optional<DeviceIndex> index) {
  return feature([&] { return accelerator.memory_allocated(index); });
}

void queue_work(const Accelerator& accelerator, double milliseconds) {
  static const Work work = measured_work(accelerator);
  const auto a = at::full({work.size, work.size}, 0.5, options(accelerator, c10::kFloat));
  auto product = at::empty_like(a);
  for (int i = 0; i < static_cast<int>(std::ceil(milliseconds / work.ms)); ++i)
    at::mm_out(product, a, a);
}

double copied_in_another_stream(
    Accelerator& accelerator,
    const std::function<void(const Stream& from, const Stream& to)>& order) {
  const auto from = feature([&] { return accelerator.Stream(); });
  const auto to = accelerator.Stream();
  auto x = filled(accelerator, 0), y = filled(accelerator, 0);
  // The first run of an op may synchronize and thereby order the streams.
  y.copy_(x.fill_(0));
  accelerator.synchronize();
  {
    const auto guard = accelerator.stream(from);
    queue_work(accelerator, 60);
    x.fill_(1);
  }
  order(from, to);
  {
    const auto guard = accelerator.stream(to);
    y.copy_(x);
  }
  accelerator.synchronize();
  return first(y);
}

void sleep_ms(double milliseconds) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

void wait_until(const std::function<bool()>& done, const std::string& what) {
  constexpr double kPatience = 5000;
  for (const auto begin = Clock::now(); !done(); sleep_ms(1))
    if (ms_since(begin) > kPatience) fail(what + " does not finish");
}

void on_thread(const std::function<void()>& body) {
  on_threads(1, [&](int) { body(); });
}

void on_threads(int count, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr thrown;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!thrown) thrown = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace anyaccel::conformance
