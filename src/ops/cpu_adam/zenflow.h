// ZenFlow's overlapped Adam: a process of its own works through the parameters on pinned threads
// while the training process goes on. Both talk through a control block in shared memory. Without
// torch; the names are DeepSpeed's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/optimizer/adam.h"

namespace anyaccel::ops {

/// One group of parameters, with gradients and state for the even and the odd step.
struct ZenflowGroup {
  AdamArrays arrays[2] = {};
  void* stale = nullptr;  ///< gets a copy of the new parameters; may be null
  std::int64_t size = 0;
  std::shared_ptr<void> owner;  ///< keeps the arrays
};

/// Makes a pool of threads, one for each processor named (one unpinned when none is); the answer is
/// its handle.
std::int64_t zenflow_create(bool decoupled, std::vector<std::int64_t> affinity);
void zenflow_register(std::int64_t handle, ZenflowGroup group);
/// Ends the pool's threads. An unknown handle is nothing.
void zenflow_destroy(std::int64_t handle);

/// Bytes of the control block. The others take its address, aligned to 8 bytes.
std::int64_t zenflow_control_size();
void zenflow_control_init(std::int64_t control, std::int64_t groups);
/// Works on steps until zenflow_control_exit(), or until the process that initialised the control
/// block has ended, which it notices within a second: call it in the optimizer's process.
void zenflow_run_worker(std::int64_t handle, std::int64_t control);
/// Asks for a step and returns at once. Refused while the step before was not waited for: there is
/// room for one.
void zenflow_submit(std::int64_t control, std::int64_t now_state, std::int64_t step,
                    const std::vector<AdamOptions>& options);
/// Whether a step was completed within the time; each completion is told once.
bool zenflow_wait(std::int64_t control, double timeout_s);
void zenflow_control_exit(std::int64_t control);

}  // namespace anyaccel::ops
