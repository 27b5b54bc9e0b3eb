#include "io/async/engine.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "anyaccel/error.h"
#include "io/async/release.h"
#include "io/async/worker.h"

namespace anyaccel::ops::aio {

void Request::check() const {
  if (error_ == 0) return;
  const auto place = std::string(job_.write ? "writing " : "reading ") + path_ + " at byte " +
                     std::to_string(error_at_);
  if (error_ == ECANCELED)
    throw Error(ErrorCode::interrupted, "aio_handle", {.what = place + " was cancelled"});
  if (error_ < 0)
    throw Error(ErrorCode::io, "aio_handle",
                {.what = place + " reached the end of the file",
                 .want = std::to_string(job_.range.end) + " bytes"});
  std::string hint;
  if (error_ == EFAULT)
    hint =
        "pass memory that remains valid, and synchronize first if a copy to or from this pinned "
        "memory is in flight";
  if (error_ == EAGAIN)
    hint = "the system's queue is full; retry when fewer requests are in flight";
  if (!why_.empty()) hint = why_;
  if (error_ == ENOSPC) hint = "free disk space; the content of the range is now undefined";
  throw Error(error_ == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::io, "aio_handle",
              {.what = place + " failed: " + std::strerror(error_), .hint = hint});
}

void Request::release() noexcept {
  std::shared_ptr<void> keep;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (!lost_) keep.swap(job_.keep);
}

std::shared_ptr<Engine> Engine::make(Options options) {
  return {new Engine(std::move(options)), [](Engine* engine) {
            if (engine->process_ == ::getpid()) delete engine;
          }};
}

Engine::Engine(Options options) : options_(std::move(options)), process_(::getpid()) {
  const auto require = [](bool good, const char* what, std::int64_t got, const char* want) {
    if (!good)
      throw Error(ErrorCode::invalid_argument, "aio_handle",
                  {.what = what, .got = std::to_string(got), .want = want});
  };
  // A system call transfers less than 2 GiB.
  require(options_.block_bytes > 0 && options_.block_bytes <= 1 << 30, "block_size is out of range",
          options_.block_bytes, "1 to 1073741824 bytes");
  require(options_.queue_depth > 0 && options_.queue_depth <= 4096, "queue_depth is out of range",
          options_.queue_depth, "1 to 4096");
  require(options_.workers > 0 && options_.workers <= 256, "intra_op_parallelism is out of range",
          options_.workers, "1 to 256");
  if (!options_.make_queue)
    options_.make_queue = [wanted = options_.queue](unsigned depth) {
      return choose_queue(wanted, depth);
    };
  try {
    ensure_release_thread();
    for (int i = 0; i < options_.workers; ++i) workers_.push_back(std::make_unique<Worker>(*this));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::unavailable, "aio_handle",
                {.what = std::string("cannot create a thread: ") + error.what(),
                 .hint = "lower intra_op_parallelism, or raise the process limit (ulimit -u)"});
  }
  queue_name_ = workers_[0]->queue_name();
  queue_reason_ = workers_[0]->queue_reason();
}

Engine::~Engine() { workers_.clear(); }

void Engine::require_same_process() const {
  if (process_ != ::getpid())
    throw Error(
        ErrorCode::invalid_state, "aio_handle",
        {.what = "the handle was created before fork(), and its threads do not exist in the child",
         .hint = "create a new handle in the child"});
}

std::shared_ptr<Request> Engine::start(Job job) {
  require_same_process();
  if (job.range.begin < 0 || job.range.end < job.range.begin)
    throw Error(ErrorCode::invalid_argument, "aio_handle",
                {.what = "file_offset is negative",
                 .got = std::to_string(job.range.begin),
                 .want = "0 or more"});
  if (job.write) {
    if (job.range.bytes() > options_.block_bytes) job.file->reserve(job.range);
  } else if (const auto size = job.file->size(); job.range.end > size) {
    throw Error(ErrorCode::io, "aio_handle",
                {.what = job.file->path() + " is too short to read from byte " +
                         std::to_string(job.range.begin),
                 .got = std::to_string(size) + " bytes",
                 .want = std::to_string(job.range.end) + " bytes"});
  }
  auto request = std::make_shared<Request>();
  const auto parts = split(job.range, options_.workers, job.file->unit(), options_.block_bytes);
  request->job_ = std::move(job);
  request->path_ = request->job_.file->path();
  request->slices_ = static_cast<int>(parts.size());
  if (parts.empty()) {
    request->job_.file.reset();
    request->done_ = true;
    return request;
  }
  request->edges_.reserve(2 * parts.size());
  Worker::Slices slices;
  for (const auto& part : parts) Worker::add_slice(slices, request, part);
  std::size_t worker = 0;
  {
    const std::lock_guard lock(mutex_);
    worker = next_worker_;
    next_worker_ += parts.size();
  }
  // Nothing may fail from here on: a request that only some workers received would never complete.
  while (!slices.empty()) workers_[worker++ % workers_.size()]->take_first(slices);
  return request;
}

void Engine::wait(Request& request) {
  require_same_process();
  {
    std::unique_lock lock(mutex_);
    some_done_.wait(lock, [&] { return request.done(); });
  }
  request.release();
}

void Engine::finish(std::shared_ptr<Request> request) noexcept {
  request->job_.file.reset();
  {
    const std::lock_guard lock(mutex_);
    request->done_.store(true, std::memory_order_release);
    some_done_.notify_all();
  }
  release_later(std::move(request));
}

}  // namespace anyaccel::ops::aio
