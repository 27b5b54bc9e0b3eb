// The capture that runs now.
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

/// Collects the steps of one capture. There is one recording at a time in a process; autograd may
/// call record() from threads of its own, one at a time or at once.
class Recording {
 public:
  /// Begins to record this thread. Throws `invalid_state` when another recording runs and
  /// `unsupported` where the LibTorch of this process uses the dispatch key for something else.
  static std::shared_ptr<Recording> begin();
  /// The one that runs, or null.
  static std::shared_ptr<Recording> active() noexcept;
  /// True when this thread's ops reach the recorder.
  static bool on_this_thread() noexcept;

  /// Ends it. After a call on another thread than begin()'s, that one leaves the capture at its
  /// next op.
  void stop() noexcept;
  /// True on the thread that began it.
  bool owned_by_this_thread() const noexcept { return owner_ == std::this_thread::get_id(); }

  /// Runs the op on the stack and records it. Throws `unsupported` when it cannot be captured.
  void record(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);

  /// The calls, once stopped; nothing else of the capture holds their tensors then. Throws the
  /// refusal when an op was refused.
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
  mutable std::mutex mutex_;  // of all below
  std::optional<Error> refusal_;
  Snapshots snapshots_;
  std::vector<Recorded> calls_;
};

}  // namespace anyaccel::backends::cpu
