// Runs code in a child process, because the code may crash, exit or hang.
#pragma once

#include <functional>
#include <string>

namespace anyaccel {

/// Runs `work` in a forked child and captures its output. Returns an empty string if `work`
/// returned. Otherwise returns the reason: the exception's text, or the signal that killed the
/// child together with the child's last line of output. A child that takes longer than `seconds`
/// (0: no limit) or writes megabytes is killed. All processes that it leaves behind are also
/// killed, even those in a new session. `work` must not depend on other threads, because the child
/// has only one.
std::string run_in_trial(const std::function<void()>& work, double seconds);

/// Called by `work` to name the stage that begins, for the timeout message. Does nothing outside a
/// trial.
void begin_trial_stage(const char* name);

}  // namespace anyaccel
