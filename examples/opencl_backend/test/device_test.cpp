// Tests streams, memory and errors of the OpenCL device. The program replaces some functions of
// OpenCL for the plugin, so that it sees mappings and can delay a thread.
#define CL_TARGET_OPENCL_VERSION 200
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <CL/cl.h>
#include <anyaccel/anyaccel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

namespace {

template <class Function>
Function* original(const char* name) {
  static void* library = dlopen("libOpenCL.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::mutex mutex;
std::map<void*, int> mapped;
int mapped_twice = 0;
/// Set in the thread that waits between enqueueing a kernel and returning to the plugin.
thread_local bool delayed = false;
std::atomic<bool> enqueued{false}, go_on{false};

}  // namespace

extern "C" cl_int clEnqueueSVMMap(cl_command_queue queue, cl_bool blocking, cl_map_flags flags,
                                  void* memory, std::size_t bytes, cl_uint count,
                                  const cl_event* events, cl_event* event) {
  {
    const std::lock_guard lock(mutex);
    if (++mapped[memory] > 1) ++mapped_twice;
  }
  static auto* call = original<decltype(clEnqueueSVMMap)>("clEnqueueSVMMap");
  return call(queue, blocking, flags, memory, bytes, count, events, event);
}

extern "C" cl_int clEnqueueSVMUnmap(cl_command_queue queue, void* memory, cl_uint count,
                                    const cl_event* events, cl_event* event) {
  {
    const std::lock_guard lock(mutex);
    --mapped[memory];
  }
  static auto* call = original<decltype(clEnqueueSVMUnmap)>("clEnqueueSVMUnmap");
  return call(queue, memory, count, events, event);
}

extern "C" cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                         const std::size_t* offset, const std::size_t* global,
                                         const std::size_t* local, cl_uint count,
                                         const cl_event* events, cl_event* event) {
  static auto* call = original<decltype(clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel");
  const auto status = call(queue, kernel, dims, offset, global, local, count, events, event);
  if (delayed) {
    enqueued = true;
    for (int i = 0; i < 300 && !go_on; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

namespace {

using at::Tensor;
int failed = 0, count = 0;

void expect(bool good, const std::string& what) {
  ++count;
  if (good) return;
  ++failed;
  std::cout << "FAILED " << what << '\n';
}

/// Expects that `call` throws `Error`.
template <class Error>
void expect_throw(const std::string& what, const std::function<void()>& call) {
  try {
    call();
    expect(false, what + ": nothing was thrown");
  } catch (const Error&) {
    expect(true, what);
  } catch (const std::exception& error) {
    expect(false, what + ": another error was thrown: " + std::string(error.what()).substr(0, 200));
  }
}

/// A product that takes long enough to be observed while it runs.
Tensor long_work(c10::Device device) {
  const auto a = at::ones({1024, 1024}, device);
  return a.mm(a);
}

void test_failures(c10::Device device, const c10::impl::VirtualGuardImpl& guard) {
  const auto stream = guard.getStream(device);
  const auto table = at::ones({4, 8}, device);
  const auto bad = at::arange(3, 6).to(device);
  const auto fail = [&] { return table.index_select(0, bad); };
  const auto check = [&](const std::string& name, const std::function<void(const Tensor&)>& wait) {
    expect_throw<c10::IndexError>(name + " reports a bad index", [&] { wait(fail()); });
    try {
      guard.synchronizeStream(stream);
      expect(true, name);
    } catch (const std::exception&) {
      expect(false, name + " leaves the error to the next synchronization");
    }
  };
  check("stream.synchronize()", [&](const Tensor&) { guard.synchronizeStream(stream); });
  check("synchronize()", [&](const Tensor&) { guard.synchronizeDevice(device.index()); });
  check("item()", [](const Tensor& out) { out[0][0].item(); });
  check("cpu()", [](const Tensor& out) { out.cpu(); });
  check("copy_() from the host", [](const Tensor& out) { out.copy_(at::zeros({3, 8})); });
  check("an op on the host", [](const Tensor& out) { out.cumsum(0); });
  check("event.synchronize()", [&](const Tensor&) {
    c10::Event event(device.type());
    event.record(stream);
    event.synchronize();
  });
  const auto out = fail();
  expect_throw<c10::OutOfMemoryError>("an allocation does not report another op's bad index", [&] {
    at::empty({std::int64_t{1} << 60}, at::TensorOptions(device).dtype(at::kByte));
  });
  expect_throw<c10::IndexError>("synchronize() after a failed allocation",
                                [&] { guard.synchronizeDevice(device.index()); });
}

// Two threads enqueue on one stream. The first is delayed after its kernel is enqueued.
void test_two_threads(c10::Device device, const c10::impl::VirtualGuardImpl& guard) {
  const auto small = at::zeros({8}, device);
  small.add_(1);
  long_work(device);
  guard.synchronizeDevice(device.index());
  std::thread first([&] {
    delayed = true;
    small.add_(1);
  });
  std::thread second([&] {
    while (!enqueued) std::this_thread::yield();
    long_work(device);
    go_on = true;
  });
  first.join();
  second.join();
  expect(!guard.queryStream(guard.getStream(device)), "query() is false while a kernel is running");
  guard.synchronizeDevice(device.index());
  expect(guard.queryStream(guard.getStream(device)), "query() is true after synchronize()");
}

void test_mapping(c10::Device device) {
  for (const std::int64_t size : {4, 10, 400}) {
    auto out = at::zeros({10}, device);
    const auto view = out.slice(0, 2);
    const auto input = at::ones({size}, device);
    at::cumsum_out(out, input, 0);
    expect(out.sizes() == input.sizes() && out[size - 1].item<float>() == static_cast<float>(size),
           "out= of an op on the host has " + std::to_string(size) + " elements");
    // The storage of a smaller output is kept.
    if (size < 10) expect(view.data_ptr<float>() == out.data_ptr<float>() + 2, "views keep memory");
  }
  const std::lock_guard lock(mutex);
  expect(mapped_twice == 0, "no memory is mapped twice");
}

void test_streams_of_devices(c10::Device one, c10::Device two,
                             const c10::impl::VirtualGuardImpl& guard) {
  constexpr std::int64_t kSize = 777777;
  long_work(two);
  guard.synchronizeDevice(two.index());
  for (const bool pooled : {false, true}) {
    const auto stream =
        pooled ? guard.getStreamFromGlobalPool(two, false) : guard.getDefaultStream(two);
    auto used = at::zeros({kSize}, one);
    guard.synchronizeDevice(one.index());
    const void* memory = used.data_ptr();
    const auto before = guard.exchangeStream(stream);
    const auto work = long_work(two);
    guard.exchangeStream(before);
    used.record_stream(stream);
    used.reset();
    auto other = at::empty({kSize}, one);
    expect(other.data_ptr() != memory, "memory is not reused while another device uses it");
    guard.synchronizeDevice(two.index());
    const auto later = at::empty({kSize}, one);
    expect(later.data_ptr() == memory, "memory is reused after the other device's work");
  }
}

// A deleter that throws ends the process.
void test_deleter(c10::Device device) {
  auto tensor = at::zeros({100}, device);
  tensor.record_stream(c10::Stream(c10::Stream::UNSAFE, device, 99));
  tensor.reset();
  expect(true, "an error while memory is freed");
}

}  // namespace

int main() {
  std::cout << std::unitbuf;  // lines before a crash are kept
  auto& accelerator = anyaccel::get_accelerator();
  if (accelerator.torch_device().is_cpu()) {
    std::cout
        << "device_test: the accelerator is the CPU; set DS_ACCELERATOR and ANYACCEL_PLUGIN_PATH\n";
    return 1;
  }
  const c10::Device device(accelerator.torch_device().type(), 0);
  const c10::impl::VirtualGuardImpl guard(device.type());
  test_failures(device, guard);
  test_two_threads(device, guard);
  test_mapping(device);
  if (guard.deviceCount() > 1)
    test_streams_of_devices(device, {device.type(), 1}, guard);
  else
    std::cout << "device_test: 1 device, so the test of two devices is left out\n";
  test_deleter(device);
  std::cout << accelerator.name() << ": " << count << " checks, " << failed << " failures\n";
  return failed == 0 ? 0 : 1;
}
