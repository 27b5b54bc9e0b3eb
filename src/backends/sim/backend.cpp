#include "backends/sim/backend.h"

#include "backends/sim/graph.h"
#include "backends/sim/pinned.h"
#include "backends/sim/runtime.h"
#include "backends/sim/traits.h"

namespace anyaccel::backends::sim {

namespace {

sdk::Traits running_traits() {
  if (!anyaccel::sim::installed())
    anyaccel::sim::install(anyaccel::sim::options_from_environment());
  auto result = traits();
  result.device_type = device_type_name(runtime().options);
  result.fp64 = ((dtype_bits(runtime().options) >> static_cast<unsigned>(c10::kDouble)) & 1U) != 0;
  return result;
}

/// Does not use torch's graph registry, which exists only since 2.12.
class Graph final : public sdk::GraphImpl {
 public:
  void capture_begin(std::optional<GraphPool> pool) override {
    graph_.capture_begin(pool.value_or(GraphPool{0, 0}));
  }
  void capture_end() override { graph_.capture_end(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  GraphPool pool() const override { return graph_.pool(); }

 private:
  SimGraph graph_;
};

}  // namespace

SimBackend::SimBackend() : TorchBackend(running_traits()) {}

DeviceProperties SimBackend::properties(DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  const int physical = device_at(index).physical;
  properties.name = "simulated device " + std::to_string(physical);
  properties.uuid = device_uuid(physical);
  properties.vendor = "AnyAccel";
  properties.multi_processor_count = 1;
  return properties;
}

DtypeSupport SimBackend::dtype_support(DeviceIndex index, c10::ScalarType dtype) const {
  auto support = TorchBackend::dtype_support(index, dtype);
  // Programs choose a dtype based on `fast`. A simulated GPU reports float16 and bfloat16 as fast,
  // although the CPU kernels convert the values.
  if (c10::isReducedFloatingType(dtype) && dtype != c10::kHalf && dtype != c10::kBFloat16)
    support.fast = false;
  return support;
}

bool SimBackend::register_host_memory(void* address, std::size_t bytes) {
  start();
  register_pinned(address, bytes);
  return true;
}

void SimBackend::unregister_host_memory(void* address) { unregister_pinned(address); }

std::shared_ptr<sdk::GraphImpl> SimBackend::new_graph() { return std::make_shared<Graph>(); }

bool SimBackend::is_current_stream_capturing() const {
  return sim::current_stream(sim::current_device()).capture() != nullptr;
}

}  // namespace anyaccel::backends::sim
