#include <algorithm>
#include <array>

#include "anyaccel/error.h"
#include "io/async/queue.h"

namespace anyaccel::ops::aio {

namespace {

struct Kind {
  const char* name;
  std::unique_ptr<Queue> (*make)(unsigned);
};

constexpr std::array<Kind, 3> kKinds{{{"io_uring", &make_uring_queue},
                                      {"libaio", &make_libaio_queue},
                                      {"threads", &make_thread_queue}}};

}  // namespace

Choice choose_queue(const std::string& wanted, unsigned depth) {
  const bool any = wanted.empty() || wanted == "auto";
  const auto named = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const Kind& kind) { return wanted == kind.name; });
  if (!any && named == kKinds.end())
    throw Error(ErrorCode::invalid_argument, "aio_handle",
                {.what = "unknown I/O queue",
                 .got = wanted,
                 .want = "auto, io_uring, libaio or threads",
                 .hint = "set ANYACCEL_AIO_QUEUE to a supported value"});
  if (!any) return {named->make(depth), std::string(named->name) + " was requested"};
  std::string reason;
  for (const auto& kind : kKinds) {
    try {
      auto queue = kind.make(depth);
      return {std::move(queue), reason.empty() ? std::string(kind.name) + " is available" : reason};
    } catch (const Error& error) {
      reason += (reason.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(ErrorCode::unavailable, "aio_handle", {.what = reason});
}

}  // namespace anyaccel::ops::aio
