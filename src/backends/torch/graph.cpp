#include "backends/torch/parts.h"

#if ANYACCEL_TORCH_AT_LEAST(2, 12)
#include <ATen/core/GraphImplInterface.h>
#endif

namespace anyaccel::torch_parts {

#if ANYACCEL_TORCH_AT_LEAST(2, 12)

namespace {

class TorchGraph final : public sdk::GraphImpl {
 public:
  explicit TorchGraph(std::unique_ptr<at::GraphImplInterface> graph) : graph_(std::move(graph)) {}

  void capture_begin(std::optional<GraphPool> pool) override {
    graph_->capture_begin(pool.value_or(GraphPool{0, 0}));
    capturing_ = true;
  }
  void capture_end() override {
    capturing_ = false;
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
  std::unique_ptr<at::GraphImplInterface> graph_;
  bool capturing_ = false;
};

}  // namespace

// Not at::accelerator::Graph, because it always uses torch's current accelerator instead of the
// given type.
std::shared_ptr<sdk::GraphImpl> make_graph(c10::DeviceType type) {
  if (!at::has_graph_impl(type)) return nullptr;
  return std::make_shared<TorchGraph>(at::create_graph_impl(type));
}

#else

std::shared_ptr<sdk::GraphImpl> make_graph(c10::DeviceType /*type*/) { return nullptr; }

#endif

}  // namespace anyaccel::torch_parts
