#include "base/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "anyaccel/error.h"
#include "base/file.h"

namespace anyaccel {

namespace {

[[noreturn]] void missing(const char* file) {
  throw Error(ErrorCode::unavailable, "process memory",
              {.what = std::string(file) + " does not report the memory of this process"});
}

/// Returns a value from /proc/self/status, converted from kilobytes to bytes.
std::int64_t bytes_after(const std::string& status, const char* key) {
  const auto at = status.find(key);
  const auto digit = at == std::string::npos ? at : status.find_first_of("0123456789", at);
  std::int64_t kilobytes = -1;
  if (digit != std::string::npos)
    std::from_chars(status.data() + digit, status.data() + status.size(), kilobytes);
  if (kilobytes < 0) missing("/proc/self/status");
  return kilobytes * 1024;
}

}  // namespace

std::int64_t resident_bytes() {
  // The content is "size resident shared ...", in pages. This file is cheaper to read than
  // /proc/self/status, and this function is called often.
  std::array<char, 128> text{};
  const int descriptor = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  const ssize_t count = descriptor < 0 ? -1 : ::read(descriptor, text.data(), text.size() - 1);
  if (descriptor >= 0) ::close(descriptor);
  if (count <= 0) missing("/proc/self/statm");
  const std::string_view line(text.data(), static_cast<std::size_t>(count));
  const auto space = line.find(' ');
  std::int64_t pages = -1;
  if (space != std::string_view::npos)
    std::from_chars(line.data() + space + 1, line.data() + line.size(), pages);
  if (pages < 0) missing("/proc/self/statm");
  static const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  return pages * page;
}

std::int64_t peak_resident_bytes() { return resident_memory().peak_bytes; }

ResidentMemory resident_memory() {
  // getrusage() is unsuitable: its peak cannot be reset and includes the program that ran before
  // exec().
  const auto status = try_read_kernel_file("/proc/self/status").value_or("");
  return {bytes_after(status, "VmRSS:"), bytes_after(status, "VmHWM:")};
}

bool reset_peak_resident_bytes() noexcept {
  const int descriptor = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool done = ::write(descriptor, "5", 1) == 1;
  ::close(descriptor);
  return done;
}

}  // namespace anyaccel
