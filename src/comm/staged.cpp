// Runs operations and checks their arguments. The operations are in collectives.cpp and
// reductions.cpp.
#include "comm/staged.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "anyaccel/error.h"
#include "comm/coalesced_work.h"

namespace anyaccel::comm {

StagedWork::StagedWork(int rank, c10d::OpType type, const char* title,
                       std::vector<at::Tensor> outputs, std::vector<c10::Device> devices)
    : c10d::Work(rank, type, title),
      outputs_(std::move(outputs)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), devices)) {}

void StagedWork::succeed(Staging& staging, int source_rank) {
  done_ = staging.finish();
  source_rank_ = source_rank;
  // A future records events on the current streams. This thread's current streams are the caller's
  // default streams, which must not wait for the copies before the caller does.
  const auto guards = staging.use_streams();
  finish();
  future_->markCompleted(c10::IValue(outputs_));
}

void StagedWork::fail(std::exception_ptr error) {
  finish(error);
  future_->setError(std::move(error));
}

void StagedWork::synchronize() {
  auto& accelerator = get_accelerator();
  for (const auto& [index, event] : done_) event.wait(accelerator.current_stream(index));
}

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> host, const GroupOptions& options,
                             std::string name)
    : Backend(options.rank, options.size),
      options_(c10::make_intrusive<Options>(name, options.timeout)),
      name_(std::move(name)),
      host_(std::move(host)),
      collectives_(std::make_unique<SerialExecutor>()),
      messages_(std::make_unique<SerialExecutor>()) {}

StagedBackend::~StagedBackend() {
  if (::getpid() != process_) {
    // A forked child does not have these threads and cannot join them.
    collectives_.release();
    messages_.release();
    for (auto& waiter : waiters_) waiter.thread.detach();
    return;
  }
  collectives_.reset();
  messages_.reset();
  join_finished(/*all=*/true);
}

void StagedBackend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  host_->setTimeout(timeout);
}

void StagedBackend::check_process(const char* name) const {
  if (::getpid() != process_)
    throw Error(ErrorCode::invalid_state, name,
                {.what = "the process group was created before fork()",
                 .hint = "create a new group in the child"});
}

StagedBackend::Operation StagedBackend::operation(const char* name, c10d::OpType type) const {
  check_process(name);
  return {.name = name,
          .type = type,
          .staging = std::make_shared<Staging>(name, channels_),
          .posts = {}};
}

c10::intrusive_ptr<StagedWork> StagedBackend::start(Operation& operation) {
  ++sequence_;
  for (auto& output : operation.outputs) output = alias_of(output);
  auto work = c10::make_intrusive<StagedWork>(rank_, operation.type, operation.name,
                                              operation.outputs, operation.staging->devices());
  operation.staging->start();
  coalesce(work);
  return work;
}

void StagedBackend::coalesce(const WorkPtr& work) {
  const std::lock_guard lock(coalesced_mutex_);
  const auto works = coalesced_.find(std::this_thread::get_id());
  if (works != coalesced_.end()) works->second.push_back(work);
}

void StagedBackend::startCoalescing() {
  const std::lock_guard lock(coalesced_mutex_);
  // If an exception left torch's coalescing manager, endCoalescing() was not called.
  coalesced_.insert_or_assign(std::this_thread::get_id(), std::vector<WorkPtr>());
}

StagedBackend::WorkPtr StagedBackend::endCoalescing() {
  const std::lock_guard lock(coalesced_mutex_);
  auto works = coalesced_.extract(std::this_thread::get_id());
  if (works.empty())
    throw Error(ErrorCode::invalid_state, "endCoalescing",
                {.what = "no coalescing block is open on this thread for the group",
                 .hint = "call startCoalescing() first"});
  return c10::make_intrusive<CoalescedWork>(rank_, std::move(works.mapped()));
}

StagedBackend::WorkPtr StagedBackend::post(const Post& post) {
  const std::lock_guard lock(host_mutex_);
  return post(*host_);
}

std::exception_ptr StagedBackend::perform(const Operation& operation) noexcept {
  try {
    operation.staging->wait_until_read();
    for (const auto& step : operation.posts) post(step)->wait();
    if (operation.finish_on_host) operation.finish_on_host();
    return nullptr;
  } catch (...) {
    return explained(operation.name, std::current_exception());
  }
}

StagedBackend::WorkPtr StagedBackend::run(Operation operation, bool async) {
  auto work = start(operation);
  const auto complete = [this](const Operation& run, StagedWork& result, std::exception_ptr error) {
    if (!error) try {
        return result.succeed(*run.staging, -1);
      } catch (...) {
        error = explained(run.name, std::current_exception());
      }
    result.fail(std::move(error));
  };
  if (!async && runs_inline_ && is_idle() && operation.staging->devices().empty()) {
    complete(operation, *work, perform(operation));
    return work;
  }
  ++queued_;
  collectives_->post([this, operation = std::move(operation), work, complete] {
    auto error = perform(operation);
    // Decrement before completing the work object, so that a caller that waits for it can run its
    // next operation inline.
    --queued_;
    complete(operation, *work, std::move(error));
  });
  return work;
}

/// Posts sends and receives in order but waits for them concurrently, because an operation may be
/// unable to complete until a later one has been posted.
StagedBackend::WorkPtr StagedBackend::run_beside(Operation operation) {
  auto work = start(operation);
  join_finished(/*all=*/false);
  messages_->post([this, operation = std::move(operation), work] {
    try {
      operation.staging->wait_until_read();
      auto posted = post(operation.posts.front());
      auto done = std::make_shared<std::atomic<bool>>(false);
      const std::lock_guard lock(waiters_mutex_);
      waiters_.push_back({done, std::thread([this, operation, work, posted, done] {
                            ::pthread_setname_np(::pthread_self(), "anyaccel_wait");
                            try {
                              posted->wait();
                              const bool any = operation.type == c10d::OpType::RECVANYSOURCE;
                              work->succeed(*operation.staging, any ? posted->sourceRank() : -1);
                            } catch (...) {
                              work->fail(explained(operation.name, std::current_exception()));
                            }
                            *done = true;
                          })});
    } catch (...) {
      work->fail(explained(operation.name, std::current_exception()));
    }
  });
  return work;
}

void StagedBackend::join_finished(bool all) {
  std::vector<Waiter> finished;
  {
    const std::lock_guard lock(waiters_mutex_);
    std::erase_if(waiters_, [&](Waiter& waiter) {
      if (!all && !*waiter.done) return false;
      finished.push_back(std::move(waiter));
      return true;
    });
  }
  for (auto& waiter : finished) waiter.thread.join();
}

/// Converts gloo's exceptions to Error.
std::exception_ptr StagedBackend::explained(const char* name, std::exception_ptr error) const {
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    return error;
  } catch (const std::exception& failure) {
    const std::string text = failure.what();
    const bool late =
        text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
    return std::make_exception_ptr(
        Error(late ? ErrorCode::timeout : ErrorCode::unavailable, name,
              {.what = (late ? "a peer did not respond within " +
                                   std::to_string(options_->timeout.count()) + " ms on rank "
                             : "communication failed on rank ") +
                       std::to_string(rank_) + " of " + std::to_string(size_) + ": " + text,
               .hint = "see the output of the other ranks"}));
  }
}

const at::Tensor& StagedBackend::only(const char* name, const Tensors& tensors) const {
  if (tensors.size() != 1)
    throw Error(
        ErrorCode::invalid_argument, name,
        {.what = "wrong number of tensors", .got = std::to_string(tensors.size()), .want = "1"});
  return tensors.front();
}

void StagedBackend::check_rank(const char* name, int64_t rank) const {
  if (rank < 0 || rank >= size_)
    throw Error(ErrorCode::invalid_argument, name,
                {.what = "the rank is out of range",
                 .got = std::to_string(rank),
                 .want = "0 to " + std::to_string(size_ - 1)});
}

void StagedBackend::check_lists(const char* name, const Lists& lists, const Tensors& single) const {
  only(name, single);
  if (lists.size() != 1 || std::ssize(lists[0]) != size_)
    throw Error(ErrorCode::invalid_argument, name,
                {.what = "the list must have one tensor per rank",
                 .got = std::to_string(lists.empty() ? 0 : lists[0].size()) + " tensors",
                 .want = std::to_string(size_) + " tensors"});
  if (!single[0].defined()) return;
  for (const auto& tensor : lists[0])
    if (tensor.numel() != single[0].numel() || tensor.scalar_type() != single[0].scalar_type())
      throw Error(ErrorCode::invalid_argument, name,
                  {.what = "the tensors in the list differ from the single tensor in size or dtype",
                   .got = std::to_string(tensor.numel()) + " elements of " +
                          dtype_name(tensor.scalar_type()),
                   .want = std::to_string(single[0].numel()) + " elements of " +
                           dtype_name(single[0].scalar_type())});
}

void StagedBackend::check_multiple(const char* name, const at::Tensor& large,
                                   const at::Tensor& small) const {
  if (large.numel() != small.numel() * size_ || large.scalar_type() != small.scalar_type())
    throw Error(ErrorCode::invalid_argument, name,
                {.what = "the size of the larger tensor must be that of the smaller one times "
                         "the number of ranks",
                 .got = std::to_string(large.numel()) + " and " + std::to_string(small.numel()) +
                        " elements",
                 .want = std::to_string(small.numel() * size_) + " and " +
                         std::to_string(small.numel()) + " elements with the same dtype"});
}

}  // namespace anyaccel::comm
