#include "backends/cpu/graph/graph.h"

#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cpu/graph/recording.h"

namespace anyaccel::backends::cpu {
namespace {

class CpuGraph final : public sdk::GraphImpl {
 public:
  ~CpuGraph() override { reset(); }

  void capture_begin(std::optional<GraphPool> pool) override {
    reset();
    recording_ = Recording::begin();
    static std::atomic<std::uint64_t> next{1};
    pool_ = pool ? *pool : GraphPool{next++, 0};
  }

  void capture_end() override {
    if (recording_ == nullptr) {
      throw Error(ErrorCode::invalid_state, "capture_to_graph",
                  {.what = "no capture is in progress", .hint = "call capture_begin"});
    }
    if (!recording_->owned_by_this_thread()) {
      throw Error(ErrorCode::invalid_state, "capture_to_graph",
                  {.what = "a capture must end on the thread that began it"});
    }
    const auto recording = std::exchange(recording_, nullptr);
    recording->stop();
    auto calls = recording->take_calls();
    share_memory(calls);
    for (auto& call : calls) steps_.push_back(std::move(call.step));
    pins_ = pins_of(calls);
    captured_ = true;
  }

  void replay() override {
    if (!captured_) {
      throw Error(ErrorCode::invalid_state, "replay_graph",
                  {.what = "the graph is empty", .hint = "capture work first"});
    }
    if (Recording::on_this_thread()) {
      throw Error(ErrorCode::unsupported, "replay_graph",
                  {.what = "a graph cannot be replayed during a capture"});
    }
    check_pins();
    const StepScope scope;
    for (const auto& step : steps_) step->run();
  }

  void reset() override {
    if (const auto recording = std::exchange(recording_, nullptr)) recording->stop();
    steps_.clear();
    pins_.clear();
    captured_ = false;
  }

  GraphPool pool() const override { return pool_; }

 private:
  // A storage that the steps use, and its address, which must not change. The steps keep the
  // storage alive.
  struct Pin {
    const c10::StorageImpl* storage;
    const void* data;
  };

  static std::vector<Pin> pins_of(const std::vector<Recorded>& calls) {
    std::unordered_map<const c10::StorageImpl*, const void*> found;
    for (const auto& call : calls) {
      for (const auto* tensors : {&call.inputs, &call.outputs}) {
        for (const auto& tensor : *tensors)
          found[tensor.storage().unsafeGetStorageImpl()] = tensor.storage().data();
      }
    }
    std::vector<Pin> pins;
    for (const auto& [storage, data] : found) pins.push_back({storage, data});
    return pins;
  }

  void check_pins() const {
    for (const auto& pin : pins_) {
      if (pin.storage->data() == pin.data) continue;
      throw Error(
          ErrorCode::invalid_state, "replay_graph",
          {.what = "a tensor of the graph was resized after the capture, so its memory has moved",
           .hint = "change inputs with copy_, or capture again"});
    }
  }

  std::shared_ptr<Recording> recording_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<Pin> pins_;
  GraphPool pool_{0, 0};
  bool captured_ = false;
};

}  // namespace

std::shared_ptr<sdk::GraphImpl> make_cpu_graph() { return std::make_shared<CpuGraph>(); }

bool is_cpu_capturing() noexcept { return Recording::on_this_thread(); }

}  // namespace anyaccel::backends::cpu
