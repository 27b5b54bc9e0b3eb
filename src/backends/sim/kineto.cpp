// Reports the device's kernels to torch.profiler through Kineto, the library that collects traces.
#include "backends/sim/register.h"

#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)

#ifndef USE_KINETO
#define USE_KINETO  // LibTorch is built with Kineto, but its headers do not define this
#endif
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY  // Kineto's headers use fmt, which LibTorch does not export
#endif
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include "backends/sim/runtime.h"
#include "backends/sim/trace.h"

namespace anyaccel::backends::sim {

namespace {

using libkineto::ActivityType;

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
    trace::start();
  }

  void stop() override {
    // The profiler has synchronized the device, so no kernel is missing.
    kernels_ = trace::stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(
        logger, [](std::int32_t) { return nullptr; }, 0, INT64_MAX);
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked,
                    std::int64_t start, std::int64_t end) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, end, "sim");
    for (const auto& kernel : kernels_) {
      if (kernel.start < start || kernel.end > end) continue;
      buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, kernel.name);
      auto& activity = *buffer_->activities.back();
      activity.startTime = kernel.start;
      activity.endTime = kernel.end;
      activity.device = kernel.device;
      activity.resource = kernel.stream;
      activity.id = static_cast<std::int32_t>(kernel.correlation);
      activity.flow.id = static_cast<std::uint32_t>(kernel.correlation);
      activity.flow.type = libkineto::kLinkAsyncCpuGpu;
      activity.linked = linked(activity.id);
      activity.addMetadata("stream", kernel.stream);
      logger.handleGenericActivity(activity);
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(std::uint64_t id) override { trace::push_correlation(id); }
  void popCorrelationId() override { trace::pop_correlation(); }

 private:
  std::vector<TracedKernel> kernels_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config& /*config*/) override {
    if (types.count(ActivityType::CONCURRENT_KERNEL) == 0 &&
        types.count(ActivityType::PRIVATEUSE1_RUNTIME) == 0)
      return nullptr;
    return std::make_unique<Session>();
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      std::int64_t /*milliseconds*/, std::int64_t /*duration*/, const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = "anyaccel sim";
  const std::set<ActivityType> activities_ = {ActivityType::CONCURRENT_KERNEL,
                                              ActivityType::PRIVATEUSE1_RUNTIME};
};

}  // namespace

void register_kineto() {
  if (runtime().type == c10::DeviceType::PrivateUse1)
    torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
        [] { return std::make_unique<Profiler>(); });
}

}  // namespace anyaccel::backends::sim

#else

namespace anyaccel::backends::sim {

void register_kineto() {}  // torch before 2.12 has no registry for such profilers

}  // namespace anyaccel::backends::sim

#endif
