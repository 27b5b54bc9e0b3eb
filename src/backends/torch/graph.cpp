#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "backends/torch/parts.h"

#if ANYACCEL_TORCH_AT_LEAST(2, 12)
#include <ATen/core/GraphImplInterface.h>
#endif

namespace anyaccel::torch_parts {

#if ANYACCEL_TORCH_AT_LEAST(2, 12)

namespace {

/// The streams that are being captured. Most vendors' device guards do not report them.
class Captures {
 public:
  void add(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
    ++count_;
  }
  void remove(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(streams_.begin(), streams_.end(), stream);
    if (found == streams_.end()) return;
    streams_.erase(found);
    --count_;
  }
  bool any() const { return count_ != 0; }
  bool contain(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    return std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
  }

 private:
  std::mutex mutex_;
  std::vector<c10::Stream> streams_;
  std::atomic<int> count_{0};  // so that queries are fast while nothing is captured
};

Captures& captures() {
  static auto* instance = new Captures;  // leaked, because graphs may outlive static destruction
  return *instance;
}

class TorchGraph final : public sdk::GraphImpl {
 public:
  TorchGraph(c10::DeviceType type, std::unique_ptr<at::GraphImplInterface> graph)
      : type_(type), graph_(std::move(graph)) {}
  ~TorchGraph() override { forget_stream(); }

  void capture_begin(std::optional<GraphPool> pool) override {
    graph_->capture_begin(pool.value_or(GraphPool{0, 0}));
    capturing_ = true;
    stream_ = guard(type_).getStream(guard(type_).getDevice());
    captures().add(*stream_);
  }
  void capture_end() override {
    capturing_ = false;
    forget_stream();
    graph_->capture_end();
  }
  void replay() override { graph_->replay(); }
  void reset() override {
    try {
      if (capturing_) capture_end();
      graph_->reset();
    } catch (const std::exception&) {
      // Ending an abandoned capture may fail. The graph is empty anyway.
    }
  }
  GraphPool pool() const override { return graph_->pool(); }

 private:
  void forget_stream() {
    if (stream_) captures().remove(*stream_);
    stream_.reset();
  }

  c10::DeviceType type_;
  std::unique_ptr<at::GraphImplInterface> graph_;
  bool capturing_ = false;
  std::optional<c10::Stream> stream_;  // the stream being captured
};

}  // namespace

// Not at::accelerator::Graph, because it always uses torch's current accelerator instead of the
// given type.
std::shared_ptr<sdk::GraphImpl> make_graph(c10::DeviceType type) {
  if (!at::has_graph_impl(type)) return nullptr;
  return std::make_shared<TorchGraph>(type, at::create_graph_impl(type));
}

bool is_capturing(c10::DeviceType type) {
  return captures().any() && captures().contain(guard(type).getStream(guard(type).getDevice()));
}

#else

std::shared_ptr<sdk::GraphImpl> make_graph(c10::DeviceType /*type*/) { return nullptr; }
bool is_capturing(c10::DeviceType /*type*/) { return false; }

#endif

}  // namespace anyaccel::torch_parts
