// Interfaces for backend authors: 25 virtual functions, 7 of them pure, grouped by topic.
// `TorchBackend` (sdk/torch_backend.h) implements all of them for any device type that torch knows.
// A backend for such a device derives from it and overrides only what differs.
//
// Before it calls a backend, `Accelerator` checks that indices are in range and fills in default
// values. Functions may be called from any thread. To reject a call, throw `anyaccel::Error` with
// `ErrorCode::unsupported`. Functions marked "Optional" have a default implementation, which their
// comment describes.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>

#include <memory>
#include <string>

#include "anyaccel/device.h"
#include "anyaccel/dtype.h"
#include "anyaccel/event.h"
#include "anyaccel/export.h"
#include "anyaccel/graph.h"
#include "anyaccel/memory.h"
#include "anyaccel/sdk/op_builder.h"
#include "anyaccel/sdk/traits.h"
#include "anyaccel/stream.h"

namespace anyaccel::sdk {

/// An event. Created by `StreamInterface::new_event()`.
class ANYACCEL_API EventImpl {
 public:
  virtual ~EventImpl() = default;
  /// Mark the end of the work queued on `stream` so far.
  virtual void record(const Stream& stream) = 0;
  /// Make work that is queued on `stream` after this call wait for the event. Optional; does
  /// nothing by default, which is correct for synchronous devices.
  virtual void wait(const Stream& stream);
  /// Return whether the work before the event is complete. Optional; returns true by default, which
  /// is correct for synchronous devices.
  virtual bool query() const;
  /// Block the host until the work before the event is complete. Optional; does nothing by default,
  /// which is correct for synchronous devices.
  virtual void synchronize() const;
  /// Return the time from this event to `end`, an event of the same class, in milliseconds. Called
  /// only if both events have timing, were recorded and are complete.
  virtual double elapsed_time(const EventImpl& end) const = 0;

 private:
  // Set by `Event` and `Accelerator::Event()`. All copies of an event share these flags.
  friend class ::anyaccel::Event;
  friend class ::anyaccel::Accelerator;
  bool timing_ = false;
  bool recorded_ = false;
};

/// A graph. Created by `GraphInterface::new_graph()`. `Graph` ensures a valid order of calls.
class ANYACCEL_API GraphImpl {
 public:
  virtual ~GraphImpl() = default;
  /// Start capturing this thread's work, allocating from `pool` if given.
  virtual void capture_begin(std::optional<GraphPool> pool) = 0;
  /// End the capture. Throws if an op could not be captured.
  virtual void capture_end() = 0;
  /// Run the captured work.
  virtual void replay() = 0;
  /// Discard the captured work. Also called during a capture to abandon it, and must not throw
  /// then.
  virtual void reset() = 0;
  /// Return the graph's memory pool. Optional; throws `unsupported` by default.
  virtual GraphPool pool() const;
};

/// Devices and their properties.
class ANYACCEL_API DeviceInterface {
 public:
  virtual ~DeviceInterface() = default;
  /// Return the number of devices that this process may use. Must not throw or create a context.
  virtual DeviceIndex device_count() const noexcept = 0;
  /// Return this thread's current device.
  virtual DeviceIndex current_device() const = 0;
  /// Make a device current on this thread.
  virtual void set_device(DeviceIndex index) = 0;
  /// Wait for all work on a device. Throws `device_error` if that work failed.
  virtual void synchronize(DeviceIndex index) = 0;
  /// Return whether the device's runtime is initialized in this process. Optional; returns true by
  /// default.
  virtual bool is_initialized() const noexcept;
  /// Return a device's properties. Optional; by default, returns only `vendor` and `triton`, which
  /// it takes from the traits.
  virtual DeviceProperties properties(DeviceIndex index) const;
  /// Return how well a device supports a dtype. Optional. By default, integers and IEEE types of up
  /// to 32 bits are storable, and computable if torch has arithmetic for them (not bool, uint16,
  /// uint32, uint64); the traits determine whether float64 is supported.
  virtual DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const;
};

/// Random number generators.
class ANYACCEL_API RandomInterface {
 public:
  virtual ~RandomInterface() = default;
  /// Return the device's default generator, through which seeding, state and offset are accessed.
  virtual at::Generator default_generator(DeviceIndex index) const = 0;
};

/// Streams and events.
class ANYACCEL_API StreamInterface {
 public:
  virtual ~StreamInterface() = default;
  /// Return this thread's current stream on a device.
  virtual Stream current_stream(DeviceIndex index) const = 0;
  /// Make the stream current on its device, for this thread.
  virtual void set_stream(const Stream& stream) = 0;
  /// Return the default stream. Optional; returns the stream with id 0 by default.
  virtual Stream default_stream(DeviceIndex index) const;
  /// Return a new or pooled stream. Lower `priority` values are more urgent; 0 is normal. Optional;
  /// throws `unsupported` by default.
  virtual Stream new_stream(DeviceIndex index, int priority);
  /// Create an event. Optional; throws `unsupported` by default.
  virtual std::shared_ptr<EventImpl> new_event(DeviceIndex index, bool enable_timing);
};

/// Device memory and pinned host memory.
class ANYACCEL_API MemoryInterface {
 public:
  virtual ~MemoryInterface() = default;
  /// Return the allocator's counters. Optional; throws `unsupported` by default.
  virtual MemoryStats memory_stats(DeviceIndex index) const;
  /// Return the free and total bytes of a device. Memory that other processes use does not count as
  /// free. Optional; throws `unsupported` by default.
  virtual MemoryInfo memory_info(DeviceIndex index) const;
  /// Reset the peaks of memory_stats() to the current values. Optional; throws `unsupported` by
  /// default.
  virtual void reset_peak_memory_stats(DeviceIndex index);
  /// Return unused cached memory of all devices to the driver. Optional; does nothing by default,
  /// which is correct for allocators without a cache.
  virtual void empty_cache();
  /// Return the allocator for pinned host memory. is_pinned() recognizes the allocator's blocks by
  /// raw_deleter(), and asks torch about all other memory. Optional; returns null by default, which
  /// means that the backend does not pin memory.
  virtual c10::Allocator* host_allocator() const;
  /// Page-lock the caller's memory and register it with the device. Returns whether it was
  /// registered. Optional; returns false by default.
  virtual bool register_host_memory(void* address, std::size_t bytes);
  /// Unregister memory. Optional; does nothing by default.
  virtual void unregister_host_memory(void* address);
};

/// Graphs.
class ANYACCEL_API GraphInterface {
 public:
  virtual ~GraphInterface() = default;
  /// Create an empty graph. Optional; throws `unsupported` with the reason by default.
  virtual std::shared_ptr<GraphImpl> new_graph();
  /// Return whether this thread's work is being captured. Optional; returns false by default.
  virtual bool is_current_stream_capturing() const;
};

/// Op builders.
class ANYACCEL_API OpsInterface {
 public:
  virtual ~OpsInterface() = default;
  /// Create the op builder with this class name for this backend. If it returns null, `Accelerator`
  /// creates a builder whose load() throws `unsupported`. Optional; by default, creates the builder
  /// that was registered for this backend with `register_op_builder()`.
  virtual std::shared_ptr<OpBuilder> create_op_builder(const std::string& class_name);
};

/// Profiler ranges.
class ANYACCEL_API EnvironmentInterface {
 public:
  virtual ~EnvironmentInterface() = default;
  /// Open a named range in the profiler. `domain` and `category` are empty unless the traits
  /// support them. Optional; by default, opens a user scope in torch's profiler
  /// (`at::RecordFunction`).
  virtual void range_push(const std::string& message, const std::string& domain,
                          const std::string& category);
  /// Close the innermost range of this thread. Optional; by default, closes the scope that the
  /// default range_push() opened.
  virtual void range_pop(const std::string& domain);
};

/// A backend: its traits and the interfaces above. `Accelerator` owns it until the process exits.
class ANYACCEL_API Backend : public DeviceInterface,
                             public RandomInterface,
                             public StreamInterface,
                             public MemoryInterface,
                             public GraphInterface,
                             public OpsInterface,
                             public EnvironmentInterface {
 public:
  /// Create a backend. Throws `unavailable` if this process's LibTorch does not know the traits'
  /// device type.
  explicit Backend(Traits traits);
  ~Backend() override = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const Traits& traits() const noexcept { return traits_; }
  /// torch's device type for the traits' `device_type`. It can be PrivateUse1, renamed to that
  /// name.
  c10::DeviceType device_type() const noexcept { return device_type_; }

  DeviceProperties properties(DeviceIndex index) const override;
  std::shared_ptr<OpBuilder> create_op_builder(const std::string& class_name) override;

 protected:
  /// Throw `unsupported` with the text "`feature` is not supported by the accelerator '<name>'",
  /// followed by the reason if given.
  [[noreturn]] void fail_unsupported(const char* where, const std::string& feature,
                                     const std::string& reason = {}) const;
  /// A constructor may adapt the traits to the machine, for example the CPU's communication
  /// backend.
  Traits traits_;

 private:
  c10::DeviceType device_type_;
};

}  // namespace anyaccel::sdk
