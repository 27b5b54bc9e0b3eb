// The vendor's runtime: OpenCL. Everything that calls OpenCL for devices, queues, copies and kernel
// launches is declared here.
#pragma once

#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ocl_backend {

/// Throws if an OpenCL call failed. `what` names the call.
void check(cl_int status, const char* what);

/// Returns the number of devices without initializing OpenCL in this process: a child process
/// counts them. OpenCL implementations start threads, and a process with threads cannot fork
/// safely.
int count_devices(std::string& reason) noexcept;

struct DeviceInfo {
  std::string name, vendor, driver;
  std::size_t memory = 0;
  int compute_units = 0;
  bool fp64 = false;
};

/// Returns the number of devices and initializes OpenCL on the first call.
c10::DeviceIndex device_count() noexcept;
const DeviceInfo& device_info(c10::DeviceIndex index);
/// Returns the word in shared memory that kernels of the device set if their input is invalid.
int* failure_word(c10::DeviceIndex index);
/// Throws if a kernel that has completed has set the word, and resets it. Called after each wait,
/// except while memory is allocated.
void check_failure(c10::DeviceIndex index);
cl_context context();
cl_device_id device_id(c10::DeviceIndex index);

/// An in-order command queue. Streams are indices into a device's queues.
class Queue {
 public:
  cl_command_queue handle = nullptr;
  c10::DeviceIndex device = 0;
  /// Calls `call(&event)`, which enqueues one command without waiting for it, and keeps the event:
  /// its state is the state of the queue. Threads that share the queue enqueue one at a time, so
  /// that the last event belongs to the last command. Returns the status of the call.
  template <class Call>
  cl_int enqueue(const Call& call) {
    const std::lock_guard lock(mutex_);
    cl_event event = nullptr;
    const cl_int status = call(&event);
    if (status != CL_SUCCESS) return status;
    if (last_ != nullptr) clReleaseEvent(last_);
    last_ = event;
    return status;
  }
  /// Returns whether all commands are complete.
  bool idle();
  /// Waits for all commands. Does not check for failures in kernels.
  void drain();
  /// Waits for all commands and calls check_failure().
  void finish();
  /// Returns an event that completes after all commands so far. The caller releases it.
  cl_event mark();
  /// Makes later commands wait for the event.
  void wait(cl_event event);

 private:
  std::mutex mutex_;
  cl_event last_ = nullptr;
};

bool is_complete(cl_event event);
/// Waits for the event and checks the event's device for failures in kernels.
void wait_for(cl_event event);

/// Returns the queue of a stream, or of this thread's current stream on the device.
Queue& queue_of(const c10::Stream& stream);
Queue& current_queue(c10::DeviceIndex index);
/// Returns the id of a new or pooled stream.
c10::StreamId new_stream_id(c10::DeviceIndex index);
/// Waits for all queues of the device. Does not check for failures in kernels.
void drain_device(c10::DeviceIndex index);
/// Waits for all queues of the device and calls check_failure().
void finish_device(c10::DeviceIndex index);

/// Keeps pinned host memory from being freed before the event is complete.
void use_pinned(const void* address, cl_event event);

/// Makes SVM accessible to the host while the object exists. The constructor waits for the work
/// that is queued on the current stream.
class Mapping {
 public:
  Mapping(c10::DeviceIndex device, const void* memory, std::size_t bytes, bool write);
  Mapping(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

 private:
  Queue* queue_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace ocl_backend
