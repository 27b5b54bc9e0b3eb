// Runs what may end the process in a child of it.
#pragma once

#include <functional>
#include <string>

namespace anyaccel {

/// Runs `work` in a forked child, whose output is kept. Returns an empty text if it returned; otherwise why not: its exception's text,
/// or the signal that ended it and the last line that it wrote. A child that takes longer than `seconds` (0: no limit), or that writes
/// megabytes, is killed, and so are all processes that it leaves behind, whatever session they are in.
/// `work` must not need other threads of this process: a child has one.
std::string run_in_trial(const std::function<void()>& work, double seconds);

/// Called in `work`: what begins now, for the message about a child that takes too long. Ignored outside of a trial.
void begin_trial_stage(const char* name);

}  // namespace anyaccel
