// The keys and values of all injected layers in the process, and the number of tokens that they
// contain. DeepSpeed's Python code has a single workspace and identifies its layers only by number,
// so only one model can generate at a time.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "ATen/core/Tensor.h"

namespace anyaccel::ops {

/// Cosines and sines for each position, [positions, half of the rotated dimensions] in float32.
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

  /// Hold this mutex while calling the functions below.
  std::mutex& mutex() { return mutex_; }

  void allocate(std::int64_t layers, std::int64_t batch, std::int64_t max_tokens);
  void release();
  /// Returns the number of tokens including those of the current pass: the length of the prompt,
  /// plus one after each pass of the last layer.
  std::int64_t tokens() const { return tokens_; }
  void set_tokens(std::int64_t tokens) { tokens_ = tokens; }
  std::int64_t batch() const { return batch_; }

  /// Returns a layer's memory for these sizes. Existing memory that fits is reused with its
  /// contents; otherwise a new prompt reallocates it.
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
