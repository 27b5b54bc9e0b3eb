// Runs what may end the process in a child of it.
#pragma once

#include <functional>
#include <string>

namespace anyaccel {

/// Runs `work` in a forked child, whose output is kept. Empty when it returned; otherwise why not: its exception's text,
/// or the signal that ended it and the last line that it wrote. A child that takes longer is ended.
/// `work` must not need other threads of this process: a child has one.
std::string run_in_trial(const std::function<void()>& work, double seconds);

}  // namespace anyaccel
