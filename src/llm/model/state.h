// State of a Model.
#pragma once

#include "anyaccel/llm/model.h"
#include "llm/model/rope.h"
#include "llm/model/weights.h"
#include "llm/support/compute_device.h"

namespace anyaccel::llm {

struct ModelState {
  ModelState(ModelConfig model_config, c10::ScalarType type)
      : config(std::move(model_config)),
        local(config),
        dtype(type),
        weights(make_weights(local, type, compute_device())),
        rope(config) {}
  /// Creates the state for one rank's part of the model, with the sizes in `part`.
  ModelState(ModelConfig model_config, ModelConfig part, c10::ScalarType type)
      : config(std::move(model_config)),
        local(std::move(part)),
        dtype(type),
        weights(make_weights(local, type, compute_device())),
        rope(config) {}
  ModelConfig config;  ///< of the whole model
  ModelConfig local;   ///< of this rank's part; equal to `config` if the model is not split
  c10::ScalarType dtype;
  Weights weights;
  RopeTables rope;
};

/// Throws `invalid_argument` for ids that Model::logits() rejects.
void check_ids(const ModelConfig& config, const std::vector<std::int64_t>& ids, const char* where);
/// Checks ids and copies them to the accelerator as an int64 tensor [1, time].
at::Tensor ids_on_device(const ModelConfig& config, const std::vector<std::int64_t>& ids,
                         const char* where);

}  // namespace anyaccel::llm
