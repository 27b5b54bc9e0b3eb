// Communication between processes: c10d process groups for every accelerator.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace anyaccel::comm {

/// Name of the backend that stages through host memory; it serves every accelerator and the host itself.
inline constexpr const char* kStaged = "staged";

/// What a backend is made from. Each rank gives the same store and size, and its own rank.
struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< for each operation
};

using BackendFactory =
    std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store>&, const GroupOptions&)>;

/// The backend that stages: a tensor of the accelerator is copied to pinned host memory in the order of its stream, gloo
/// moves or reduces it there, and it is copied back in the order of a stream of its own; `Work::wait()` makes the current
/// stream wait for that copy. Host tensors go to gloo as they are.
///
/// Every operation of c10d except sparse ones. Moving data works with every dtype; reductions with those that gloo
/// reduces, bool and complex sums; AVG with floating ones; PREMUL_SUM is `unsupported`. Wrong arguments throw at the call,
/// what fails later throws from `Work::wait()`: `timeout` when a peer did not come in time, `unavailable` when it is gone.
/// Collectives of a group run one after the other in the order of the calls, sends and receives beside them.
/// Calls on one group come from one thread. Not usable in a forked child: `invalid_state`.
c10::intrusive_ptr<c10d::Backend> make_staged_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const GroupOptions& options);

/// Offers a backend under a name of torch.distributed's kind ("nccl", ...). The last one registered counts. Thread-safe.
void register_backend(const std::string& name, BackendFactory factory);

/// Names that make_backend() knows: those registered, "staged", and this process's accelerator's
/// communication_backend_name(), sorted. Thread-safe.
std::vector<std::string> backend_names();

/// The backend of a name: the registered one, otherwise the one that stages. `invalid_argument` for an unknown name.
c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
                                               const GroupOptions& options);

/// A process group for tensors of the accelerator and of the host, over make_backend(name). An empty name: the
/// accelerator's communication_backend_name().
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& name,
                                                          const c10::intrusive_ptr<c10d::Store>& store,
                                                          const GroupOptions& options);

}  // namespace anyaccel::comm
