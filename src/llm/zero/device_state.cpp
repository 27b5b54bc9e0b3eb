#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <optional>

#include "llm/zero/state.h"

namespace anyaccel::llm {

namespace {

class DeviceState final : public OptimizerState {
 public:
  explicit DeviceState(OwnedParameters given) : owned_(std::move(given)) {
    const c10::AutoGradMode no_gradient(false);
    std::vector<bool> decays;
    for (const PartitionBucket& bucket : owned_.partition.buckets()) {
      first_.push_back(weights_.size());
      for (const OwnedSlice& slice : bucket.slices) {
        slices_.push_back(slice);
        weights_.push_back(owned_.values(slice).to(c10::kFloat));  // not a copy if it is float32
        decays.push_back(owned_.decays[slice.parameter]);
      }
    }
    if (!weights_.empty()) adamw_.emplace(weights_, owned_.adamw, decays);
  }

  void update(const UpdateInput& input) override {
    if (!adamw_) return;
    const c10::AutoGradMode no_gradient(false);
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const OwnedSlice& slice = slices_[i];
      if (!input.present[slice.parameter]) continue;
      gradients.push_back(input.gradient(slice.bucket).narrow(0, slice.place, slice.count));
      weights_[i].mutable_grad() = gradients.back();
    }
    if (input.scale < 1 && !gradients.empty()) at::_foreach_mul_(gradients, input.scale);
    adamw_->set_lr(input.lr);
    adamw_->state().step.fill_(input.step - 1);
    adamw_->step();
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      weights_[i].mutable_grad().reset();
      publish(i);
    }
  }

  at::Tensor read(StateKind kind, std::size_t bucket) override {
    const PartitionBucket& about = owned_.partition.buckets()[bucket];
    const at::Tensor out = at::zeros({about.part}, at::TensorOptions().dtype(c10::kFloat));
    for (std::size_t k = 0; k < about.slices.size(); ++k)
      out.narrow(0, about.slices[k].place, about.slices[k].count)
          .copy_(values(kind, first_[bucket] + k));
    return out;
  }

  void write(StateKind kind, std::size_t bucket, const at::Tensor& part) override {
    const c10::AutoGradMode no_gradient(false);
    const PartitionBucket& about = owned_.partition.buckets()[bucket];
    for (std::size_t k = 0; k < about.slices.size(); ++k) {
      const std::size_t i = first_[bucket] + k;
      values(kind, i).copy_(part.narrow(0, slices_[i].place, slices_[i].count));
      if (kind == StateKind::weight) publish(i);
    }
  }

 private:
  const at::Tensor& values(StateKind kind, std::size_t i) const {
    if (kind == StateKind::weight) return weights_[i];
    const AdamW::State& moments = adamw_->state();
    return kind == StateKind::exp_avg ? moments.exp_avg[i] : moments.exp_avg_sq[i];
  }

  void publish(std::size_t i) {
    if (owned_.dtype(slices_[i].bucket) != c10::kFloat)
      owned_.values(slices_[i]).copy_(weights_[i]);
  }

  OwnedParameters owned_;
  std::vector<std::size_t> first_;   ///< index of each bucket's first slice
  std::vector<OwnedSlice> slices_;   ///< of all buckets
  std::vector<at::Tensor> weights_;  ///< one per slice
  std::optional<AdamW> adamw_;       ///< empty if this rank owns nothing
};

}  // namespace

std::unique_ptr<OptimizerState> make_device_state(OwnedParameters owned) {
  return std::make_unique<DeviceState>(std::move(owned));
}

}  // namespace anyaccel::llm
