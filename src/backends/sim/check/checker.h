// The observer that SIM_CHECK enables. Passes the simulator's events to the detector and turns the
// detector's conflicts into reports.
#pragma once

#include <c10/core/TensorImpl.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "backends/sim/check/detector.h"
#include "backends/sim/check/host_views.h"
#include "backends/sim/check/op_context.h"
#include "backends/sim/check/program_end.h"
#include "backends/sim/check/reporter.h"
#include "backends/sim/check/stack.h"
#include "backends/sim/observer.h"

namespace anyaccel::backends::sim::checking {

/// Checks that are off by default.
struct ExtraChecks {
  bool leaks = false;
  bool uninitialized = false;
};

/// Parses "leaks,uninitialized". Throws `invalid_argument` for other words.
ExtraChecks parse_extra_checks(const std::string& text);

/// Thread-safe.
class Checker final : public Observer {
 public:
  /// `keep_stacks`: store the call stack of each launch, so that a report shows the stacks of both
  /// operations. This is slow.
  /// `exit_code`: the exit code if the program succeeds but problems were reported; 0 keeps the
  /// program's own exit code.
  Checker(bool aborts, const std::string& json_file, bool keep_stacks,
          Suppressions suppressions = {}, int exit_code = 0, ExtraChecks extra = {});

  void on_launch(SimStream& stream, const LaunchInfo& info) override;
  std::unique_ptr<KernelWatch> watch_kernel(SimStream& stream, const LaunchInfo& info) override;
  void on_stream_create(SimStream& stream) noexcept override;
  void on_allocate(const void* address, std::size_t bytes, SimStream& stream) override;
  void on_free(const void* address, std::size_t bytes, SimStream& stream) noexcept override;
  void on_out_of_memory(int device, std::size_t bytes) override;
  void on_reject(const std::string& what) override;
  void on_unseeded_draw(SimStream& stream) override;
  void on_record_stream(const void* address, std::size_t bytes, SimStream& stream) override;
  void on_graph_end(const void* graph) noexcept override;
  void on_event_record(std::uint64_t record, SimStream& stream) override;
  void on_event_wait(std::uint64_t record, SimStream& stream) override;
  void on_event_incomplete() override { expect_early_use(); }
  void on_event_synchronize(std::uint64_t record) override;
  void on_stream_synchronize(SimStream& stream) override;
  void on_device_synchronize(int device) override;
  void on_pinned_copy(const Operand& host, SimStream& stream) override;
  void on_pinned_allocate(const void* address, std::size_t bytes) override;

  /// Returns true if the access can be retried.
  bool on_fault(std::uintptr_t address, bool writes);
  /// Reports the last out-of-memory error if that error ended the program, then prints the summary.
  void on_program_end(bool failed, Uncaught uncaught);
  void on_refused(const Refusal& refusal);
  /// True if on_host_op() may find a problem.
  bool wants_host_op() const noexcept { return views_.has_parts(); }
  /// Reports an op that accesses a part of pinned memory while a copy may be in flight.
  void on_host_op(const c10::OperatorName& op, c10::ArrayRef<const c10::IValue> arguments);

  /// Reports a read of a part of pinned memory while a copy may be in flight.
  void on_host_read(std::uintptr_t address, std::size_t bytes);
  /// Returns the address of a guarded view of pinned memory that an in-flight copy covers; 0 if no
  /// copy covers it.
  std::uintptr_t map_view(std::uintptr_t address, std::size_t bytes);
  void unmap_view(std::uintptr_t address, std::size_t bytes);

  /// Makes fork() leave the checker's locks unlocked in the child. Only for a checker that is never
  /// destroyed.
  void keep_locks_free_in_forks();

  /// Forgets what was reported, when the devices are reset.
  void clear();
  Reporter& reporter() noexcept { return reporter_; }
  const Reporter& reporter() const noexcept { return reporter_; }

 private:
  void report_leaks();
  /// `op` accesses pinned memory while `copy` may be in flight.
  void report_early_access(const std::string& op, const Use& copy, bool writes);
  void check_devices(SimStream& stream, const LaunchInfo& info);
  void report(const Conflict& conflict);
  /// Reports the problem together with the calling thread's stack. `before`: the stack of the
  /// earlier operation, if it was stored.
  void report(Problem problem, const Frames* before = nullptr);
  void report(Problem problem, const Stack& stack, const Frames* before = nullptr);
  /// Records an error that the program may still handle, together with the calling thread's stack.
  void note(Problem problem);
  Part part(const Use& use) const;
  friend class ZoneWatch;
  std::string created_at(StreamId stream) const;

  void went_on() noexcept {
    if (stopped_.load(std::memory_order_relaxed)) stopped_.store(false, std::memory_order_relaxed);
  }

  const bool keep_stacks_;
  const int exit_code_;
  const ExtraChecks extra_;
  std::atomic<bool> stopped_{
      false};  ///< nothing was launched or allocated since the last out-of-memory error
  std::atomic<bool> unseeded_noted_{false};
  Detector detector_;
  HostViews views_;
  mutable std::mutex streams_mutex_;
  std::map<StreamId, Stack> streams_;  ///< where the program created each stream
  Reporter reporter_;
};

/// Starts the checks that the options request, if any. Must be called once per process, before the
/// first use of the device.
void start_checks();

/// The checker, or null if checks are off.
Checker* checker() noexcept;

}  // namespace anyaccel::backends::sim::checking
