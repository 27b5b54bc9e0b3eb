#include "device/runtime.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>

#include "device/device.h"

namespace ocl_backend {
namespace {

constexpr std::size_t kQueues = 17;  // the default stream and a pool of 16

struct Device {
  cl_device_id id = nullptr;
  DeviceInfo info;
  std::mutex mutex;
  std::array<std::unique_ptr<Queue>, kQueues> queues;
  std::atomic<unsigned> next{0};
  std::once_flag failure_made;
  std::atomic<int*> failure{nullptr};
  std::mutex checks_mutex;
  std::unique_ptr<Queue> checks;  ///< reads and resets the word `failure`
};

struct Runtime {
  cl_context context = nullptr;
  std::deque<Device> devices;
  std::string reason;
};

template <class Value>
Value info(cl_device_id device, cl_device_info what) {
  Value value{};
  clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

std::string text(cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  clGetDeviceInfo(device, what, 0, nullptr, &size);
  std::string value(size, '\0');
  clGetDeviceInfo(device, what, size, value.data(), nullptr);
  while (!value.empty() && value.back() == '\0') value.pop_back();
  return value;
}

/// The devices of the first platform with a device that supports coarse-grained SVM.
/// OCL_SUB_DEVICES=N splits the first device into N, to test programs for several devices.
std::vector<cl_device_id> find_devices(std::string& reason) {
  std::array<cl_platform_id, 16> platforms{};
  cl_uint count = 0;
  if (clGetPlatformIDs(platforms.size(), platforms.data(), &count) != CL_SUCCESS || count == 0) {
    reason = "no OpenCL platform is installed";
    return {};
  }
  reason = "no OpenCL device supports coarse-grained shared virtual memory";
  for (cl_uint i = 0; i < std::min<cl_uint>(count, platforms.size()); ++i) {
    std::array<cl_device_id, 16> ids{};
    cl_uint found = 0;
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, ids.size(), ids.data(), &found) !=
        CL_SUCCESS)
      continue;
    std::vector<cl_device_id> out;
    for (cl_uint j = 0; j < std::min<cl_uint>(found, ids.size()); ++j)
      if (info<cl_device_svm_capabilities>(ids[j], CL_DEVICE_SVM_CAPABILITIES) &
          CL_DEVICE_SVM_COARSE_GRAIN_BUFFER)
        out.push_back(ids[j]);
    if (out.empty()) continue;
    const char* parts = std::getenv("OCL_SUB_DEVICES");
    const auto wanted = parts != nullptr ? static_cast<cl_uint>(std::atoi(parts)) : 0;
    const auto units = info<cl_uint>(out[0], CL_DEVICE_MAX_COMPUTE_UNITS);
    if (wanted > 1 && wanted <= units && wanted <= ids.size()) {
      const std::array<cl_device_partition_property, 3> how{
          CL_DEVICE_PARTITION_EQUALLY, static_cast<cl_device_partition_property>(units / wanted),
          0};
      if (clCreateSubDevices(out[0], how.data(), ids.size(), ids.data(), &found) == CL_SUCCESS)
        out.assign(ids.begin(), ids.begin() + wanted);
    }
    reason =
        "OpenCL reports " + std::to_string(out.size()) + " device(s) with shared virtual memory";
    return out;
  }
  return {};
}

/// Leaked, because tensors may outlive static destruction.
Runtime& runtime() {
  static Runtime* instance = [] {
    auto* made = new Runtime;
    const auto ids = find_devices(made->reason);
    for (const auto id : ids) {
      auto& device = made->devices.emplace_back();
      device.id = id;
      device.info.name = text(id, CL_DEVICE_NAME);
      device.info.vendor = text(id, CL_DEVICE_VENDOR);
      device.info.driver = text(id, CL_DRIVER_VERSION);
      device.info.memory = info<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
      device.info.compute_units = static_cast<int>(info<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS));
      device.info.fp64 = info<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    }
    if (ids.empty()) return made;
    cl_int status = CL_SUCCESS;
    made->context = clCreateContext(nullptr, static_cast<cl_uint>(ids.size()), ids.data(), nullptr,
                                    nullptr, &status);
    if (status != CL_SUCCESS) made->devices.clear();
    return made;
  }();
  return *instance;
}

Device& device_at(c10::DeviceIndex index) {
  check_device(index);
  return runtime().devices[static_cast<std::size_t>(index)];
}

std::unique_ptr<Queue> make_queue(c10::DeviceIndex index) {
  const std::array<cl_queue_properties, 3> properties{CL_QUEUE_PROPERTIES,
                                                      CL_QUEUE_PROFILING_ENABLE, 0};
  cl_int status = CL_SUCCESS;
  auto queue = std::make_unique<Queue>();
  queue->device = index;
  queue->handle = clCreateCommandQueueWithProperties(context(), device_at(index).id,
                                                     properties.data(), &status);
  check(status, "clCreateCommandQueueWithProperties");
  return queue;
}

Queue& queue_at(c10::DeviceIndex index, c10::StreamId id) {
  auto& device = device_at(index);
  TORCH_CHECK(id >= 0 && id < static_cast<c10::StreamId>(kQueues), "ocl: no stream has the id ",
              id);
  const std::lock_guard lock(device.mutex);
  auto& queue = device.queues[static_cast<std::size_t>(id)];
  if (queue == nullptr) queue = make_queue(index);
  return *queue;
}

}  // namespace

void check(cl_int status, const char* what) {
  TORCH_CHECK(status == CL_SUCCESS, "ocl: ", what, " failed with OpenCL error ", status);
}

int count_devices(std::string& reason) noexcept {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return 0;
  const auto child = fork();
  if (child == 0) {
    std::string why;
    const auto count = static_cast<int>(find_devices(why).size());
    why.insert(why.begin(), static_cast<char>(count));
    const auto written = write(ends[1], why.data(), why.size());
    _exit(written > 0 ? 0 : 1);
  }
  close(ends[1]);
  std::array<char, 256> answer{};
  const auto got = child > 0 ? read(ends[0], answer.data(), answer.size()) : -1;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  if (got <= 0) {
    reason = "the process that counts OpenCL devices failed";
    return 0;
  }
  reason.assign(answer.data() + 1, static_cast<std::size_t>(got - 1));
  return answer[0];
}

c10::DeviceIndex device_count() noexcept {
  return static_cast<c10::DeviceIndex>(runtime().devices.size());
}
const DeviceInfo& device_info(c10::DeviceIndex index) { return device_at(index).info; }
cl_context context() { return runtime().context; }
cl_device_id device_id(c10::DeviceIndex index) { return device_at(index).id; }

bool Queue::idle() {
  check(clFlush(handle), "clFlush");
  const std::lock_guard lock(mutex_);
  if (last_ == nullptr) return true;
  return is_complete(last_);
}

bool is_complete(cl_event event) {
  cl_int status = CL_QUEUED;
  clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return status <= CL_COMPLETE;  // an error is negative
}

void wait_for(cl_event event) {
  cl_command_queue queue = nullptr;
  cl_device_id id = nullptr;
  check(clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, nullptr),
        "clGetEventInfo");
  check(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, nullptr),
        "clGetCommandQueueInfo");
  check(clWaitForEvents(1, &event), "clWaitForEvents");
  for (c10::DeviceIndex index = 0; index < device_count(); ++index)
    if (device_id(index) == id) check_failure(index);
}

cl_event Queue::mark() {
  cl_event marker = nullptr;
  check(enqueue([&](cl_event* event) {
          const auto status = clEnqueueMarkerWithWaitList(handle, 0, nullptr, event);
          if (status == CL_SUCCESS) clRetainEvent(marker = *event);
          return status;
        }),
        "clEnqueueMarkerWithWaitList");
  // Another queue can wait for the event only if the device has received it.
  check(clFlush(handle), "clFlush");
  return marker;
}

void Queue::wait(cl_event event) {
  check(enqueue([&](cl_event* barrier) {
          return clEnqueueBarrierWithWaitList(handle, 1, &event, barrier);
        }),
        "clEnqueueBarrierWithWaitList");
}

void Queue::drain() { check(clFinish(handle), "clFinish"); }

void Queue::finish() {
  drain();
  check_failure(device);
}

int* failure_word(c10::DeviceIndex index) {
  auto& device = device_at(index);
  std::call_once(device.failure_made, [&] {
    auto* word = static_cast<int*>(clSVMAlloc(context(), CL_MEM_READ_WRITE, sizeof(int), 0));
    TORCH_CHECK_WITH(OutOfMemoryError, word != nullptr, "ocl: clSVMAlloc failed");
    device.checks = make_queue(index);
    const int none = 0;
    check(clEnqueueSVMMemFill(device.checks->handle, word, &none, sizeof none, sizeof none, 0,
                              nullptr, nullptr),
          "clEnqueueSVMMemFill");
    device.checks->drain();
    device.failure = word;
  });
  return device.failure;
}

void check_failure(c10::DeviceIndex index) {
  auto& device = device_at(index);
  int* word = device.failure;
  if (word == nullptr) return;  // no kernel that reports failures has run
  int failure = 0;
  {
    // The word is read on its own queue, so that the check does not wait for later kernels, and
    // copied, because kernels of other queues may write it and must not run while it is mapped.
    const std::lock_guard lock(device.checks_mutex);
    auto* queue = device.checks->handle;
    check(clEnqueueSVMMemcpy(queue, CL_TRUE, &failure, word, sizeof failure, 0, nullptr, nullptr),
          "clEnqueueSVMMemcpy");
    if (failure == 0) return;
    const int none = 0;
    check(clEnqueueSVMMemFill(queue, word, &none, sizeof none, sizeof none, 0, nullptr, nullptr),
          "clEnqueueSVMMemFill");
    device.checks->drain();
  }
  TORCH_CHECK_INDEX(failure != 1, "ocl: an index is out of range in index_select or an embedding");
  TORCH_CHECK_INDEX(failure != 2, "ocl: a target is out of range in nll_loss or cross_entropy");
}

Queue& queue_of(const c10::Stream& stream) { return queue_at(stream.device_index(), stream.id()); }

c10::StreamId new_stream_id(c10::DeviceIndex index) {
  return 1 + static_cast<c10::StreamId>(device_at(index).next++ % (kQueues - 1));
}

void drain_device(c10::DeviceIndex index) {
  auto& device = device_at(index);
  std::vector<Queue*> queues;
  {
    const std::lock_guard lock(device.mutex);
    for (auto& queue : device.queues)
      if (queue != nullptr) queues.push_back(queue.get());
  }
  for (auto* queue : queues) queue->drain();
}

void finish_device(c10::DeviceIndex index) {
  drain_device(index);
  check_failure(index);
}

Mapping::Mapping(c10::DeviceIndex device, const void* memory, std::size_t bytes, bool write) {
  if (memory == nullptr || bytes == 0) return;
  auto& queue = current_queue(device);
  auto* target = const_cast<void*>(memory);
  check(clEnqueueSVMMap(queue.handle, CL_TRUE, write ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ,
                        target, bytes, 0, nullptr, nullptr),
        "clEnqueueSVMMap");
  queue_ = &queue;
  memory_ = target;
}

Mapping::Mapping(Mapping&& other) noexcept
    : queue_(std::exchange(other.queue_, nullptr)),
      memory_(std::exchange(other.memory_, nullptr)) {}

Mapping::~Mapping() {
  if (queue_ == nullptr) return;
  queue_->enqueue([&](cl_event* event) {
    return clEnqueueSVMUnmap(queue_->handle, memory_, 0, nullptr, event);
  });
}

}  // namespace ocl_backend
