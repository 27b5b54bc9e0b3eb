// The constructor of anyaccel::Error for op libraries, which do not link any of AnyAccel's
// libraries. It does the same as the constructor in base (both use sdk/error_message.h), and also
// records the error code, which torch drops on the way to Python. The symbol is hidden, so each op
// library uses its own constructor even in a process that has loaded base.
#define ANYACCEL_API
#include "ops/shared/error.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <utility>

#include "anyaccel/sdk/error_message.h"

namespace anyaccel {

namespace {

/// Number of errors whose code is recorded. Errors are rare and their codes are queried
/// immediately, but wait() on many requests creates many errors before it throws the first one.
constexpr std::size_t kRemembered = 256;

struct Made {
  std::mutex mutex;
  std::array<std::pair<std::string, ErrorCode>, kRemembered> last;
  std::size_t count = 0;
};

Made& made() {
  static auto& all = *new Made;  // never destroyed, because errors may occur during process exit
  return all;
}

}  // namespace

Error::Error(ErrorCode code, std::string_view where, const ErrorText& text)
    : std::runtime_error(sdk::error_message(where, text)), code_(code) {
  auto& all = made();
  const std::lock_guard lock(all.mutex);
  all.last[all.count++ % kRemembered] = {what(), code};
}

std::int64_t ops::error_code_of(const std::string& message) noexcept {
  auto& all = made();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < std::min(all.count, kRemembered); ++i)
    if (const auto& [text, code] = all.last[(all.count - 1 - i) % kRemembered]; text == message)
      return static_cast<std::int64_t>(code);
  return -1;
}

}  // namespace anyaccel
