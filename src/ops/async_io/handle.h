// The asynchronous I/O handle of the Python and C++ interfaces: reads and writes tensors with the
// I/O engine.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/async/engine.h"

namespace anyaccel::ops::aio {

/// A request and its tensors.
struct Operation {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Request> request;
  /// Data that finish() needs. The tensors are set only if finish() uses them; the engine keeps the
  /// memory alive.
  at::Tensor tensor;  ///< the caller's tensor, if data must be copied to it
  at::Tensor host;    ///< contiguous host tensor for this copy and for validation
  c10::VariableVersion version{c10::VariableVersion::DISABLED};  ///< of the destination tensor
  bool validate = false;
  std::string path;
  std::int64_t offset = 0;

  /// Waits for the request and, after a read, copies the data to the caller's tensor (on a device,
  /// on the current stream). Then validates the transfer if requested. Throws the first error.
  void finish();
};

/// A single transfer that can be waited for individually.
class AsyncIORequest final : public torch::CustomClassHolder {
 public:
  explicit AsyncIORequest(Operation operation) : operation_(std::move(operation)) {}
  void wait();
  bool done() const { return operation_.request->done(); }
  void cancel() { operation_.request->cancel(); }
  /// Drops this request's reference to the engine, for callers that abandon the request. If the
  /// handle is already destroyed and this was the last reference, stops the engine's threads and
  /// waits until they have stopped.
  void release();

 private:
  std::mutex mutex_;
  bool finished_ = false;
  Operation operation_;
};

/// Like DeepSpeed's aio_handle. Documented in include/anyaccel/ops/async_io.h.
class AsyncIOHandle final : public torch::CustomClassHolder {
 public:
  AsyncIOHandle(std::int64_t block_size, std::int64_t queue_depth, bool single_submit,
                bool overlap_events, std::int64_t intra_op_parallelism);

  std::int64_t block_size() const { return options_.block_bytes; }
  std::int64_t queue_depth() const { return options_.queue_depth; }
  bool single_submit() const { return options_.single_submit; }
  bool overlap_events() const { return options_.overlap_events; }
  std::int64_t intra_op_parallelism() const { return options_.workers; }
  std::int64_t alignment() const { return 512 * intra_op_parallelism(); }
  std::string queue() const { return queue_name_; }
  std::string queue_reason() const { return queue_reason_; }

  std::int64_t transfer(const at::Tensor& tensor, const std::string& path, bool write,
                        bool validate, bool async, std::int64_t offset);
  std::int64_t write_descriptor(const at::Tensor& tensor, std::int64_t descriptor,
                                std::int64_t offset);
  c10::intrusive_ptr<AsyncIORequest> start(const at::Tensor& tensor, const std::string& path,
                                           bool write, std::int64_t offset);
  std::int64_t wait();
  void cancel();
  /// Waits for all operations and stops the threads. Afterwards, all functions except the getters
  /// throw `invalid_state`. Calling it again is a no-op.
  void close();

 private:
  /// Throws `invalid_state` if the handle is closed or if this is a forked child.
  std::shared_ptr<Engine> engine() const;
  /// Opens the file only after all other checks, so that an invalid call does not create an empty
  /// file.
  Operation begin(const at::Tensor& tensor, const std::function<std::unique_ptr<File>()>& open,
                  bool write, bool validate, std::int64_t offset);

  Options options_;
  std::string queue_name_;
  std::string queue_reason_;
  // Held by wait() until it has finished all operations that it took from pending_. A concurrent
  // wait() therefore returns only after they are finished as well.
  std::mutex waiting_;
  mutable std::mutex mutex_;
  std::shared_ptr<Engine> engine_;  // null if the handle is closed
  std::vector<Operation> pending_;
  std::vector<std::shared_ptr<Request>> awaited_;  // requests that wait() is blocked on
};

}  // namespace anyaccel::ops::aio
