// Observes how the threads of a Python program synchronize: the interpreter's locks and threads,
// and the mutexes of torch's autograd engine. Does not use torch.
#pragma once

namespace anyaccel::backends::sim::checking {

/// Starts observing, and tracking threads, if the process runs a Python interpreter whose locks are
/// semaphores (3.10 to 3.13, with the global interpreter lock). If not, threads stay open. Call it
/// again after more libraries have been loaded. Thread-safe.
void hook_threads();

}  // namespace anyaccel::backends::sim::checking
