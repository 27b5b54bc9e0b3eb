#include "launch/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace anyaccel::launch {

bool open_terminal(int ends[2]) noexcept {
  ends[1] = -1;
  ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends[0] < 0) return false;
  char name[128];
  if (::grantpt(ends[0]) == 0 && ::unlockpt(ends[0]) == 0 &&
      ::ptsname_r(ends[0], name, sizeof name) == 0)
    ends[1] = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios settings{};
  if (ends[1] >= 0 && ::tcgetattr(ends[1], &settings) == 0) {
    ::cfmakeraw(&settings);
    if (::tcsetattr(ends[1], TCSANOW, &settings) == 0) return true;
  }
  if (ends[1] >= 0) ::close(ends[1]);
  ::close(ends[0]);
  return false;
}

void copy_size(int like, int end) noexcept {
  winsize from{}, to{};
  // Setting the size makes the kernel send SIGWINCH, so set it only if it has changed.
  if (::ioctl(like, TIOCGWINSZ, &from) == 0 && ::ioctl(end, TIOCGWINSZ, &to) == 0 &&
      std::memcmp(&from, &to, sizeof from) != 0)
    ::ioctl(end, TIOCSWINSZ, &from);
}

}  // namespace anyaccel::launch
