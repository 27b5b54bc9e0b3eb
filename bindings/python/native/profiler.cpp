// The recorder behind `anyaccel profile`: records windows with torch's profiler.
#ifndef NDEBUG
#define NDEBUG  // as in profiler_observer.cpp
#endif

#include "profiler.h"

#include <kineto/libkineto.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <fstream>
#include <stdexcept>

namespace anyaccel::python {

namespace {

using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ExperimentalConfig;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

// Members that some versions of torch do not have.
template <typename Config>
void skip_python_events(Config& config) {
  if constexpr (requires { config.trace_only; }) config.trace_only = true;
}

/// torch can record all threads of the process only if the profiler's state is global.
ProfilerConfig config(bool private_use) {
  ExperimentalConfig experimental;
  experimental.profile_all_threads = true;
  skip_python_events(experimental);
  return ProfilerConfig(private_use ? ProfilerState::KINETO_PRIVATEUSE1 : ProfilerState::KINETO,
                        /*report_input_shapes=*/true, /*profile_memory=*/false,
                        /*with_stack=*/false,
                        /*with_flops=*/false, /*with_modules=*/false, experimental);
}

void start_torch(const std::set<ActivityType>& activities, bool private_use) {
  using at::RecordScope;
  profiler::leave_thread();  // torch would mistake the memory observer for a profiler
  torch::autograd::profiler::prepareProfiler(config(private_use), activities);
  // Omit ranges, because they may stay open when the window ends.
  torch::autograd::profiler::enableProfiler(
      config(private_use), activities,
      {RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION, RecordScope::TORCHSCRIPT_FUNCTION,
       RecordScope::CUSTOM_CLASS});
}

/// True if the open window, or the window that has ended, does not use torch's profiler.
bool without_torch = false;

/// `private_use`: the device's kernels come from a PrivateUse1 backend.
void start_window(const std::vector<int>& numbers, bool private_use, bool lines) {
  std::set<ActivityType> activities;
  for (const int number : numbers) activities.insert(static_cast<ActivityType>(number));
  without_torch = !private_use && activities == std::set{ActivityType::CPU};
  // Kineto must be initialized on the thread that imported torch, which starts the first window. A
  // later window may need it.
  static bool initialized = false;
  if (!initialized || !without_torch) start_torch(activities, private_use);
  if (!initialized && without_torch) torch::autograd::profiler::disableProfiler();
  initialized = true;
  // Callbacks run in the order of their registration, also at the end of an op. The observer is
  // registered last, so once it has seen an op end, the op no longer uses torch's profiler.
  profiler::start_observing(lines, /*ops=*/without_torch);
}

/// The window that has ended, until it is saved. A static destructor would free records to which
/// running ops may still write.
std::shared_ptr<ProfilerStateBase>& stopped = *new std::shared_ptr<ProfilerStateBase>;

/// Stops recording new ops. When a running op ends, torch's profiler writes to the op's record. The
/// records are therefore collected only after all ops have ended.
void end_window() {
  if (!without_torch) stopped = ProfilerStateBase::pop(/*global=*/true);
  if (stopped) stopped->removeCallback();
  profiler::stop_observing();
}

/// Writes the window to a file. Call it when all ops have ended.
void save_window(const std::string& path) {
  if (without_torch) {
    std::ofstream file(path, std::ios::binary);
    if (!(file << profiler::take_ops()).flush())
      throw std::runtime_error("cannot write \"" + path +
                               "\". Check the folder and the free space.");
    return;
  }
  if (!stopped) return;
  ProfilerStateBase::push(std::move(stopped));
  stopped = nullptr;
  const auto result = torch::autograd::profiler::disableProfiler();
  if (result && !path.empty()) result->save(path);
}

/// Drops the window that has ended, even if ops that began in it are still running.
void abandon_window() {
  if (!stopped) return;
  static_cast<void>(new std::shared_ptr<ProfilerStateBase>(std::move(stopped)));
  stopped = nullptr;
  // Saving a window also stops Kineto, which would otherwise keep collecting the device's events.
  libkineto::api().activityProfiler().stopTrace();
}

/// Leaves torch's profiler as if it had never been enabled in this process.
void forget_after_fork() {
  auto window = ProfilerStateBase::pop(/*global=*/true);
  if (window) window->removeCallback();
  // The window's threads do not exist in this process, so the window cannot be destroyed.
  static_cast<void>(new std::shared_ptr<ProfilerStateBase>(std::move(window)));
  static_cast<void>(new std::shared_ptr<ProfilerStateBase>(std::move(stopped)));
  stopped = nullptr;
  profiler::forget_after_fork();
}

py::dict take(std::int64_t base, bool all_ranges) {
  profiler::Observed observed;
  {
    const GilReleased released;
    observed = profiler::take_observed(base, all_ranges);
  }
  py::dict threads;
  for (const auto& thread : observed.threads)
    threads[py::str(std::to_string(thread.id))] =
        py::dict(py::arg("start_ns") = thread.start, py::arg("frame") = thread.line);
  return py::dict(py::arg("events") = py::bytes(observed.events), py::arg("count") = observed.count,
                  py::arg("threads") = threads);
}

}  // namespace

void bind_profiler(py::module_& module) {
  module.def("profiler_start_ranges", [](const py::object& classify) {
    profiler::set_line_classifier(classify);
    profiler::start_ranges();
  });
  module.def("profiler_stop_ranges", &profiler::stop_ranges, NoGil());
  module.def("profiler_start_window", &start_window, NoGil());
  module.def("profiler_end_window", &end_window, NoGil());
  module.def("profiler_wait_for_open_ops", &profiler::wait_for_open_ops, NoGil());
  module.def("profiler_save_window", &save_window, NoGil());
  module.def("profiler_abandon_window", &abandon_window, NoGil());
  module.def("profiler_take", &take);
  module.def("profiler_observed_ops", &profiler::observed_ops);
  module.def("profiler_line_texts", &profiler::line_texts);
  module.def("profiler_leave_thread", &profiler::leave_thread);
  module.def("profiler_forget_after_fork", &forget_after_fork);
  module.def("profiler_reads_frames", &profiler::reads_frames_without_gil);
}

}  // namespace anyaccel::python
