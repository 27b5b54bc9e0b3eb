// Error handling: how a worker recovers from an exception, and how requests fail.
#include <cerrno>
#include <exception>
#include <new>

#include "io/async/worker.h"

namespace anyaccel::ops::aio {

void Worker::fail(Request& request, int error, std::int64_t at, const char* why) noexcept {
  const std::lock_guard lock(request.mutex_);
  request.stop_ = true;
  if (request.error_ != 0) return;
  request.error_ = error;
  request.error_at_ = at;
  if (why == nullptr) return;
  try {
    request.why_ = why;
  } catch (const std::bad_alloc&) {
    // Report the errno without the details.
  }
}

/// Handles an exception thrown while serving requests: waits for all in-flight blocks, fails all
/// requests of this worker, and continues. If waiting fails, the queue is broken and its blocks are
/// never freed.
void Worker::recover() noexcept {
  int error = EIO;
  std::string why;
  const auto tell = [&] {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      error = ENOMEM;
    } catch (const std::exception& told) {
      why = told.what();
    } catch (...) {
    }
  };
  tell();
  if (reaping_) collect();
  while (under_way_ > 0 && !broken_) {
    try {
      done_.clear();
      queue_->reap(under_way_, done_);
      broken_ = done_.empty();
    } catch (...) {
      tell();
      broken_ = true;
    }
    collect();
  }
  if (broken_) why_broken_.swap(why);
  for (auto& block : blocks_) unclaim(block);
  if (broken_) {
    for (auto slice = slices_.begin(); slice != slices_.end();) {
      const auto here = slice++;
      for (const auto& block : blocks_)
        if (block.in_system && block.slice == &*here) {
          const std::lock_guard lock(here->request->mutex_);
          here->request->lost_ = true;
        }
    }
  }
  fail_slices(broken_ ? EIO : error, broken_ ? why_broken_.c_str() : why.c_str());
  ready_.clear();
  batch_.clear();
  if (broken_) {
    lost_->bounces.swap(bounces_);
    lost_->blocks.swap(blocks_);
    return;
  }
  free_.clear();
  for (auto& block : blocks_) free_.push_back(&block);
  free_bounces_.clear();
  for (auto& bounce : bounces_) free_bounces_.push_back(bounce.get());
}

void Worker::lose() noexcept {
  static std::atomic<Lost*> all{
      nullptr};  // keeps the memory reachable, so that leak checkers do not report it
  auto* lost = lost_.release();
  lost->next = all.load();
  while (!all.compare_exchange_weak(lost->next, lost)) {
  }
}

/// Fails this worker's slices of all its requests.
void Worker::fail_slices(int error, const char* why) noexcept {
  while (!slices_.empty()) {
    auto& slice = slices_.front();
    Request& request = *slice.request;
    fail(request, error, slice.left.begin, why);
    bool ends = slice.last;
    bool lost = false;
    {
      const std::lock_guard lock(request.mutex_);
      if (!slice.last) ends = --request.slices_ == 0;
      lost = request.lost_;
    }
    auto shared = slice.request;
    if (lost)
      lost_->slices.splice(lost_->slices.end(), slices_, slices_.begin());
    else
      slices_.pop_front();
    if (ends) engine_.finish(std::move(shared));
  }
}

}  // namespace anyaccel::ops::aio
