#include <c10/core/Event.h>

#include "backends/torch/parts.h"

namespace anyaccel::torch_parts {

namespace {

class TorchEvent final : public sdk::EventImpl {
 public:
  TorchEvent(c10::DeviceType type, bool enable_timing)
      : event_(type,
               enable_timing ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT) {}

  void record(const Stream& stream) override { event_.record(stream.unwrap()); }
  void wait(const Stream& stream) override { event_.block(stream.unwrap()); }
  bool query() const override { return event_.query(); }
  void synchronize() const override { event_.synchronize(); }
  double elapsed_time(const EventImpl& end) const override {
    return event_.elapsedTime(static_cast<const TorchEvent&>(end).event_);
  }

 private:
  c10::Event event_;
};

}  // namespace

std::shared_ptr<sdk::EventImpl> make_event(c10::DeviceType type, bool enable_timing) {
  return std::make_shared<TorchEvent>(type, enable_timing);
}

}  // namespace anyaccel::torch_parts
