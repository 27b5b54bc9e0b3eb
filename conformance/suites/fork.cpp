// Suite "fork": getters work in a forked child of a process that uses the device. torch itself does
// not support computing in such a child.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "support.h"

namespace anyaccel::conformance {

namespace {

/// Runs `body` in a forked child. Fails if the child crashes or hangs, or if `body` throws; the
/// failure then contains the exception's message.
void in_child(const std::function<void()>& body) {
  int ends[2];
  expect(::pipe(ends) == 0, "cannot create a pipe");
  const pid_t pid = ::fork();
  expect(pid >= 0, "cannot start a process");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string said = "exception without a message";
    bool good = false;
    try {
      body();
      good = true;
    } catch (const std::exception& error) {
      said = error.what();
    } catch (...) {  // `said` is already set
    }
    if (!good && ::write(ends[1], said.data(), said.size()) < 0) ::_exit(2);
    ::_exit(good ? 0 : 1);
  }
  ::close(ends[1]);
  int status = 0;
  bool ended = false;
  for (int waited = 0; waited < 15'000 && !ended; waited += 5) {
    ended = ::waitpid(pid, &status, WNOHANG) == pid;
    if (!ended) sleep_ms(5);
  }
  char said[1000] = {};
  if (!ended) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  } else if (::read(ends[0], said, sizeof(said) - 1) < 0) {
    said[0] = '\0';
  }
  ::close(ends[0]);
  expect(ended, "a forked child hangs");
  expect(!WIFSIGNALED(status),
         std::string("a forked child crashes: ") + ::strsignal(WTERMSIG(status)));
  expect(WEXITSTATUS(status) == 0, std::string("in a forked child: ") + said);
}

/// Initializes the device before the fork. Otherwise the case would not test anything.
void use(Accelerator& accelerator) {
  filled(accelerator, 1).add_(1);
  accelerator.synchronize();
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(fork, device_count_survives, required, true) {
  use(accelerator);
  const auto count = accelerator.device_count();
  in_child([&] {
    expect_equal(accelerator.device_count(), count, "device_count()");
    expect(accelerator.is_available(), "is_available() is false");
  });
}

ANYACCEL_CONFORMANCE_CASE(fork, names_survive, required, true) {
  use(accelerator);
  in_child([&] {
    expect(!accelerator.device_name().empty() && !accelerator.name().empty(), "a name is empty");
    expect(!accelerator.communication_backend_name().empty(),
           "communication_backend_name() is empty");
    accelerator.visible_devices_envs();
    accelerator.is_synchronized_device();
    accelerator.get_compile_backend();
    expect(get_accelerator().name() == accelerator.name(),
           "get_accelerator() returns a different accelerator");
  });
}

ANYACCEL_CONFORMANCE_CASE(fork, getters_survive, recommended, true) {
  use(accelerator);
  in_child([&] {
    accelerator.device_properties(0);
    accelerator.dtype_table(0);
    accelerator.supported_dtypes();
    accelerator.current_device();
  });
}

ANYACCEL_CONFORMANCE_CASE(fork, host_tensors_can_be_made, recommended, true) {
  use(accelerator);
  in_child([&] {
    expect_equal(host_sequence(3).numel(), std::int64_t{3}, "elements of a host tensor");
  });
}

ANYACCEL_CONFORMANCE_CASE(fork, the_parent_goes_on, required, true) {
  use(accelerator);
  const auto x = filled(accelerator, 2, 1000);
  in_child([] {});
  for (const double value : values(x.mul(3)))
    expect_equal(value, 6.0, "work in the parent after a fork");
  accelerator.synchronize();
}

}  // namespace anyaccel::conformance
