// The handle that Python and C++ have: tensors on top of the engine.
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
  /// What finish() needs: not the tensors, where the transfer itself does all. Its memory is the
  /// engine's to keep.
  at::Tensor tensor;  ///< the caller's, when what is read is copied to it
  at::Tensor host;    ///< contiguous, in host memory, for that and for validate
  c10::VariableVersion version{c10::VariableVersion::DISABLED};  ///< of the tensor that is read
  bool validate = false;
  std::string path;
  std::int64_t offset = 0;

  /// Waits, copies what was read to the caller's tensor (on a device: in its current stream), and
  /// validates. Throws what went wrong.
  void finish();
};

/// One transfer that is waited for by itself.
class AsyncIORequest final : public torch::CustomClassHolder {
 public:
  explicit AsyncIORequest(Operation operation) : operation_(std::move(operation)) {}
  void wait();
  bool done() const { return operation_.request->done(); }
  void cancel() { operation_.request->cancel(); }
  /// For who drops the request: lets the handle's threads end, when the handle itself is gone, and
  /// waits for that.
  void release();

 private:
  std::mutex mutex_;
  bool finished_ = false;
  Operation operation_;
};

/// As DeepSpeed's aio_handle; include/anyaccel/ops/async_io.h is the manual.
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
  /// wait(), and the end of the threads; all but getters are `invalid_state` afterwards. A second
  /// time it does nothing.
  void close();

 private:
  /// Throws `invalid_state` when closed, or in a child of the process that made the handle.
  std::shared_ptr<Engine> engine() const;
  /// Opens the file only when the rest of the call makes sense: a wrong one leaves no empty file.
  Operation begin(const at::Tensor& tensor, const std::function<std::unique_ptr<File>()>& open,
                  bool write, bool validate, std::int64_t offset);

  Options options_;
  std::string queue_name_;
  std::string queue_reason_;
  std::mutex waiting_;  // one thread collects, so that all that was begun is finished when any
                        // wait() returns
  mutable std::mutex mutex_;
  std::shared_ptr<Engine> engine_;  // null when closed
  std::vector<Operation> pending_;
  std::vector<std::shared_ptr<Request>> awaited_;  // by a wait() in progress, for cancel()
};

}  // namespace anyaccel::ops::aio
