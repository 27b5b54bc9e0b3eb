// Communication between processes: c10d process groups for every accelerator.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/reduce_op.h"

namespace c10d {
class Backend;
class ProcessGroup;
}  // namespace c10d

namespace anyaccel::comm {

using anyaccel::ReduceOp;

/// How init_process_group() makes its group. Empty parts are read from the variables that torchrun
/// and DeepSpeed's launcher set.
struct InitOptions {
  /// A torch.distributed backend name. Empty: the accelerator's communication_backend_name(), or,
  /// on the host, gloo if only some ranks have oneCCL. Any other mismatch between ranks throws
  /// `invalid_argument`.
  std::string backend = {};
  /// Where the ranks find each other, for example a c10d::FileStore; empty: a TCPStore at
  /// MASTER_ADDR:MASTER_PORT, which rank 0 serves unless torchrun's agent does.
  c10::intrusive_ptr<c10d::Store> store = {};
  std::optional<int> rank = {};        ///< empty: RANK
  std::optional<int> world_size = {};  ///< empty: WORLD_SIZE
  std::chrono::milliseconds timeout =
      std::chrono::minutes(30);  ///< to find each other, and for each operation
  /// Host tensors go through memory that the ranks share, where they do.
  bool shared_memory = true;
};

/// A collective that goes on while its caller does other things. Copies are the same operation.
/// Used by one thread at a time.
class [[nodiscard]] Work {
 public:
  /// No operation: it is done.
  Work() = default;
  /// Whether it has ended on this rank, well or not; on an accelerator with streams: whether its
  /// result is queued.
  [[nodiscard]] ANYACCEL_API bool done() const;
  /// Returns when the result may be used, as the function without `_async` does, and throws what
  /// that would throw. Once or more; for a tensor of an accelerator in the thread whose current
  /// stream uses the result.
  ANYACCEL_API void wait() const;

  /// Of the library's own sources, as is the constructor.
  class State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// The ranks of a job, or some of them, and the collectives between them, on tensors of the
/// accelerator and of the host.
///
/// The way is the fastest that there is: host tensors go through shared memory (all_reduce,
/// all_gather, reduce_scatter, broadcast, and barrier on accelerators that are the host) where all
/// ranks share it, everything else through the backend. All ranks call the same functions in the
/// same order with tensors of the same size, dtype and kind of device. Ranks are those of this
/// group, 0 to size() - 1.
///
/// A function returns when its result may be used: on a host tensor when it is there, on an
/// accelerator with streams when it is queued behind the current stream. Tensors may have any
/// strides. Dtypes: what moves data takes every one; reductions as make_staged_backend() says,
/// shared memory int16 too; others are `unsupported`.
///
/// Errors: wrong arguments are `invalid_argument` before anything is sent. A rank that is gone is
/// `unavailable`, one that does not come within the timeout is `timeout`, on every rank that waits
/// for it; the group is then of no use. In a forked child `invalid_state`.
///
/// Thread-safe, but the order of calls must be one and the same on all ranks: collectives of one
/// group belong into one thread. send() and recv() may run beside them. The destructor waits for
/// what was begun by all_reduce_async() and for nothing else: end with a barrier(), and rank 0,
/// which may serve the store, last.
class ANYACCEL_API ProcessGroup {
 public:
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&& other) noexcept;
  ~ProcessGroup();

  int rank() const noexcept;
  int size() const noexcept;
  /// The ranks of this group as init_process_group() numbered them, ascending.
  const std::vector<int>& ranks() const noexcept;
  /// The backend's name, for example "nccl".
  const std::string& backend_name() const noexcept;
  /// Why another backend than a vendor's own of that name serves it; empty when it is a vendor's.
  const std::string& backend_reason() const noexcept;
  /// Why host tensors do not go through shared memory; empty when they do. A call of all ranks.
  const std::string& shared_memory_reason();
  /// By which ops that add up in the middle of their work take the group, such as
  /// `inference_decode`; empty where host tensors do not go through shared memory. What was begun
  /// there has ended. A call of all ranks.
  std::string shared_memory_name();
  /// The group for everything else that c10d has, such as operations that are waited for later.
  /// Calls to it belong into the thread that calls this object's collectives.
  const c10::intrusive_ptr<c10d::ProcessGroup>& c10d_group() const noexcept;

  /// A group of some ranks of this one, with the same options. Called by those ranks alone;
  /// `invalid_argument` on others. Repeated ranks are refused; order does not matter.
  ProcessGroup new_group(const std::vector<int>& ranks);

  /// In place. `avg` is for floating and complex dtypes.
  void all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum);
  /// The same, begun: shared memory is a thread's of the group, where the rank's own may compute
  /// meanwhile. The tensor may be neither read nor written before Work::wait(). It takes its turn
  /// in the order of calls: a later call runs after it.
  [[nodiscard]] Work all_reduce_async(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum);
  /// In place on rank `destination`; the others keep theirs.
  void reduce(const at::Tensor& tensor, int destination, ReduceOp op = ReduceOp::sum);
  /// In place, from rank `source`.
  void broadcast(const at::Tensor& tensor, int source);
  /// The tensors of all ranks one after the other along the first dimension.
  [[nodiscard]] at::Tensor all_gather(const at::Tensor& input);
  /// The same into `output`, which is contiguous and size() times as large.
  void all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input);
  /// This rank's part, along the first dimension, of the reduced tensor; the dimension is a
  /// multiple of size().
  [[nodiscard]] at::Tensor reduce_scatter(const at::Tensor& input, ReduceOp op = ReduceOp::sum);
  /// The same into `output`; `input` is size() times as large.
  void reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                             ReduceOp op = ReduceOp::sum);
  /// On rank `destination` the tensors of all ranks, in their order; on the others an empty list.
  std::vector<at::Tensor> gather(const at::Tensor& input, int destination);
  /// Into `output` the part of this rank; `parts` has one a rank on rank `source` and is empty on
  /// the others.
  void scatter(const at::Tensor& output, const std::vector<at::Tensor>& parts, int source);
  /// Rows of the first dimension, `input_splits[i]` of them to rank i and `output_splits[i]` from
  /// it; empty: the same number for each rank.
  void all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                         std::vector<std::int64_t> output_splits = {},
                         std::vector<std::int64_t> input_splits = {});
  /// `inputs[i]` goes to rank i, `outputs[i]` comes from it.
  void all_to_all(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);
  void send(const at::Tensor& tensor, int destination, int tag = 0);
  void recv(const at::Tensor& tensor, int source, int tag = 0);
  /// Returns when all ranks have come.
  void barrier();

 private:
  friend ProcessGroup init_process_group(const InitOptions& options);
  class Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The group of all ranks of a job: one way for every accelerator. Called once a rank, by all of
/// them. A program without any of the variables is a group of one.
///
/// Where LOCAL_RANK names a device of the accelerator, that becomes the calling thread's. Errors:
/// `invalid_argument` for what is missing or wrong, `timeout` when ranks do not come, `unavailable`
/// when they cannot be reached. From then on the process ignores SIGPIPE where that was left at its
/// default: a peer that is gone is an error and not the end.
ANYACCEL_API ProcessGroup init_process_group(const InitOptions& options = {});

/// Name of the backend that stages through host memory; it serves every accelerator and the host
/// itself.
inline constexpr const char* kStaged = "staged";

/// Name of the backend of oneCCL's collectives between hosts, on the accelerator that is the host:
/// the op `CCLCommBuilder`, with the same types and errors as the backend that stages; what oneCCL
/// has not (bitwise reductions, send and recv) goes through gloo. Making it is `unavailable` on
/// every rank when it cannot be had on one, with that one's reason. Elsewhere the name is a
/// vendor's.
inline constexpr const char* kCcl = "ccl";

/// What a backend is made from. Each rank gives the same store and size, and its own rank.
struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< for each operation
};

using BackendFactory = std::function<c10::intrusive_ptr<c10d::Backend>(
    const c10::intrusive_ptr<c10d::Store>&, const GroupOptions&)>;

/// The backend that stages: a tensor of the accelerator is copied to pinned host memory in the
/// order of its stream, gloo moves or reduces it there, and it is copied back in the order of a
/// stream of its own; `Work::wait()` makes the current stream wait for that copy. Host tensors go
/// to gloo as they are.
///
/// Every operation of c10d except sparse ones. Moving data works with every dtype; reductions with
/// those that gloo reduces, bool and complex sums; AVG with floating ones; PREMUL_SUM is
/// `unsupported`. Wrong arguments throw at the call, what fails later throws from `Work::wait()`:
/// `timeout` when a peer did not come in time, `unavailable` when it is gone. Collectives of a
/// group run one after the other in the order of the calls, sends and receives beside them. Calls
/// on one group come from one thread. Not usable in a forked child: `invalid_state`.
ANYACCEL_API c10::intrusive_ptr<c10d::Backend> make_staged_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options);

/// Registers a backend under a torch.distributed name ("nccl", ...). The last registration wins.
/// Thread-safe.
ANYACCEL_API void register_backend(const std::string& name, BackendFactory factory);

/// Sorted names that make_backend() accepts: the registered ones, "staged", the
/// communication_backend_name() of this process's accelerator, and "ccl" and "gloo" if that
/// accelerator is the host. Thread-safe.
ANYACCEL_API std::vector<std::string> backend_names();

/// Creates the backend with this name: the registered one, else oneCCL's for "ccl" on the host,
/// else the staging backend. Throws `invalid_argument` for an unknown name.
ANYACCEL_API c10::intrusive_ptr<c10d::Backend> make_backend(
    const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
    const GroupOptions& options);

/// A process group for tensors of the accelerator and of the host, over make_backend(name). An
/// empty name: the accelerator's communication_backend_name(). Beside a vendor's backend of an
/// accelerator's own, host tensors are staged. init_process_group() has more: where the ranks meet,
/// shared memory, groups of some ranks.
ANYACCEL_API c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
    const GroupOptions& options);

}  // namespace anyaccel::comm
