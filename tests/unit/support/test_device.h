// A small synchronous device in host memory that replaces a torch device type, so that tests can
// run the real generic and vendor backends. It has streams, events, allocator statistics,
// generators and, with LibTorch 2.12 or later, graphs. Install it at the start of a test, because
// torch caches hooks when it first uses them. A process can have only one such device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
#define ANYACCEL_TEST_GRAPHS 1
#include <ATen/core/GraphImplInterface.h>
#else
#define ANYACCEL_TEST_GRAPHS 0
#endif

namespace anyaccel::test {

constexpr std::size_t kDeviceMemory = 64U << 20U;

/// State that tests read and set. There is one per process.
struct TestDevice {
  c10::DeviceType type = c10::DeviceType::PrivateUse1;
  int count = 2;
  bool initialized = false;  ///< the hooks' init() was called
  int cache_emptied = 0;     ///< number of emptyCache() calls
  int graph_replays = 0;
  int events_awaited = 0;  ///< number of synchronizeEvent() calls
  bool macos14 = true;     ///< returned by the MPS hooks
  /// The allocator reports neither statistics nor free memory, and a failed allocation throws a
  /// plain c10::Error.
  bool minimal_allocator = false;
  bool graphs = true;  ///< register graphs with torch (from LibTorch 2.12); set before installation
  /// The guard leaves out the functions that torch makes optional and that some vendors' guards
  /// lack.
  bool minimal_guard = false;
  bool default_is_current = false;  ///< the guard's default stream is the current one
  bool memory_info = true;          ///< the allocator reports free memory
  std::vector<c10::CachingDeviceAllocator::DeviceStats> stats;

  static TestDevice& get() {
    static auto* device = new TestDevice;
    return *device;
  }
};

namespace test_device {

inline thread_local c10::DeviceIndex current = 0;
inline thread_local std::map<c10::DeviceIndex, c10::StreamId> streams;

inline std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return TestDevice::get().type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto old = getDevice();
    setDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return {type(), current}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < deviceCount(), "no such test device: ", device);
    if (device.index() >= 0) current = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    return make(device.index(), streams[device.index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    if (TestDevice::get().minimal_guard) return DeviceGuardImplInterface::getDefaultStream(device);
    if (TestDevice::get().default_is_current) return getStream(device);
    return make(device.index(), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    static std::atomic<c10::StreamId> next{1};
    return make(device.index(), next++ * 10 - priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto old = getStream(stream.device());
    streams[stream.device_index()] = stream.id();
    return old;
  }
  void* getStreamNativeHandle(c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id() + 1);
  }
  bool queryStream(const c10::Stream& stream) const override {
    return !TestDevice::get().minimal_guard || DeviceGuardImplInterface::queryStream(stream);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    if (TestDevice::get().minimal_guard) DeviceGuardImplInterface::synchronizeStream(stream);
  }
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<std::int64_t*>(event);
  }
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new std::int64_t;
    *static_cast<std::int64_t*>(*event) = now();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { ++TestDevice::get().events_awaited; }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    return static_cast<double>(*static_cast<std::int64_t*>(to) -
                               *static_cast<std::int64_t*>(from)) *
           1e-6;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(TestDevice::get().count);
  }
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    if (TestDevice::get().minimal_guard)
      return DeviceGuardImplInterface::getDeviceCapability(device);
    return {};
  }

 private:
  c10::Stream make(c10::DeviceIndex index, c10::StreamId id) const {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(type(), index), id);
  }
};

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    auto& stats = of(current);
    const auto free = kDeviceMemory - static_cast<std::size_t>(stats.allocated_bytes[0].current);
    TORCH_CHECK(bytes <= free || !TestDevice::get().minimal_allocator, "Failed to allocate ", bytes,
                " bytes on test device");
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= free, "test device is full");
    auto* block = new Block{std::malloc(bytes == 0 ? 1 : bytes), bytes, current};
    count(*block, +1);
    return {block->memory, block, &release, c10::Device(TestDevice::get().type, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool initialized() override { return TestDevice::get().initialized; }
  void emptyCache(c10::MempoolId_t) override { ++TestDevice::get().cache_emptied; }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    TORCH_CHECK_NOT_IMPLEMENTED(!TestDevice::get().minimal_allocator, "no statistics");
    return of(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    for (auto* array : {&of(device).allocated_bytes, &of(device).reserved_bytes})
      (*array)[0].reset_peak();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    if (!TestDevice::get().memory_info || TestDevice::get().minimal_allocator)
      return DeviceAllocator::getMemoryInfo(device);
    return {kDeviceMemory - static_cast<std::size_t>(of(device).allocated_bytes[0].current),
            kDeviceMemory};
  }

 private:
  struct Block {
    void* memory;
    std::size_t bytes;
    c10::DeviceIndex device;
  };
  static c10::CachingDeviceAllocator::DeviceStats& of(c10::DeviceIndex device) {
    return TestDevice::get().stats.at(static_cast<std::size_t>(device));
  }
  static void count(const Block& block, int sign) {
    auto& stats = of(block.device);
    for (auto* array : {&stats.allocated_bytes, &stats.reserved_bytes}) {
      if (sign > 0)
        (*array)[0].increase(block.bytes);
      else
        (*array)[0].decrease(block.bytes);
    }
    if (sign > 0)
      stats.allocation[0].increase(1);
    else
      stats.allocation[0].decrease(1);
  }
  static void release(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    count(*block, -1);
    std::free(block->memory);
  }
};

/// Pinned host memory: ordinary memory whose blocks are recorded.
class HostAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = std::malloc(bytes == 0 ? 1 : bytes);
    sizes()[memory] = bytes;
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  static bool holds(const void* pointer) {
    const auto next = sizes().upper_bound(const_cast<void*>(pointer));
    if (next == sizes().begin()) return false;
    const auto& [start, bytes] = *std::prev(next);
    return static_cast<const char*>(pointer) < static_cast<const char*>(start) + bytes;
  }

 private:
  static std::map<void*, std::size_t>& sizes() {
    static auto* map = new std::map<void*, std::size_t>;
    return *map;
  }
  static void release(void* memory) {
    sizes().erase(memory);
    std::free(memory);
  }
};

class Generator final : public at::CPUGeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index) {
    device_ = c10::Device(TestDevice::get().type, index);
  }
};

inline Allocator& allocator() {
  static auto* instance = new Allocator;
  return *instance;
}
inline HostAllocator& host_allocator() {
  static auto* instance = new HostAllocator;
  return *instance;
}

/// Base class of all hooks.
template <typename Base>
class Hooks : public Base {
 public:
  void init() const override { TestDevice::get().initialized = true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return TestDevice::get().count > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return TestDevice::get().initialized; }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(TestDevice::get().count);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static auto* generators = new std::map<c10::DeviceIndex, at::Generator>;
    if (index < 0) index = current;
    const auto found = generators->find(index);
    return found != generators->end()
               ? found->second
               : generators->emplace(index, at::make_generator<Generator>(index)).first->second;
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &host_allocator(); }
  bool isPinnedPtr(const void* pointer) const override { return HostAllocator::holds(pointer); }
  at::Device getDeviceFromPtr(void*) const override { return {TestDevice::get().type, current}; }
};
struct CudaHooks final : Hooks<at::CUDAHooksInterface> {
  bool hasCUDA() const override { return true; }
  c10::DeviceIndex current_device() const override { return current; }
  int getNumGPUs() const override { return TestDevice::get().count; }
};
struct XpuHooks final : Hooks<at::XPUHooksInterface> {
  bool hasXPU() const override { return true; }
};
struct HpuHooks final : Hooks<at::HPUHooksInterface> {
  bool hasHPU() const override { return true; }
};
struct MpsHooks final : Hooks<at::MPSHooksInterface> {
  bool hasMPS() const override { return true; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return TestDevice::get().macos14; }
  std::size_t getCurrentAllocatedMemory() const override { return bytes(); }
  std::size_t getDriverAllocatedMemory() const override { return bytes(); }
  std::size_t getRecommendedMaxMemory() const override { return kDeviceMemory; }
  void emptyCache() const override { ++TestDevice::get().cache_emptied; }
  static std::size_t bytes() {
    return static_cast<std::size_t>(TestDevice::get().stats[0].allocated_bytes[0].current);
  }
};
using PrivateHooks = Hooks<at::PrivateUse1HooksInterface>;

#if ANYACCEL_TEST_GRAPHS
struct TestGraph final : at::GraphImplInterface {
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override { pool_ = pool; }
  void capture_end() override {}
  void instantiate() override {}
  void replay() override { ++TestDevice::get().graph_replays; }
  void reset() override {}
  c10::MempoolId_t pool() const override { return pool_; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string&) override {}
  c10::MempoolId_t pool_;
};
#endif

/// Creates hooks and ignores the argument that some LibTorch versions pass.
template <typename Hooks>
struct MakeHooks {
  std::unique_ptr<Hooks> operator()(auto&&...) const { return std::make_unique<Hooks>(); }
};

inline void register_hooks(c10::DeviceType type) {
  switch (type) {
    case c10::DeviceType::CUDA:
      at::CUDAHooksRegistry()->Register("CUDAHooks", MakeHooks<CudaHooks>());
      break;
    case c10::DeviceType::HPU:
      at::HPUHooksRegistry()->Register("HPUHooks", MakeHooks<HpuHooks>());
      break;
    case c10::DeviceType::XPU:
      at::XPUHooksRegistry()->Register("XPUHooks", MakeHooks<XpuHooks>());
      break;
    case c10::DeviceType::MPS:
      at::MPSHooksRegistry()->Register("MPSHooks", MakeHooks<MpsHooks>());
      break;
    default: at::RegisterPrivateUse1HooksInterface(new PrivateHooks);
  }
}

/// Registers kernels that create, copy and fill tensors on the device. All other ops run on the
/// CPU, in the same memory.
inline void register_kernels(c10::DeviceType type) {
  const auto key = c10::computeDispatchKey({}, {}, c10::Device(type));
  static torch::Library kernels(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  kernels.impl("empty.memory_format",
               [](c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                  std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                  std::optional<at::MemoryFormat>) -> at::Tensor {
                 const auto device = c10::Device(TestDevice::get().type);
                 return at::detail::empty_generic(
                     C10_AS_INTARRAYREF_SLOW(size), &allocator(),
                     c10::DispatchKeySet(c10::computeDispatchKey({}, {}, device)),
                     dtype.value_or(at::kFloat), std::nullopt);
               });
}

}  // namespace test_device

/// Installs a test device as torch's type `name` ("hpu", "xpu", "cuda", "mps"), or as PrivateUse1
/// under this name. With an empty name, PrivateUse1 is not renamed.
inline TestDevice& install_test_device(const std::string& name, int count = 2) {
  static const std::map<std::string, c10::DeviceType> kTypes{{"cuda", c10::DeviceType::CUDA},
                                                             {"hpu", c10::DeviceType::HPU},
                                                             {"xpu", c10::DeviceType::XPU},
                                                             {"mps", c10::DeviceType::MPS}};
  auto& device = TestDevice::get();
  const auto found = kTypes.find(name);
  device.type = found == kTypes.end() ? c10::DeviceType::PrivateUse1 : found->second;
  device.count = count;
  device.stats.resize(static_cast<std::size_t>(count));
  if (found == kTypes.end() && !name.empty()) c10::register_privateuse1_backend(name);
  test_device::register_hooks(device.type);
  c10::SetAllocator(device.type, &test_device::allocator(), 255);
  at::setHostAllocator(device.type, &test_device::host_allocator(), 255);
  static c10::impl::DeviceGuardImplRegistrar guard(device.type, new test_device::Guard);
#if ANYACCEL_TEST_GRAPHS
  if (device.graphs)
    at::GraphImplRegistry()->Register(
        c10::DeviceTypeName(device.type, false),
        [](const at::GraphImplArgs&) { return std::make_unique<test_device::TestGraph>(); });
#endif
  test_device::register_kernels(device.type);
  return device;
}

}  // namespace anyaccel::test
