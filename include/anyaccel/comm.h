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

/// Options for init_process_group(). Empty members are read from the environment variables that
/// torchrun and DeepSpeed's launcher set.
struct InitOptions {
  /// Name of a torch.distributed backend. Empty: the accelerator's communication_backend_name(), or
  /// gloo if the accelerator is the host and only some ranks have oneCCL. Any other disagreement
  /// between ranks throws `invalid_argument`.
  std::string backend = {};
  /// Store for the rendezvous, for example a c10d::FileStore. Empty: a TCPStore at
  /// MASTER_ADDR:MASTER_PORT. Rank 0 hosts the TCPStore unless torchrun's agent does.
  c10::intrusive_ptr<c10d::Store> store = {};
  std::optional<int> rank = {};        ///< rank of this process; empty: RANK
  std::optional<int> world_size = {};  ///< number of ranks; empty: WORLD_SIZE
  /// Time limit for the rendezvous and for each operation.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Use shared memory for host tensors if all ranks share memory.
  bool shared_memory = true;
};

/// A collective in flight. Copies refer to the same operation. Not thread-safe.
///
///     Work work = group.all_reduce_async(gradient, ReduceOp::avg);
///     compute_something_else();
///     work.wait();  // gradient may be read from here on
class [[nodiscard]] Work {
 public:
  /// Create an empty work object. done() returns true, and wait() is a no-op.
  Work() = default;
  /// Return whether the operation has finished on this rank, successfully or not. On an accelerator
  /// with streams, return whether its result is queued.
  [[nodiscard]] ANYACCEL_API bool done() const;
  /// Wait until the result may be used. Throws the same errors as the function without `_async`.
  /// May be called repeatedly. For a device tensor, call it on the thread whose current stream uses
  /// the result.
  ANYACCEL_API void wait() const;

  /// Internal, like the constructor below.
  class State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// A group of ranks, with collectives for tensors on the accelerator and on the host.
///
/// Every rank calls the same functions in the same order, with tensors of the same size, dtype and
/// device type. Ranks are numbered from 0 to size() - 1 within the group.
///
/// Transport: if all ranks run on one host and share memory, all_reduce(), all_gather(),
/// reduce_scatter() and broadcast() of host tensors use that memory, and so does barrier() if the
/// accelerator is the host. Everything else uses the backend.
///
/// Completion: a function returns when its result may be used. For a host tensor, the operation is
/// then complete. For a tensor on an accelerator with streams, it is queued on the current stream.
///
/// Tensors: any strides. Functions that only move data support all dtypes. Reductions support the
/// dtypes that make_staged_backend() lists, and int16 in shared memory. Other dtypes throw
/// `unsupported`.
///
/// Errors: invalid arguments throw `invalid_argument` before anything is sent. If a rank has died,
/// all ranks that wait for it throw `unavailable`. If a rank does not arrive within the timeout,
/// they throw `timeout`. The group is then unusable. In a forked child, all functions throw
/// `invalid_state`.
///
/// Thread safety: all functions are thread-safe, but collectives must start in the same order on
/// all ranks, so call the collectives of one group from one thread. send() and recv() may run
/// concurrently with them.
///
/// Destruction: the destructor waits for pending asynchronous operations but not for other ranks.
/// Call barrier() at the end of a program. If rank 0 serves the store, it must exit last.
///
///     auto group = comm::init_process_group();
///     at::Tensor x = at::ones({4}, get_accelerator().torch_device());
///     group.all_reduce(x);  // every element is group.size()
///     group.barrier();
class ANYACCEL_API ProcessGroup {
 public:
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&& other) noexcept;
  ~ProcessGroup();

  /// Rank of this process in the group.
  int rank() const noexcept;
  /// Number of ranks in the group.
  int size() const noexcept;
  /// The group's members, as numbered by init_process_group(), in ascending order.
  const std::vector<int>& ranks() const noexcept;
  /// Name of the backend, for example "nccl".
  const std::string& backend_name() const noexcept;
  /// Why the group uses the staging backend instead of the vendor backend named by backend_name();
  /// empty if the group uses the vendor backend.
  const std::string& backend_reason() const noexcept;
  /// Return the reason why host tensors do not use shared memory, or an empty string if they do.
  /// Collective: all ranks must call it.
  const std::string& shared_memory_reason();
  /// Return the name under which ops that all-reduce internally, such as `inference_decode`, find
  /// this group. Returns an empty string if host tensors do not use shared memory. Waits for
  /// pending all_reduce_async() operations. Collective: all ranks must call it.
  std::string shared_memory_name();
  /// The underlying c10d process group, for operations that this class does not provide. Use it
  /// only on the thread that calls this object's collectives.
  const c10::intrusive_ptr<c10d::ProcessGroup>& c10d_group() const noexcept;

  /// Create a subgroup with the same options. Only the ranks in `ranks` call it; on any other rank,
  /// it throws `invalid_argument`. Duplicate ranks throw `invalid_argument`. The order of `ranks`
  /// does not matter.
  ProcessGroup new_group(const std::vector<int>& ranks);

  /// Reduce a tensor in place on all ranks. `avg` requires a floating-point or complex dtype.
  void all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum);
  /// Start an all_reduce() and return without waiting. With shared memory, a thread of the group
  /// runs it while the caller continues. Do not read or write the tensor before Work::wait(). Later
  /// calls run after it.
  [[nodiscard]] Work all_reduce_async(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum);
  /// Reduce a tensor in place on rank `destination`. The tensors of all other ranks are unchanged.
  void reduce(const at::Tensor& tensor, int destination, ReduceOp op = ReduceOp::sum);
  /// Copy the tensor of rank `source` into the tensors of all ranks.
  void broadcast(const at::Tensor& tensor, int source);
  /// Return the tensors of all ranks, concatenated along the first dimension in rank order.
  [[nodiscard]] at::Tensor all_gather(const at::Tensor& input);
  /// Write the result of all_gather() to `output`, which must be contiguous and size() times as
  /// large as `input`.
  void all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input);
  /// Reduce a tensor and return this rank's part along the first dimension. The size of that
  /// dimension must be a multiple of size().
  [[nodiscard]] at::Tensor reduce_scatter(const at::Tensor& input, ReduceOp op = ReduceOp::sum);
  /// Write the result of reduce_scatter() to `output`. `input` must be size() times as large.
  void reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                             ReduceOp op = ReduceOp::sum);
  /// Start a reduce_scatter_tensor() and return without waiting, like all_reduce_async(). `output`
  /// may be this rank's part of `input`. Both tensors must be contiguous.
  [[nodiscard]] Work reduce_scatter_async(const at::Tensor& output, const at::Tensor& input,
                                          ReduceOp op = ReduceOp::sum);
  /// Return the tensors of all ranks, in rank order, on rank `destination`, and an empty list on
  /// all other ranks.
  std::vector<at::Tensor> gather(const at::Tensor& input, int destination);
  /// Distribute the tensors of rank `source`: rank i receives `parts[i]` in `output`. On rank
  /// `source`, `parts` has one tensor per rank; on other ranks it must be empty.
  void scatter(const at::Tensor& output, const std::vector<at::Tensor>& parts, int source);
  /// Exchange rows along the first dimension: `input_splits[i]` rows go to rank i and
  /// `output_splits[i]` rows come from it. Empty splits divide the rows evenly among the ranks.
  void all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                         std::vector<std::int64_t> output_splits = {},
                         std::vector<std::int64_t> input_splits = {});
  /// Exchange tensors: `inputs[i]` goes to rank i and `outputs[i]` comes from it.
  void all_to_all(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);
  /// Send a tensor to rank `destination`, which calls recv() with the same tag.
  void send(const at::Tensor& tensor, int destination, int tag = 0);
  /// Receive a tensor of the same size and dtype from rank `source`.
  void recv(const at::Tensor& tensor, int source, int tag = 0);
  /// Wait until all ranks have called barrier().
  void barrier();

 private:
  friend ProcessGroup init_process_group(const InitOptions& options);
  class Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Create the group of all ranks in a job. Every rank calls it once. Without the launcher's
/// environment variables, the group has one rank.
///
/// If LOCAL_RANK names a device of the accelerator, that device becomes the calling thread's
/// current device. If SIGPIPE has its default action, the process ignores it from then on, so a
/// lost connection causes an error instead of terminating the process.
///
/// Throws `invalid_argument` for missing or invalid settings, `timeout` if other ranks do not
/// arrive, and `unavailable` if they cannot be reached.
ANYACCEL_API ProcessGroup init_process_group(const InitOptions& options = {});

/// Name of the backend that stages tensors through host memory. It works with every accelerator and
/// with the host itself.
inline constexpr const char* kStaged = "staged";

/// Name of the oneCCL backend if the accelerator is the host. This backend uses the op
/// `CCLCommBuilder`. It supports the same dtypes and throws the same errors as the staging backend.
/// gloo runs the operations that oneCCL lacks: bitwise reductions, send and recv. If one rank
/// cannot use oneCCL, creating the backend throws `unavailable` on every rank, with the reason from
/// that rank. On other accelerators, the name refers to the vendor's backend.
inline constexpr const char* kCcl = "ccl";

/// Name of the backend that runs collectives over shared memory. It works with every accelerator
/// and with the host itself. See make_shm_backend().
inline constexpr const char* kShm = "shm";

/// Options for creating a backend. All ranks pass the same store and size. Each passes its own
/// rank.
struct GroupOptions {
  int rank = 0;
  int size = 1;
  /// Time limit for each operation.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// Creates a backend from a store and options.
using BackendFactory = std::function<c10::intrusive_ptr<c10d::Backend>(
    const c10::intrusive_ptr<c10d::Store>&, const GroupOptions&)>;

/// Create the staging backend. It copies a device tensor to pinned host memory in stream order,
/// uses gloo to move or reduce it there, and copies the result back on a side stream.
/// `Work::wait()` makes the current stream wait for that copy. Host tensors go to gloo directly.
///
/// Operations: all c10d operations except sparse ones. Collectives of a group run one after the
/// other in call order; sends and receives run concurrently with them. Use each group from one
/// thread only.
///
/// Dtypes: functions that only move data support all dtypes. Reductions support float16, bfloat16,
/// float32, float64, int8, uint8, int32, int64 and bool, and sums of complex64 and complex128. As
/// in NCCL, AVG truncates averages of integers and rejects bool. PREMUL_SUM throws `unsupported`.
///
/// Errors: invalid arguments throw when the function is called. Later failures throw from
/// `Work::wait()`: `timeout` if another rank did not arrive in time, `unavailable` if it has died.
/// In a forked child, calls throw `invalid_state`.
ANYACCEL_API c10::intrusive_ptr<c10d::Backend> make_staged_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options);

/// Create the backend that runs all-reduce, reduce, broadcast, all-gather, reduce-scatter and
/// barrier over the shared memory of ranks on one host, with the op `ShareMemCommBuilder`. gloo
/// runs gather, scatter, all-to-all, sends and receives, and all-reduces of sparse tensors. Device
/// tensors are staged as in make_staged_backend(). All ranks must call this function.
///
/// Asynchronous operations run in call order on a thread of the backend. Synchronous operations
/// (`asyncOp` is false) on host tensors run on the calling thread if nothing is queued. They are
/// complete when the call returns. Use each group from one thread only.
///
/// Dtypes: functions that only move data support all dtypes. Reductions support floating-point
/// dtypes of 16 to 64 bits, integers and bool. Complex numbers can be summed and averaged. Bitwise
/// reductions support integers and bool. PREMUL_SUM supports floating-point dtypes. As in NCCL, AVG
/// truncates averages of integers; it rejects bool, uint16, uint32 and uint64. All ranks get
/// bit-identical results.
///
/// Without shared memory: if the ranks are on several hosts, or cannot share memory for another
/// reason, gloo moves all data, and rank 0 logs a warning with the reason. If a rank cannot load
/// the op, all ranks use the staging backend, and rank 0 logs that rank's reason.
///
/// Errors: as for make_staged_backend(). Over shared memory, all ranks get the same error. It names
/// the rank (in the group) that died, left the group or did not respond in time. The group is then
/// unusable. If a rank calls Backend::abort(), operations over shared memory, including operations
/// in progress, throw `unavailable` on all ranks.
ANYACCEL_API c10::intrusive_ptr<c10d::Backend> make_shm_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options);

/// Register a backend under a torch.distributed name ("nccl", ...), replacing any backend already
/// registered under that name. Throws `invalid_argument` for an empty name or factory. Thread-safe.
ANYACCEL_API void register_backend(const std::string& name, BackendFactory factory);

/// Return the sorted names that make_backend() accepts: the registered ones, "staged", "shm", the
/// communication_backend_name() of this process's accelerator, and "ccl" and "gloo" if that
/// accelerator is the host. Thread-safe.
ANYACCEL_API std::vector<std::string> backend_names();

/// Create the backend with this name: the registered backend if there is one, otherwise the
/// shared-memory backend for "shm", the oneCCL backend for "ccl" on the host, and the staging
/// backend for all other names. Throws `invalid_argument` for an unknown name.
ANYACCEL_API c10::intrusive_ptr<c10d::Backend> make_backend(
    const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
    const GroupOptions& options);

/// Create a c10d process group that uses the backend from make_backend(name), for tensors on the
/// accelerator and on the host. An empty name selects the accelerator's
/// communication_backend_name(). If a vendor's backend supports only device tensors, host tensors
/// use the staging backend.
///
/// init_process_group() adds rendezvous, shared memory and subgroups.
ANYACCEL_API c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
    const GroupOptions& options);

}  // namespace anyaccel::comm
