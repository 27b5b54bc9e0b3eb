// A checkpoint is copied to pinned memory asynchronously. The host reads the pinned memory into the
// file's buffer before the copy is complete.
#include <cstring>

#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(snapshot_written_early, "not_synchronized", "host code", "float32 [10000]") {
  auto& accelerator = get_accelerator();
  const auto weight = at::ones({10000}, on());
  auto host = pinned({10000});
  host.copy_(weight, /*non_blocking=*/true);
  auto copied = accelerator.Event();
  copied.record();
  busy(at::ones({64, 64}, on()));
  std::vector<char> file(host.nbytes());
  while (fixed && !copied.query()) {
  }
  std::memcpy(file.data(), host.const_data_ptr(), file.size());
}

}  // namespace anyaccel::sim_bugs
