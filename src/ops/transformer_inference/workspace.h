// Keys and values of all injected layers in the process, and the number of tokens that they hold.
// DeepSpeed's Python has a single workspace whose layers are identified by number only, so only one
// model can generate at a time.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "ATen/core/Tensor.h"

namespace anyaccel::ops {

/// Cosines and sines of positions: [positions, half of the rotated dimensions], float32.
struct RotationTables {
  std::int64_t rotary_dim = 0;
  double theta = 0;
  std::int64_t positions = 0;
  std::vector<float> cosines, sines;

  /// Extends the tables to at least `wanted` positions.
  void reach(std::int64_t dims, double base, std::int64_t wanted);
};

struct LayerCache {
  at::Tensor keys, values;  ///< [batch, key heads, maximum tokens, head dim]
};

class Workspace {
 public:
  static Workspace& instance();

  /// Must be held while calling the functions below.
  std::mutex& mutex() { return mutex_; }

  void allocate(std::int64_t layers, std::int64_t batch, std::int64_t max_tokens);
  void release();
  /// Number of tokens in the current pass: a prompt's length, then one more after each pass of the
  /// last layer.
  std::int64_t tokens() const { return tokens_; }
  void set_tokens(std::int64_t tokens) { tokens_ = tokens; }
  std::int64_t batch() const { return batch_; }

  /// Returns a layer's memory for these sizes. Keeps its contents if it fits; otherwise a new
  /// prompt reallocates it.
  LayerCache& layer(std::int64_t layer, at::IntArrayRef sizes, const at::TensorOptions& options,
                    bool prompt);
  std::int64_t max_tokens() const { return max_tokens_; }
  std::vector<LayerCache>& layers() { return layers_; }
  RotationTables& rotation() { return rotation_; }

 private:
  std::mutex mutex_;
  std::vector<LayerCache> layers_;
  std::int64_t batch_ = 0, max_tokens_ = 0, tokens_ = 1;
  RotationTables rotation_;
};

}  // namespace anyaccel::ops
