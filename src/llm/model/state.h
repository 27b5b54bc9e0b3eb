// What a Model holds.
#pragma once

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/model.h"
#include "llm/model/rope.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

struct ModelState {
  ModelState(ModelConfig model_config, c10::ScalarType type)
      : config(std::move(model_config)),
        dtype(type),
        weights(make_weights(config, type, get_accelerator().torch_device())),
        rope(config) {}
  ModelConfig config;
  c10::ScalarType dtype;
  Weights weights;
  RopeTables rope;
};

/// Ids as an int64 tensor [1, time] on the accelerator. `invalid_argument` as Model::logits says.
at::Tensor ids_on_device(const ModelConfig& config, const std::vector<std::int64_t>& ids, const char* where);

}  // namespace anyaccel::llm
