#include "ops/transformer_inference/workspace.h"

#include <algorithm>
#include <cmath>

#include "ops/shared/check.h"
#include "ops/shared/empty.h"

namespace anyaccel::ops {

void RotationTables::reach(std::int64_t dims, double base, std::int64_t wanted) {
  if (dims == rotary_dim && base == theta && wanted <= positions) return;
  positions = 0;  // mark the tables as invalid until all entries are computed
  const std::int64_t reached = wanted > 64 ? wanted + wanted / 2 : 64;
  const std::int64_t half = dims / 2;
  cosines.resize(static_cast<std::size_t>(reached * half));
  sines.resize(cosines.size());
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    for (std::int64_t position = 0; position < reached; ++position) {
      const auto at = static_cast<std::size_t>(position * half + i);
      cosines[at] = static_cast<float>(std::cos(frequency * static_cast<double>(position)));
      sines[at] = static_cast<float>(std::sin(frequency * static_cast<double>(position)));
    }
  }
  rotary_dim = dims;
  theta = base;
  positions = reached;
}

Workspace& Workspace::instance() {
  // Never destroyed, because tensors must not outlive torch's allocator.
  static auto* const workspace = new Workspace;
  return *workspace;
}

void Workspace::allocate(std::int64_t layers, std::int64_t batch, std::int64_t max_tokens) {
  constexpr const char* where = "allocate_workspace";
  if (layers < 1 || batch < 0 || max_tokens < 1)
    fail_argument(where, "the sizes are out of range",
                  c10::str(layers, " layers, a batch of ", batch, ", ", max_tokens, " tokens"),
                  "1 or more layers and tokens, and a batch of 0 or more");
  layers_.assign(static_cast<std::size_t>(layers), {});
  batch_ = batch;
  max_tokens_ = max_tokens;
}

void Workspace::release() {
  for (LayerCache& cache : layers_) cache = {};
}

LayerCache& Workspace::layer(std::int64_t layer, at::IntArrayRef sizes,
                             const at::TensorOptions& options, bool prompt) {
  constexpr const char* where = "softmax_context";
  const std::int64_t batch = sizes[0], heads = sizes[1], tokens = sizes[2], dim = sizes[3];
  if (layer < 0 || layer >= static_cast<std::int64_t>(layers_.size()))
    fail_argument(where, "the layer index is out of range", std::to_string(layer),
                  c10::str("an index below ", layers_.size()), "call allocate_workspace first");
  if (tokens > max_tokens_)
    fail_argument(where, "the workspace is too small for the tokens",
                  std::to_string(tokens) + " tokens", c10::str("at most ", max_tokens_, " tokens"),
                  "pass a larger max_out_tokens to init_inference");
  LayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  const at::Tensor& keys = cache.keys;
  const bool fits = keys.defined() && keys.scalar_type() == options.dtype().toScalarType() &&
                    keys.size(0) >= batch && keys.size(1) == heads && keys.size(3) == dim;
  if (fits) return cache;
  if (!prompt && tokens > 1)
    fail_argument(where, "the previous tokens are not in the workspace",
                  c10::str("a batch of ", batch, ", ", heads, " heads of ", dim),
                  keys.defined() ? c10::str("the prompt's sizes, ", keys.sizes())
                                 : std::string("a prompt first"));
  const std::vector<std::int64_t> whole{std::max(batch, batch_), heads, max_tokens_, dim};
  cache = {empty(whole, options), empty(whole, options)};
  return cache;
}

}  // namespace anyaccel::ops
