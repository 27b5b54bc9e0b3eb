#include "llm/model/kv_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>

#include "anyaccel/accelerator.h"
#include "llm/model/graph_step.h"

namespace anyaccel::llm {

KvCache::KvCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity,
                 c10::ScalarType dtype)
    : capacity_(capacity), written_(capacity) {
  const auto options = at::TensorOptions().dtype(dtype).device(get_accelerator().torch_device());
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    keys_.push_back(at::empty({batch, config.num_kv_heads, capacity, config.head_dim}, options));
    values_.push_back(at::empty({batch, config.num_kv_heads, capacity, config.head_dim}, options));
  }
}

void KvCache::check_room(std::int64_t time) const {
  if (length_ + time <= capacity_) return;
  throw Error(ErrorCode::invalid_argument, "KvCache::append",
              {.what = "the cache is full",
               .got = std::to_string(length_ + time) + " positions",
               .want = "at most " + std::to_string(capacity_) + " positions"});
}

std::pair<at::Tensor, at::Tensor> KvCache::append(std::int64_t layer, const at::Tensor& key,
                                                  const at::Tensor& value) {
  const std::int64_t time = key.size(2);
  const auto index = static_cast<std::size_t>(layer);
  check_room(time);
  written_ = std::max(written_, length_ + time);
  keys_[index].narrow(2, length_, time).copy_(key);
  values_[index].narrow(2, length_, time).copy_(value);
  return {keys_[index].narrow(2, 0, length_ + time), values_[index].narrow(2, 0, length_ + time)};
}

void KvCache::reserve(std::int64_t capacity) {
  if (capacity <= capacity_) return;
  for (std::vector<at::Tensor>* layers : {&keys_, &values_}) {
    for (at::Tensor& layer : *layers) {
      const at::Tensor larger =
          at::empty({layer.size(0), layer.size(1), capacity, layer.size(3)}, layer.options());
      larger.narrow(2, 0, length_).copy_(layer.narrow(2, 0, length_));
      layer = larger;
    }
  }
  capacity_ = written_ = capacity;
  graph_step_ = nullptr;
}

void KvCache::advance(std::int64_t time) {
  length_ += time;
  written_ = std::max(written_, length_);
}

void KvCache::clear_rest() {
  if (written_ == length_) return;
  for (const std::vector<at::Tensor>* layers : {&keys_, &values_}) {
    for (const at::Tensor& layer : *layers) layer.narrow(2, length_, written_ - length_).zero_();
  }
  written_ = length_;
}

GraphStep& KvCache::graph_step() {
  if (!graph_step_) graph_step_ = std::make_shared<GraphStep>();
  return *graph_step_;
}

}  // namespace anyaccel::llm
