#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "anyaccel/accelerator.h"
#include "llm/zero/host_adam.h"

namespace anyaccel::llm {

namespace {

class HostState final : public OptimizerState {
 public:
  explicit HostState(OwnedParameters given) : owned_(std::move(given)), adam_(owned_.adamw) {
    const c10::AutoGradMode no_gradient(false);
    const auto& buckets = owned_.partition.buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      exp_avg_.push_back(memory(buckets[b].part));
      exp_avg_sq_.push_back(memory(buckets[b].part));
      weights_.push_back(in_model(b) ? at::Tensor() : memory(buckets[b].part));
      if (in_model(b)) continue;
      for (const OwnedSlice& slice : buckets[b].slices)
        range(weights_[b], slice).copy_(owned_.values(slice));
    }
  }

  void update(const UpdateInput& input) override {
    const c10::AutoGradMode no_gradient(false);
    for (const PartitionBucket& bucket : owned_.partition.buckets()) {
      for (const OwnedSlice& slice : bucket.slices) {
        if (!input.present[slice.parameter]) continue;
        const std::size_t b = slice.bucket;
        const at::Tensor out = owned_.values(slice);
        adam_.update({.weight = in_model(b) ? out : range(weights_[b], slice),
                      .gradient = range(input.gradient(b), slice),
                      .exp_avg = range(exp_avg_[b], slice),
                      .exp_avg_sq = range(exp_avg_sq_[b], slice)},
                     out, owned_.weight_decay(slice), input);
      }
    }
  }

  at::Tensor read(StateKind kind, std::size_t bucket) override {
    if (kind == StateKind::exp_avg) return exp_avg_[bucket];
    if (kind == StateKind::exp_avg_sq) return exp_avg_sq_[bucket];
    if (!in_model(bucket)) return weights_[bucket];
    const PartitionBucket& about = owned_.partition.buckets()[bucket];
    const at::Tensor out = memory(about.part);
    for (const OwnedSlice& slice : about.slices) range(out, slice).copy_(owned_.values(slice));
    return out;
  }

  void write(StateKind kind, std::size_t bucket, const at::Tensor& part) override {
    const c10::AutoGradMode no_gradient(false);
    if (kind != StateKind::weight) {
      (kind == StateKind::exp_avg ? exp_avg_ : exp_avg_sq_)[bucket].copy_(part);
      return;
    }
    if (!in_model(bucket)) weights_[bucket].copy_(part);
    for (const OwnedSlice& slice : owned_.partition.buckets()[bucket].slices)
      owned_.values(slice).copy_(range(part, slice));
  }

 private:
  static at::Tensor range(const at::Tensor& part, const OwnedSlice& slice) {
    return part.narrow(0, slice.place, slice.count);
  }
  /// Whether the model's elements are the weights.
  bool in_model(std::size_t bucket) const {
    return owned_.dtype(bucket) == c10::kFloat && owned_.parameters[0].is_cpu();
  }
  /// Zeros, pinned if the parameters are on a device.
  at::Tensor memory(std::int64_t size) const {
    const auto host = at::TensorOptions().dtype(c10::kFloat);
    if (owned_.parameters[0].is_cpu()) return at::zeros({size}, host);
    return get_accelerator().pin_empty(at::zeros({0}, host), {size}).zero_();
  }

  OwnedParameters owned_;
  HostAdam adam_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_, weights_;  ///< one per bucket
};

}  // namespace

std::unique_ptr<OptimizerState> make_host_state(OwnedParameters owned) {
  return std::make_unique<HostState>(std::move(owned));
}

}  // namespace anyaccel::llm
