#include "ops/async_io/handle.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "anyaccel/error.h"
#include "ops/shared/empty.h"

namespace anyaccel::ops::aio {

namespace {

constexpr const char* kWhere = "aio_handle";

at::Tensor empty_pinned(const at::Tensor& like) {
  const auto options = at::TensorOptions().dtype(like.scalar_type()).device(c10::kCPU);
  try {
    return empty(like.sizes(), options.pinned_memory(true));
  } catch (const c10::Error&) {
    return empty(like.sizes(), options);  // not every device has a pinned-memory allocator
  }
}

void require_memory(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided || tensor.is_meta())
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "the tensor is not dense",
                 .got = c10::str(tensor.layout(), " on ", tensor.device()),
                 .want = "a dense tensor on the host or a device"});
}

/// Returns the tensor that is used for I/O. Data to be written is copied immediately; on a device,
/// the copy follows the work on the current stream.
at::Tensor host_tensor(const at::Tensor& tensor, bool write) {
  const bool direct =
      tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
  if (direct) return tensor;
  auto host = tensor.is_cpu()
                  ? empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()))
                  : empty_pinned(tensor);
  if (write) host.copy_(tensor);
  return host;
}

void compare(const at::Tensor& host, const std::string& path, std::int64_t offset) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset);
  std::vector<char> piece(1 << 20);
  const auto* memory = static_cast<const char*>(host.const_data_ptr());
  for (std::size_t at = 0; at < host.nbytes();) {
    const auto bytes = std::min(piece.size(), host.nbytes() - at);
    file.read(piece.data(), static_cast<std::streamsize>(bytes));
    if (!file || std::memcmp(piece.data(), memory + at, bytes) != 0)
      throw Error(ErrorCode::corrupt, kWhere,
                  {.what = "validation failed: an ordinary read of " + path +
                           " returns different data after byte " +
                           std::to_string(static_cast<std::size_t>(offset) + at)});
    at += bytes;
  }
}

Options options_of(std::int64_t block_size, std::int64_t queue_depth, bool single_submit,
                   bool overlap_events, std::int64_t parallelism) {
  const auto narrow = [](std::int64_t value) {
    return static_cast<int>(std::clamp<std::int64_t>(value, -1, std::numeric_limits<int>::max()));
  };
  const char* queue = std::getenv("ANYACCEL_AIO_QUEUE");
  return {.block_bytes = block_size,
          .queue_depth = static_cast<unsigned>(std::max(narrow(queue_depth), 0)),
          .single_submit = single_submit,
          .overlap_events = overlap_events,
          .workers = narrow(parallelism),
          .queue = queue != nullptr ? queue : "",
          .patience = std::chrono::seconds(10),
          .make_queue = {}};
}

}  // namespace

void Operation::finish() {
  engine->wait(*request);
  request->check();
  if (!request->write()) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (tensor.defined()) tensor.copy_(host, /*non_blocking=*/true);
    if (version.enabled()) version.bump();
  }
  if (validate) compare(host, path, offset);
}

void AsyncIORequest::release() {
  const std::lock_guard lock(mutex_);
  operation_.engine.reset();
}

void AsyncIORequest::wait() {
  const std::lock_guard lock(mutex_);
  if (finished_) return operation_.request->check();
  if (operation_.engine == nullptr)
    throw Error(ErrorCode::invalid_state, kWhere, {.what = "the request was released"});
  finished_ = true;
  operation_.finish();
}

AsyncIOHandle::AsyncIOHandle(std::int64_t block_size, std::int64_t queue_depth, bool single_submit,
                             bool overlap_events, std::int64_t intra_op_parallelism)
    : options_(
          options_of(block_size, queue_depth, single_submit, overlap_events, intra_op_parallelism)),
      engine_(Engine::make(options_)) {
  queue_name_ = engine_->queue_name();
  queue_reason_ = engine_->queue_reason();
}

std::shared_ptr<Engine> AsyncIOHandle::engine() const {
  std::shared_ptr<Engine> out;
  {
    const std::lock_guard lock(mutex_);
    out = engine_;
  }
  if (out == nullptr)
    throw Error(ErrorCode::invalid_state, kWhere,
                {.what = "the handle is closed", .hint = "create a new handle"});
  out->require_same_process();
  return out;
}

void AsyncIOHandle::close() {
  std::shared_ptr<Engine> last;  // destroyed last, even if a statement below throws
  {
    const std::lock_guard lock(mutex_);
    if (engine_ == nullptr) return;
    last = engine_;
  }
  std::exception_ptr failure;
  try {
    wait();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    engine_.reset();
  }
  last.reset();
  if (failure) std::rethrow_exception(failure);
}

Operation AsyncIOHandle::begin(const at::Tensor& tensor,
                               const std::function<std::unique_ptr<File>()>& open, bool write,
                               bool validate, std::int64_t offset) {
  Operation out;
  out.engine = engine();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  require_memory(tensor);
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  if (offset < 0 || offset > std::numeric_limits<std::int64_t>::max() - bytes)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "file_offset is out of range", .got = std::to_string(offset)});
  auto host = host_tensor(tensor, write);
  auto file = open();
  out.path = file->path();
  out.offset = offset;
  // A write only reads the memory, but the engine uses the same pointer type for reads and writes.
  auto* memory = static_cast<char*>(write ? const_cast<void*>(host.const_data_ptr())
                                          : host.mutable_data_ptr());
  // Keep the storage alive instead of the tensor, because the tensor may get a different storage
  // (`tensor.data = ...`) during the transfer.
  out.request = out.engine->start({.file = std::move(file),
                                   .write = write,
                                   .memory = memory,
                                   .range = {offset, offset + bytes},
                                   .keep = std::make_shared<c10::Storage>(host.storage())});
  if (!write && !tensor.is_inference())
    out.version = tensor.unsafeGetTensorImpl()->version_counter();
  if (!write && !host.is_same(tensor)) out.tensor = tensor;
  if (validate || out.tensor.defined()) out.host = std::move(host);
  out.validate = validate;
  return out;
}

std::int64_t AsyncIOHandle::transfer(const at::Tensor& tensor, const std::string& path, bool write,
                                     bool validate, bool async, std::int64_t offset) {
  auto operation = begin(
      tensor, [&] { return File::open(path, write); }, write, validate, offset);
  if (async) {
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(operation));
    return 0;
  }
  // Like DeepSpeed, also finish earlier operations, and include them in the count.
  std::int64_t before = 0;
  std::exception_ptr earlier;
  try {
    before = wait();
  } catch (...) {
    earlier = std::current_exception();  // rethrown after the operation above has finished
  }
  operation.finish();
  if (earlier) std::rethrow_exception(earlier);
  return before + 1;
}

std::int64_t AsyncIOHandle::write_descriptor(const at::Tensor& tensor, std::int64_t descriptor,
                                             std::int64_t offset) {
  if (descriptor < 0 || descriptor > std::numeric_limits<int>::max())
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "the descriptor is out of range", .got = std::to_string(descriptor)});
  auto operation = begin(
      tensor, [&] { return File::of_descriptor(static_cast<int>(descriptor)); }, true, false,
      offset);
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(operation));
  return 0;
}

c10::intrusive_ptr<AsyncIORequest> AsyncIOHandle::start(const at::Tensor& tensor,
                                                        const std::string& path, bool write,
                                                        std::int64_t offset) {
  return c10::make_intrusive<AsyncIORequest>(begin(
      tensor, [&] { return File::open(path, write); }, write, false, offset));
}

std::int64_t AsyncIOHandle::wait() {
  engine();
  const std::lock_guard waiting(waiting_);
  std::vector<Operation> operations;
  {
    const std::lock_guard lock(mutex_);
    operations.swap(pending_);
    for (const auto& operation : operations) awaited_.push_back(operation.request);
  }
  std::exception_ptr first;
  for (auto& operation : operations) {
    try {
      operation.finish();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    awaited_.clear();
  }
  if (first) std::rethrow_exception(first);
  return static_cast<std::int64_t>(operations.size());
}

void AsyncIOHandle::cancel() {
  engine();
  const std::lock_guard lock(mutex_);
  for (auto& operation : pending_) operation.request->cancel();
  for (auto& request : awaited_) request->cancel();
}

}  // namespace anyaccel::ops::aio
