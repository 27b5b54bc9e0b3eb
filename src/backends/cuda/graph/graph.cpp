// CUDA graphs, implemented with at::cuda::CUDAGraph. They are in a separate library, whose symbols
// are resolved against a CUDA LibTorch when it is loaded.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <torch/headeronly/version.h>

#include "anyaccel/export.h"
#include "anyaccel/sdk/backend.h"
#include "backends/cuda/graph/entry.h"

namespace {

class CudaGraph final : public anyaccel::sdk::GraphImpl {
 public:
  void capture_begin(std::optional<anyaccel::GraphPool> pool) override {
    graph_.capture_begin(pool ? c10::MempoolId_t(pool->first, pool->second)
                              : c10::MempoolId_t(0, 0));
    capturing_ = true;
  }
  void capture_end() override {
    capturing_ = false;
    graph_.capture_end();
  }
  void replay() override { graph_.replay(); }
  void reset() override {
    try {
      // An abandoned capture must be ended first, or its stream stays in capture mode.
      if (capturing_) capture_end();
    } catch (const std::exception&) {  // the capture was invalid; the graph is discarded anyway
    }
    graph_.reset();
  }
  anyaccel::GraphPool pool() const override { return graph_.pool(); }

 private:
  mutable at::cuda::CUDAGraph graph_;  // torch's pool() is not const
  bool capturing_ = false;
};

}  // namespace

extern "C" {

ANYACCEL_API const char* anyaccel_cuda_graph_torch_version() { return TORCH_VERSION; }

ANYACCEL_API anyaccel::sdk::GraphImpl* anyaccel_cuda_graph_create() { return new CudaGraph; }

ANYACCEL_API int anyaccel_cuda_graph_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None ? 0
                                                                                             : 1;
}

}  // extern "C"
