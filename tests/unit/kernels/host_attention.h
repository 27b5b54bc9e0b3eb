// Runs the launches of kernels/attention/attention.cu on the host, starting with the last block,
// with shared memory initialized to NaN.
#pragma once

#include <barrier>
#include <memory>
#include <thread>

#include "kernels/attention/attention_blocks.h"
#include "unit/kernels/device_elements.h"

namespace op_tests {

using namespace anyaccel::ops;

using AttentionLanes = HostLanes<attention_lanes>;

/// A block's shared memory, with guard bytes after it.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_((bytes + 127) / 128 * 128),
        memory_(static_cast<char*>(std::aligned_alloc(128, bytes_ + 128)), &std::free) {
    std::memset(memory_.get() + bytes, 0xa5, bytes_ + 128 - bytes);
    used_ = bytes;
  }
  /// Fills every byte with 0xff, which gives NaN for every element type.
  char* fresh() const {
    std::memset(memory_.get(), 0xff, used_);
    return memory_.get();
  }
  bool whole() const {
    for (std::size_t i = used_; i < bytes_ + 128; ++i)
      if (static_cast<unsigned char>(memory_.get()[i]) != 0xa5) return false;
    return true;
  }

 private:
  std::size_t bytes_, used_ = 0;
  std::unique_ptr<char, decltype(&std::free)> memory_;
};

/// A thread of a block, run as a host thread. The thread sanitizer detects a missing barrier as a
/// data race. If threads diverge at a barrier, the test hangs.
struct ThreadOfBlock {
  int lane;
  std::barrier<>* barrier;

  template <typename Function>
  void operator()(const Function& function) const {
    function(lane);
    barrier->arrive_and_wait();
  }
};

/// How a block's lanes run: in a loop, forwards or backwards, or as threads.
enum class Run { forwards, backwards, threads };

template <typename T, AttentionStep step, typename Real>
void run_attention_step(const AttentionLaunch<Real>& launch, Run run) {
  const AttentionPlan plan = plan_attention<T>(step, launch);
  const SharedMemory memory(plan.bytes);
  if (run == Run::threads) {
    char* const shared = memory.fresh();
    std::barrier<> barrier(attention_lanes);
    std::vector<std::thread> threads;
    for (int lane = 0; lane < attention_lanes; ++lane)
      threads.emplace_back([&, lane] {
        for (std::int64_t task = 0; task < plan.tasks; ++task)
          attention_task<T, Real, step>(launch, plan, ThreadOfBlock{lane, &barrier}, shared, task);
      });
    for (std::thread& thread : threads) thread.join();
  } else {
    for (std::int64_t task = plan.tasks; task-- > 0;)
      attention_task<T, Real, step>(launch, plan, AttentionLanes{run == Run::backwards},
                                    memory.fresh(), task);
  }
  EXPECT_TRUE(memory.whole()) << "written past the shared memory of step "
                              << static_cast<int>(step);
}

template <typename T, typename Real>
void run_attention_forward(const AttentionLaunch<Real>& launch, Run run) {
  run_attention_step<T, AttentionStep::forward>(launch, run);
}

template <typename T, typename Real>
void run_attention_backward(const AttentionLaunch<Real>& launch, Run run) {
  run_attention_step<T, AttentionStep::prepare>(launch, run);
  run_attention_step<T, AttentionStep::queries>(launch, run);
  run_attention_step<T, AttentionStep::keys>(launch, run);
  if (launch.drpe) run_attention_step<T, AttentionStep::positions>(launch, run);
}

}  // namespace op_tests
