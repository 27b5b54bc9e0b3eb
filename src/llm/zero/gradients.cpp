#include "llm/zero/gradients.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "llm/zero/flat.h"

namespace anyaccel::llm {

namespace {

/// Maximum number of buckets that are being reduced. Limits the memory of stage 2.
constexpr std::size_t kInFlight = 2;

}  // namespace

class PartitionedGradients::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(PartitionedGradients& owner, std::size_t i) : owner_(owner), i_(i) {}
  void operator()(const at::Tensor&) override { owner_.arrived(i_); }

 private:
  PartitionedGradients& owner_;
  const std::size_t i_;
};

PartitionedGradients::PartitionedGradients(std::vector<at::Tensor> parameters,
                                           const Partition& partition, comm::ProcessGroup* group,
                                           const GradientOptions& options)
    : parameters_(std::move(parameters)),
      partition_(partition),
      group_(group),
      options_(options),
      device_(parameters_[0].options().dtype(c10::kFloat).requires_grad(false)),
      places_(parameters_.size()),
      memory_(partition.buckets().size()),
      present_(parameters_.size()) {
  // With one rank, the part is the whole bucket.
  options_.parts_only = options.parts_only && group != nullptr;
  for (std::size_t b = 0; b < memory_.size(); ++b) {
    const PartitionBucket& bucket = partition.buckets()[b];
    for (std::size_t k = 0; k < bucket.parameters.size(); ++k)
      places_[bucket.parameters[k]] = {.bucket = b, .offset = bucket.offsets[k]};
    if (bucket.parameters.size() > 1) common_size_ = std::max(common_size_, partition.size(b));
    if (options_.parts_only) own_.push_back(at::zeros({bucket.part}, device_));
    if (options_.to_host)
      host_.push_back(
          get_accelerator().pin_empty(at::zeros({0}, device_.device(c10::kCPU)), {bucket.part}));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<Hook>(*this, i));
}

PartitionedGradients::~PartitionedGradients() {
  for (const at::Tensor& parameter : parameters_)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void PartitionedGradients::begin(bool last) {
  last_ = last;
  sends_ = last || options_.parts_only;
  works_.clear();
  completed_ = 0;
  missing_.clear();
  for (const PartitionBucket& bucket : partition_.buckets())
    missing_.push_back(bucket.parameters.size());
  for (Place& place : places_) place.arrived = false;
}

/// Autograd calls this on the thread that computed the gradient.
void PartitionedGradients::arrived(std::size_t i) {
  const std::lock_guard lock(mutex_);
  const c10::AutoGradMode no_gradient(false);
  Place& place = places_[i];
  const at::Tensor& parameter = parameters_[i];
  if (place.arrived && sends_)
    throw Error(ErrorCode::internal, "train",
                {.what = "parameter " + std::to_string(i) + " received two gradients in one pass"});
  at::Tensor& memory = memory_[place.bucket];
  if (!memory.defined()) memory = take_memory(partition_.size(place.bucket));
  const at::Tensor sum = shaped_like(parameter, memory, place.offset);
  if (place.filled)
    sum.add_(parameter.grad());
  else
    sum.copy_(parameter.grad());
  parameter.mutable_grad().reset();
  place.filled = place.arrived = true;
  present_[i] = true;
  --missing_[place.bucket];
  if (!sends_) return;
  while (works_.size() < memory_.size() && missing_[works_.size()] == 0) send(works_.size());
}

/// Returns memory for a bucket. Zeros keep the padding finite.
at::Tensor PartitionedGradients::take_memory(std::int64_t size) {
  if (!options_.parts_only) return at::zeros({size}, device_);
  auto found = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const bool fits = it->numel() >= size;
    if (fits && (found == free_.end() || it->numel() < found->numel())) found = it;
  }
  at::Tensor block;
  if (found == free_.end()) {
    block = at::zeros({std::max(size, common_size_)}, device_);
  } else {
    block = std::move(*found);
    free_.erase(found);
  }
  return block.narrow(0, 0, size);
}

at::Tensor PartitionedGradients::in_bucket(std::size_t bucket) const {
  const std::int64_t part = partition_.buckets()[bucket].part;
  return memory_[bucket].narrow(0, part * partition_.rank(), part);
}

at::Tensor PartitionedGradients::own(std::size_t bucket) const {
  return options_.parts_only ? own_[bucket] : in_bucket(bucket);
}

void PartitionedGradients::send(std::size_t bucket) {
  at::Tensor& memory = memory_[bucket];
  if (!memory.defined()) memory = take_memory(partition_.size(bucket));
  for (const std::size_t i : partition_.buckets()[bucket].parameters) {
    if (!places_[i].filled) shaped_like(parameters_[i], memory, places_[i].offset).zero_();
  }
  comm::Work work;
  if (group_)
    work = group_->reduce_scatter_async(
        options_.parts_only && !first_ ? in_bucket(bucket) : own(bucket), memory,
        comm::ReduceOp::avg);
  works_.push_back(std::move(work));
  while (works_.size() - completed_ > kInFlight) complete(completed_);
}

void PartitionedGradients::complete(std::size_t bucket) {
  works_[bucket].wait();
  if (options_.parts_only) {
    if (!first_) own_[bucket].add_(in_bucket(bucket));
    const auto all = static_cast<std::int64_t>(memory_[bucket].storage().nbytes() / sizeof(float));
    free_.push_back(memory_[bucket].as_strided({all}, {1}, 0));
    memory_[bucket].reset();
    for (const std::size_t i : partition_.buckets()[bucket].parameters) places_[i].filled = false;
  }
  if (last_ && options_.to_host) host_[bucket].copy_(own(bucket), /*non_blocking=*/true);
  completed_ = bucket + 1;
}

void PartitionedGradients::end() {
  if (!sends_) return;
  const std::lock_guard lock(mutex_);
  const c10::AutoGradMode no_gradient(false);
  while (works_.size() < memory_.size()) send(works_.size());
  while (completed_ < memory_.size()) complete(completed_);
  first_ = false;
  if (last_ && options_.to_host) get_accelerator().current_stream().synchronize();
}

at::Tensor PartitionedGradients::part(std::size_t bucket) const {
  return options_.to_host ? host_[bucket] : own(bucket);
}

void PartitionedGradients::reset() {
  first_ = true;
  for (Place& place : places_) place.filled = false;
  present_.assign(present_.size(), false);
}

}  // namespace anyaccel::llm
