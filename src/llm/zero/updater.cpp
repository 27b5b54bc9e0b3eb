#include "llm/fine_tune/updater.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "llm/zero/gradients.h"
#include "llm/zero/state.h"

namespace anyaccel::llm {

namespace {

Partition partition_of(const std::vector<at::Tensor>& parameters, double bucket_cap_mb,
                       const Ranks& ranks) {
  std::vector<PartitionItem> items;
  for (const at::Tensor& parameter : parameters)
    items.push_back({parameter.numel(), static_cast<int>(parameter.scalar_type())});
  const double elements = bucket_cap_mb * 1024 * 1024 / sizeof(float);
  return Partition(items, std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)),
                   ranks.rank(), ranks.size());
}

class ZeroUpdater final : public Updater {
 public:
  ZeroUpdater(TrainedParameters& trained, const FineTuneOptions& options, Ranks& ranks)
      : trained_(trained),
        ranks_(ranks),
        partition_(partition_of(trained.parameters(), options.bucket_cap_mb, ranks)),
        gradients_(trained.parameters(), partition_, ranks.group(),
                   {.parts_only = *options.zero_stage == 2,
                    .to_host = *options.offload_optimizer != OffloadDevice::none &&
                               !trained.parameters()[0].is_cpu()}) {
    ranks.from_first(trained.parameters());
    OwnedParameters owned{.partition = partition_,
                          .parameters = trained.parameters(),
                          .decays = trained.decays(),
                          .adamw = adamw_options(options)};
    ranks.together([&] {
      switch (*options.offload_optimizer) {
        case OffloadDevice::none: state_ = make_device_state(std::move(owned)); break;
        case OffloadDevice::host: state_ = make_host_state(std::move(owned)); break;
        case OffloadDevice::nvme:
          state_ = make_disk_state(
              std::move(owned), options.offload_path.empty() ? options.out : options.offload_path);
      }
    });
  }

  void backward(const at::Tensor& loss, bool last) override {
    if (last) state_->prepare();
    gradients_.begin(last);
    if (loss.defined()) loss.backward();
    gradients_.end();
  }

  double step(double lr, double clip) override {
    const c10::AutoGradMode no_gradient(false);
    UpdateInput input{.step = ++steps_, .lr = lr};
    input.gradient = [this](std::size_t bucket) { return gradients_.part(bucket); };
    const auto norm = static_cast<float>(reduce_norm(input.present));
    // The same arithmetic as AdamW::clip_gradients().
    input.scale = std::min(1.0F, 1.0F / (norm + 1e-6F) * static_cast<float>(clip));
    state_->update(input);
    gather_parameters();
    gradients_.reset();
    return norm;
  }

  const std::vector<at::Tensor>& replicated() const override { return trained_.parameters(); }

  std::vector<TensorHead> state_heads(bool weights) const override {
    std::vector<TensorHead> out;
    each_kind(weights, [&](std::size_t bucket, StateKind kind) {
      for (const std::size_t i : partition_.buckets()[bucket].parameters)
        out.push_back(head(kind, i));
    });
    out.push_back({"step", c10::kFloat, {}});
    return out;
  }

  void write_state(bool weights, const std::function<void(const at::Tensor&)>& write) override {
    const c10::AutoGradMode no_gradient(false);
    each_kind(weights, [&](std::size_t bucket, StateKind kind) {
      at::Tensor all = state_->read(kind, bucket);
      if (ranks_.size() > 1) {
        const std::vector<at::Tensor> parts = ranks_.group()->gather(all, 0);
        if (!ranks_.first()) return;
        all = at::cat(parts);
      }
      const PartitionBucket& about = partition_.buckets()[bucket];
      for (std::size_t k = 0; k < about.parameters.size(); ++k)
        write(shaped_like(trained_.parameters()[about.parameters[k]], all, about.offsets[k]));
    });
    if (ranks_.first()) write(at::full({}, static_cast<double>(steps_), c10::kFloat));
  }

  void read_state(const SafetensorsFile& file, bool weights) override {
    const c10::AutoGradMode no_gradient(false);
    each_kind(weights, [&](std::size_t bucket, StateKind kind) {
      const PartitionBucket& about = partition_.buckets()[bucket];
      const at::Tensor part = at::zeros({about.part}, at::TensorOptions().dtype(c10::kFloat));
      for (const OwnedSlice& slice : about.slices) {
        const at::Tensor& parameter = trained_.parameters()[slice.parameter];
        at::Tensor stored = checked_tensor(file, head(kind, slice.parameter));
        if (!parameter.is_contiguous())
          stored = at::empty_strided(parameter.sizes(), parameter.strides(), stored.options())
                       .copy_(stored);
        part.narrow(0, slice.place, slice.count)
            .copy_(flat(stored).narrow(0, slice.begin, slice.count));
      }
      state_->write(kind, bucket, part);
      file.release();
    });
    steps_ = checked_tensor(file, {"step", c10::kFloat, {}}).item<std::int64_t>();
    if (weights) gather_parameters();
  }

 private:
  TensorHead head(StateKind kind, std::size_t i) const {
    const char* prefix = kind == StateKind::exp_avg      ? "exp_avg."
                         : kind == StateKind::exp_avg_sq ? "exp_avg_sq."
                                                         : "weight.";
    return {prefix + trained_.names()[i], c10::kFloat, trained_.parameters()[i].sizes().vec()};
  }

  template <typename Function>
  void each_kind(bool weights, const Function& function) const {
    for (std::size_t bucket = 0; bucket < partition_.buckets().size(); ++bucket) {
      function(bucket, StateKind::exp_avg);
      function(bucket, StateKind::exp_avg_sq);
      if (weights) function(bucket, StateKind::weight);
    }
  }

  /// Returns the norm of all gradients. Sets which parameters have a gradient on any rank.
  double reduce_norm(std::vector<bool>& present) {
    std::vector<at::Tensor> slices;
    for (std::size_t b = 0; b < partition_.buckets().size(); ++b) {
      for (const OwnedSlice& slice : partition_.buckets()[b].slices)
        slices.push_back(gradients_.part(b).narrow(0, slice.place, slice.count));
    }
    const std::vector<bool>& own = gradients_.present();
    const at::Tensor numbers = at::zeros({1 + static_cast<std::int64_t>(own.size())},
                                         at::TensorOptions().dtype(c10::kDouble));
    auto* values = numbers.mutable_data_ptr<double>();
    if (!slices.empty())
      values[0] = at::stack(at::_foreach_norm(slices, 2))
                      .to(c10::kCPU)
                      .to(c10::kDouble)
                      .square()
                      .sum()
                      .item<double>();
    for (std::size_t i = 0; i < own.size(); ++i) values[1 + i] = own[i] ? 1 : 0;
    if (ranks_.size() > 1) ranks_.group()->all_reduce(numbers);
    for (std::size_t i = 0; i < own.size(); ++i) present.push_back(values[1 + i] > 0);
    return std::sqrt(values[0]);
  }

  /// Sends this rank's elements of the parameters to the other ranks and receives theirs.
  void gather_parameters() {
    if (ranks_.size() == 1) return;
    const c10::AutoGradMode no_gradient(false);
    for (std::size_t b = 0; b < partition_.buckets().size(); ++b) {
      const PartitionBucket& about = partition_.buckets()[b];
      const at::Tensor& like = trained_.parameters()[about.parameters[0]];
      const at::Tensor all = at::zeros({partition_.size(b)}, like.options().requires_grad(false));
      const at::Tensor own = all.narrow(0, about.part * partition_.rank(), about.part);
      for (const OwnedSlice& slice : about.slices)
        own.narrow(0, slice.place, slice.count)
            .copy_(
                flat(trained_.parameters()[slice.parameter]).narrow(0, slice.begin, slice.count));
      ranks_.group()->all_gather_into_tensor(all, own);
      for (std::size_t k = 0; k < about.parameters.size(); ++k) {
        const at::Tensor& parameter = trained_.parameters()[about.parameters[k]];
        parameter.copy_(shaped_like(parameter, all, about.offsets[k]));
      }
    }
  }

  TrainedParameters& trained_;
  Ranks& ranks_;
  const Partition partition_;
  PartitionedGradients gradients_;
  std::unique_ptr<OptimizerState> state_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Updater> make_zero_updater(TrainedParameters& trained,
                                           const FineTuneOptions& options, Ranks& ranks) {
  return std::make_unique<ZeroUpdater>(trained, options, ranks);
}

}  // namespace anyaccel::llm
