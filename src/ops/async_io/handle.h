// The handle that Python and C++ have: tensors on top of the engine.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/async_io/engine.h"

namespace anyaccel::ops::aio {

/// A request and its tensors.
struct Operation {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Request> request;
  at::Tensor tensor;  ///< the caller's
  at::Tensor host;    ///< contiguous, in host memory; the same where that can be
  bool validate = false;
  std::string path;
  std::int64_t offset = 0;

  /// Waits, copies what was read to the caller's tensor (on a device: in its current stream), and validates. Throws what went wrong.
  void finish();
};

/// One transfer that is waited for by itself.
class AsyncIORequest final : public torch::CustomClassHolder {
 public:
  explicit AsyncIORequest(Operation operation) : operation_(std::move(operation)) {}
  void wait();
  bool done() const { return operation_.request->done(); }
  void cancel() { operation_.request->cancel(); }

 private:
  std::mutex mutex_;
  bool finished_ = false;
  Operation operation_;
};

/// As DeepSpeed's aio_handle; include/anyaccel/ops/async_io.h is the manual.
class AsyncIOHandle final : public torch::CustomClassHolder {
 public:
  AsyncIOHandle(std::int64_t block_size, std::int64_t queue_depth, bool single_submit, bool overlap_events,
                std::int64_t intra_op_parallelism);

  std::int64_t block_size() const { return engine_->options().block_bytes; }
  std::int64_t queue_depth() const { return engine_->options().queue_depth; }
  bool single_submit() const { return engine_->options().single_submit; }
  bool overlap_events() const { return engine_->options().overlap_events; }
  std::int64_t intra_op_parallelism() const { return engine_->options().workers; }
  std::int64_t alignment() const { return 512 * intra_op_parallelism(); }
  std::string queue() const { return engine_->queue_name(); }
  std::string queue_reason() const { return engine_->queue_reason(); }

  std::int64_t transfer(const at::Tensor& tensor, const std::string& path, bool write, bool validate, bool async,
                        std::int64_t offset);
  std::int64_t write_descriptor(const at::Tensor& tensor, std::int64_t descriptor, std::int64_t offset);
  c10::intrusive_ptr<AsyncIORequest> start(const at::Tensor& tensor, const std::string& path, bool write,
                                           std::int64_t offset);
  std::int64_t wait();
  void cancel();

 private:
  /// Opens the file only when the rest of the call makes sense: a wrong one leaves no empty file.
  Operation begin(const at::Tensor& tensor, const std::function<std::unique_ptr<File>()>& open, bool write,
                  std::int64_t offset);

  std::shared_ptr<Engine> engine_;
  std::mutex waiting_;  // one thread collects, so that all that was begun is finished when any wait() returns
  std::mutex mutex_;
  std::vector<Operation> pending_;
  std::vector<std::shared_ptr<Request>> awaited_;  // by a wait() in progress, for cancel()
};

}  // namespace anyaccel::ops::aio
