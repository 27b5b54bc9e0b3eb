// Which writes to one file may be under way together.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <vector>

#include "io/async/plan.h"

namespace anyaccel::ops::aio {

/// What this process writes to one file, whoever opened it. A direct write and one through the page
/// cache are kept apart when they are close: the system holds neighbouring pages in one piece of
/// its cache, and a direct write cannot take away what it holds of its range while the piece is
/// being changed; later reads would then give the old bytes. Thread-safe.
class WriteConflicts {
 public:
  /// The same object for the same file as long as anybody has it.
  static std::shared_ptr<WriteConflicts> of(dev_t device, ino_t number);
  /// Says that a write begins; false, and nothing is changed, when it must wait for one of the
  /// other kind.
  bool begin(const Range& range, bool direct);
  void end(const Range& range, bool direct) noexcept;

 private:
  std::mutex mutex_;
  std::vector<Range> direct_;
  std::vector<Range> cached_;
};

}  // namespace anyaccel::ops::aio
