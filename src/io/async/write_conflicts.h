// Decides which writes to one file may be in flight at the same time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <vector>

#include "io/async/plan.h"

namespace anyaccel::ops::aio {

/// This process's writes to one file, through any descriptor. Prevents a direct write and a
/// buffered write from being in flight at the same time if they are close to each other. The page
/// cache holds neighboring pages in one folio, and a direct write cannot invalidate its range while
/// the folio is being changed; later reads would then return the old bytes. Thread-safe.
class WriteConflicts {
 public:
  /// Returns the same object for the same file as long as any reference to it exists.
  static std::shared_ptr<WriteConflicts> of(dev_t device, ino_t number);
  /// Registers a write. Returns false, without registering the write, if the write must wait:
  /// direct writes wait for nearby buffered writes, and vice versa.
  bool begin(const Range& range, bool direct);
  void end(const Range& range, bool direct) noexcept;

 private:
  std::mutex mutex_;
  std::vector<Range> direct_;
  std::vector<Range> cached_;
};

}  // namespace anyaccel::ops::aio
