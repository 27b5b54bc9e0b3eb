#include "llm/fine_tune/updater.h"

#include <c10/core/GradMode.h>

#include <optional>

#include "anyaccel/data_parallel.h"
#include "anyaccel/error.h"
#include "anyaccel/llm/adamw.h"
#include "base/untrusted_text.h"

namespace anyaccel::llm {

namespace {

class ReplicatedUpdater final : public Updater {
 public:
  ReplicatedUpdater(TrainedParameters& trained, const FineTuneOptions& options, Ranks& ranks)
      : trained_(trained), ranks_(ranks) {
    trained.make_masters();
    optimizer_.emplace(trained.masters(), adamw_options(options), trained.decays());
    // Averages the masters' gradients, which are float32. If the masters are copies, finish()
    // reduces all of them after the backward pass.
    if (ranks.size() > 1)
      parallel_ = std::make_unique<comm::DataParallel>(
          *ranks.group(), trained.masters(),
          comm::DataParallelOptions{.bucket_cap_mb = options.bucket_cap_mb});
    trained.collect_gradients();
  }

  void backward(const at::Tensor& loss, bool last) override {
    if (!loss.defined()) return;
    if (parallel_ && !last) {
      const auto later = parallel_->no_sync();
      loss.backward();
    } else {
      loss.backward();
    }
  }

  double step(double lr, double clip) override {
    if (parallel_) parallel_->finish();
    const at::Tensor norm = optimizer_->gradient_norm();
    // Using one rank's norm on all ranks keeps their weights bitwise equal.
    if (ranks_.size() > 1) ranks_.group()->broadcast(norm, 0);
    optimizer_->clip_gradients(norm, clip);
    optimizer_->set_lr(lr);
    optimizer_->step();
    trained_.publish();
    trained_.drop_gradients();
    return norm.item<double>();
  }

  const std::vector<at::Tensor>& replicated() const override { return trained_.masters(); }

  std::vector<TensorHead> state_heads(bool weights) const override {
    std::vector<TensorHead> out;
    const auto& names = trained_.names();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::vector<std::int64_t> shape = trained_.parameters()[i].sizes().vec();
      out.push_back({"exp_avg." + names[i], c10::kFloat, shape});
      out.push_back({"exp_avg_sq." + names[i], c10::kFloat, shape});
      if (weights) out.push_back({"weight." + names[i], c10::kFloat, shape});
    }
    out.push_back({"step", c10::kFloat, {}});
    return out;
  }

  void write_state(bool weights, const std::function<void(const at::Tensor&)>& write) override {
    if (!ranks_.first()) return;
    const AdamW::State& moments = optimizer_->state();
    for (std::size_t i = 0; i < trained_.names().size(); ++i) {
      write(moments.exp_avg[i]);
      write(moments.exp_avg_sq[i]);
      if (weights) write(trained_.masters()[i]);
    }
    write(moments.step);
  }

  void read_state(const SafetensorsFile& file, bool weights) override {
    const c10::AutoGradMode no_gradient(false);
    AdamW::State moments;
    const std::vector<TensorHead> heads = state_heads(weights);
    std::size_t next = 0;
    const auto read = [&] { return checked_tensor(file, heads[next++]); };
    for (std::size_t i = 0; i < trained_.names().size(); ++i) {
      moments.exp_avg.push_back(read());
      moments.exp_avg_sq.push_back(read());
      if (weights) trained_.masters()[i].copy_(read());
    }
    moments.step = read();
    moments.lr = optimizer_->state().lr;
    optimizer_->load_state(moments);
    trained_.publish();
  }

 private:
  TrainedParameters& trained_;
  Ranks& ranks_;
  std::optional<AdamW> optimizer_;
  std::unique_ptr<comm::DataParallel> parallel_;  ///< null for one rank
};

}  // namespace

at::Tensor checked_tensor(const SafetensorsFile& file, const TensorHead& head) {
  constexpr const char* kHint = "start over without --resume";
  const std::string where = file.path().string();
  if (!file.contains(head.name))
    throw Error(ErrorCode::corrupt, "resume",
                {.what = where + " lacks tensor " + quoted_text(head.name), .hint = kHint});
  at::Tensor tensor = file.tensor(head.name);
  if (tensor.sizes() != at::IntArrayRef(head.shape) || tensor.scalar_type() != head.dtype)
    throw Error(ErrorCode::corrupt, "resume",
                {.what = where + ": tensor " + quoted_text(head.name) + " does not match the model",
                 .hint = kHint});
  return tensor;
}

AdamWOptions adamw_options(const FineTuneOptions& options) {
  return {.lr = *options.lr,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .weight_decay = options.weight_decay};
}

std::unique_ptr<Updater> make_replicated_updater(TrainedParameters& trained,
                                                 const FineTuneOptions& options, Ranks& ranks) {
  return std::make_unique<ReplicatedUpdater>(trained, options, ranks);
}

std::unique_ptr<Updater> make_updater(TrainedParameters& trained, const FineTuneOptions& options,
                                      Ranks& ranks) {
  return *options.zero_stage == 0 ? make_replicated_updater(trained, options, ranks)
                                  : make_zero_updater(trained, options, ranks);
}

}  // namespace anyaccel::llm
