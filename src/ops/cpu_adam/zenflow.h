// ZenFlow's overlapped Adam. A separate process updates the parameters on pinned threads while
// training continues. The two processes communicate through a control block in shared memory.
// Independent of torch. The names are the same as in DeepSpeed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/optimizer/adam.h"

namespace anyaccel::ops {

/// A parameter group, with separate gradients and states for even and odd steps.
struct ZenflowGroup {
  AdamArrays arrays[2] = {};
  void* stale = nullptr;  ///< receives a copy of the updated parameters; may be null
  std::int64_t size = 0;
  std::shared_ptr<void> owner;  ///< keeps the arrays alive
};

/// Creates a pool with one thread per CPU in `affinity`, or one unpinned thread if the list is
/// empty. Returns its handle.
std::int64_t zenflow_create(bool decoupled, std::vector<std::int64_t> affinity);
void zenflow_register(std::int64_t handle, ZenflowGroup group);
/// Stops the pool's threads. Unknown handles are ignored.
void zenflow_destroy(std::int64_t handle);

/// Size of the control block in bytes. The other functions take its address, which must be aligned
/// to 8 bytes.
std::int64_t zenflow_control_size();
void zenflow_control_init(std::int64_t control, std::int64_t groups);
/// Runs in the optimizer's process. Processes steps until zenflow_control_exit() is called, or
/// until the process that initialized the control block has exited, which is detected within a
/// second.
void zenflow_run_worker(std::int64_t handle, std::int64_t control);
/// Submits a step and returns immediately. Throws if zenflow_adam_wait() has not returned true for
/// the previous step, because the control block has room for only one step.
void zenflow_submit(std::int64_t control, std::int64_t now_state, std::int64_t step,
                    const std::vector<AdamOptions>& options);
/// Returns true if a step completes within the timeout. Each completion is reported once.
bool zenflow_wait(std::int64_t control, double timeout_s);
void zenflow_control_exit(std::int64_t control);

}  // namespace anyaccel::ops
