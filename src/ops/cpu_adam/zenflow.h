// ZenFlow's overlapped Adam: a separate process updates the parameters on pinned threads while
// training continues. The processes communicate through a control block in shared memory. Does not
// use torch. The names are DeepSpeed's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/optimizer/adam.h"

namespace anyaccel::ops {

/// A parameter group, with gradients and state for even and odd steps.
struct ZenflowGroup {
  AdamArrays arrays[2] = {};
  void* stale = nullptr;  ///< receives a copy of the new parameters; may be null
  std::int64_t size = 0;
  std::shared_ptr<void> owner;  ///< keeps the arrays alive
};

/// Creates a pool with one thread per given CPU, or one unpinned thread if there are none. Returns
/// its handle.
std::int64_t zenflow_create(bool decoupled, std::vector<std::int64_t> affinity);
void zenflow_register(std::int64_t handle, ZenflowGroup group);
/// Ends the pool's threads. Unknown handles are ignored.
void zenflow_destroy(std::int64_t handle);

/// Size of the control block in bytes. The other functions take its address, aligned to 8 bytes.
std::int64_t zenflow_control_size();
void zenflow_control_init(std::int64_t control, std::int64_t groups);
/// Processes steps until zenflow_control_exit(), or until the process that initialized the control
/// block has ended, which takes up to a second to notice. Call it in the optimizer's process.
void zenflow_run_worker(std::int64_t handle, std::int64_t control);
/// Submits a step and returns immediately. Throws if the previous step has not been waited for,
/// because the block has room for one step only.
void zenflow_submit(std::int64_t control, std::int64_t now_state, std::int64_t step,
                    const std::vector<AdamOptions>& options);
/// Returns whether a step completed within the timeout. Each completion is reported once.
bool zenflow_wait(std::int64_t control, double timeout_s);
void zenflow_control_exit(std::int64_t control);

}  // namespace anyaccel::ops
