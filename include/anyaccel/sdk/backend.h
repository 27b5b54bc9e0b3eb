// What the author of a backend writes: small interfaces by noun, 25 virtual functions, 7 of them
// pure. `src/backends/torch` implements all of them for any device type that torch knows, so a
// backend for such a device derives from `TorchBackend` (sdk/torch_backend.h) and overrides only
// what differs. Arguments arrive checked (index in range, defaults filled in) by `Accelerator`.
// Functions may be called from any thread. To refuse, throw `anyaccel::Error` with
// `ErrorCode::unsupported`.
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

/// One event. Made by `StreamInterface::new_event`.
class ANYACCEL_API EventImpl {
 public:
  virtual ~EventImpl() = default;
  virtual void record(const Stream& stream) = 0;
  /// Makes work queued on `stream` from now on wait. Optional: nothing to do on a synchronous
  /// device.
  virtual void wait(const Stream& stream);
  /// Optional: true, right for a synchronous device.
  virtual bool query() const;
  /// Optional: nothing to do on a synchronous device.
  virtual void synchronize() const;
  /// Milliseconds to `end`, which is of the same class. Called only when both have timing and were
  /// recorded.
  virtual double elapsed_time(const EventImpl& end) const = 0;

 private:
  // Kept by `Event` and `Accelerator::Event`, shared by all copies of an event.
  friend class ::anyaccel::Event;
  friend class ::anyaccel::Accelerator;
  bool timing_ = false;
  bool recorded_ = false;
};

/// One graph. Made by `GraphInterface::new_graph`. `Graph` keeps the order of calls right.
class ANYACCEL_API GraphImpl {
 public:
  virtual ~GraphImpl() = default;
  virtual void capture_begin(std::optional<GraphPool> pool) = 0;
  virtual void capture_end() = 0;
  virtual void replay() = 0;
  /// Forgets the work. Also called while capturing, to abandon the capture. Must not throw then.
  virtual void reset() = 0;
  /// Optional: throws unsupported.
  virtual GraphPool pool() const;
};

class ANYACCEL_API DeviceInterface {
 public:
  virtual ~DeviceInterface() = default;
  /// Devices that this process may use. Never throws, makes no context.
  virtual DeviceIndex device_count() const noexcept = 0;
  /// This thread's device.
  virtual DeviceIndex current_device() const = 0;
  virtual void set_device(DeviceIndex index) = 0;
  /// Waits for all work on a device; throws `device_error` where it failed.
  virtual void synchronize(DeviceIndex index) = 0;
  /// Whether the device runtime runs in this process. Optional: true.
  virtual bool is_initialized() const noexcept;
  /// Optional: what the traits say (vendor, triton) and nothing else.
  virtual DeviceProperties properties(DeviceIndex index) const;
  /// Optional: IEEE types up to 32 bits and integers are storable, and computable as far as torch
  /// has arithmetic for them (not bool, uint16, uint32, uint64); fp64 as traits say.
  virtual DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const;
};

class ANYACCEL_API RandomInterface {
 public:
  virtual ~RandomInterface() = default;
  /// The device's default generator; seeding, state and offset go through it.
  virtual at::Generator default_generator(DeviceIndex index) const = 0;
};

class ANYACCEL_API StreamInterface {
 public:
  virtual ~StreamInterface() = default;
  virtual Stream current_stream(DeviceIndex index) const = 0;
  /// Makes the stream current on its device, for this thread.
  virtual void set_stream(const Stream& stream) = 0;
  /// Optional: stream 0.
  virtual Stream default_stream(DeviceIndex index) const;
  /// A new or pooled stream; lower `priority` numbers are more urgent, 0 is normal. Optional:
  /// throws unsupported.
  virtual Stream new_stream(DeviceIndex index, int priority);
  /// Optional: throws unsupported.
  virtual std::shared_ptr<EventImpl> new_event(DeviceIndex index, bool enable_timing);
};

class ANYACCEL_API MemoryInterface {
 public:
  virtual ~MemoryInterface() = default;
  /// Bytes handed out. Optional: throws unsupported.
  virtual MemoryStats memory_stats(DeviceIndex index) const;
  /// Free and total bytes, other processes counted. Optional: throws unsupported.
  virtual MemoryInfo memory_info(DeviceIndex index) const;
  /// Optional: throws unsupported.
  virtual void reset_peak_memory_stats(DeviceIndex index);
  /// Gives unused cached memory of all devices back. Optional: nothing to do without a cache.
  virtual void empty_cache();
  /// Allocator of fast host memory; is_pinned() goes by its raw_deleter(), else asks torch.
  /// Optional: null, no pinning.
  virtual c10::Allocator* host_allocator() const;
  /// Page-locks and registers foreign host memory. Optional: false, not registered.
  virtual bool register_host_memory(void* address, std::size_t bytes);
  /// Optional: nothing to do.
  virtual void unregister_host_memory(void* address);
};

class ANYACCEL_API GraphInterface {
 public:
  virtual ~GraphInterface() = default;
  /// Optional: throws unsupported with the reason.
  virtual std::shared_ptr<GraphImpl> new_graph();
  /// Optional: false.
  virtual bool is_current_stream_capturing() const;
};

class ANYACCEL_API OpsInterface {
 public:
  virtual ~OpsInterface() = default;
  /// The builder of that class name for this backend, or null: `Accelerator` then answers with
  /// a builder whose load() says "not implemented on <backend>". Optional: what was registered with
  /// `register_op_builder(backend name, ...)`.
  virtual std::shared_ptr<OpBuilder> create_op_builder(const std::string& class_name);
};

class ANYACCEL_API EnvironmentInterface {
 public:
  virtual ~EnvironmentInterface() = default;
  /// Opens a named range in the profiler. `domain` and `category` only where traits say so, else
  /// empty. Optional: a user scope of torch's profiler (`at::RecordFunction`).
  virtual void range_push(const std::string& message, const std::string& domain,
                          const std::string& category);
  /// Closes the innermost range of this thread. Optional: as range_push.
  virtual void range_pop(const std::string& domain);
};

/// A backend: its traits and the interfaces above. `Accelerator` holds it for the process's life.
class ANYACCEL_API Backend : public DeviceInterface,
                             public RandomInterface,
                             public StreamInterface,
                             public MemoryInterface,
                             public GraphInterface,
                             public OpsInterface,
                             public EnvironmentInterface {
 public:
  explicit Backend(Traits traits);
  ~Backend() override = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const Traits& traits() const noexcept { return traits_; }
  /// torch's type of the traits' `device_type`; renamed PrivateUse1 counts when that name is taken.
  c10::DeviceType device_type() const noexcept { return device_type_; }

  DeviceProperties properties(DeviceIndex index) const override;
  std::shared_ptr<OpBuilder> create_op_builder(const std::string& class_name) override;

 protected:
  /// Throws `unsupported` in the words "`feature` is not supported by the <name> accelerator".
  [[noreturn]] void fail_unsupported(const char* where, const std::string& feature,
                                     const std::string& reason = {}) const;
  /// A constructor may adapt its traits to the machine (the cpu's communication backend).
  Traits traits_;

 private:
  c10::DeviceType device_type_;
};

}  // namespace anyaccel::sdk
