// The capture in progress.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "anyaccel/error.h"
#include "backends/cpu/graph/memory_plan.h"
#include "backends/cpu/graph/op_kind.h"
#include "backends/cpu/graph/snapshot.h"

namespace anyaccel::backends::cpu {

/// Collects the steps of one capture. A process has at most one recording at a time. Autograd may
/// call record() from its own threads, even concurrently.
class Recording {
 public:
  /// Starts recording this thread. Throws `invalid_state` if another recording is in progress, and
  /// `unsupported` if torch or another library uses the dispatch key.
  static std::shared_ptr<Recording> begin();
  /// The recording in progress, or null.
  static std::shared_ptr<Recording> active() noexcept;
  /// True if this thread's ops are recorded.
  static bool on_this_thread() noexcept;

  /// Stops the recording. If called on a different thread than begin(), the recorded thread leaves
  /// the capture at its next op.
  void stop() noexcept;
  /// True on the thread that called begin().
  bool owned_by_this_thread() const noexcept { return owner_ == std::this_thread::get_id(); }

  /// Runs the op on the stack and records it. Throws `unsupported` if it cannot be captured.
  void record(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);

  /// Returns the calls of a stopped recording and releases the recording's references to their
  /// tensors. If an op could not be captured, throws that error again.
  std::vector<Recorded> take_calls();

 private:
  void record_in_place(const c10::OperatorHandle& op, const OpKind& kind, c10::DispatchKeySet below,
                       torch::jit::Stack* stack);
  void record_functional(const c10::OperatorHandle& op, const OpKind& kind,
                         c10::DispatchKeySet below, torch::jit::Stack* stack);
  torch::jit::Stack take(c10::ArrayRef<c10::IValue> values);
  void check_places(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> values);
  [[noreturn]] void fail(const c10::OperatorHandle& op, const std::string& reason);
  bool refused() const;
  void add(Recorded call);

  std::thread::id owner_ = std::this_thread::get_id();
  mutable std::mutex mutex_;  // guards all members below
  std::optional<Error> refusal_;
  Snapshots snapshots_;
  std::vector<Recorded> calls_;
};

}  // namespace anyaccel::backends::cpu
