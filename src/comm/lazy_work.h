// A work object that runs its operation in wait().
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <utility>

namespace anyaccel::comm {

/// Returned by host backends. StagedBackend calls wait() once per object, in call order and without
/// holding a lock.
class LazyWork final : public c10d::Work {
 public:
  LazyWork(int rank, c10d::OpType type, std::function<void()> operation)
      : c10d::Work(rank, type), operation_(std::move(operation)) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    if (const auto operation = std::exchange(operation_, nullptr)) operation();
    return true;
  }

 private:
  std::function<void()> operation_;
};

}  // namespace anyaccel::comm
