#include "anyaccel/llm/module_parallel.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "anyaccel/error.h"
#include "llm/parallel/marked_weight.h"
#include "llm/parallel/module_plan.h"

namespace anyaccel::llm {

namespace {

struct FoundLayer {
  ModuleLayer layer;
  at::Tensor weight, bias;
};

/// Lists each weight once, even if several layers share it. If one of these layers is an embedding,
/// the weight is listed as the embedding's.
std::vector<FoundLayer> find_layers(const torch::nn::Module& module) {
  std::vector<FoundLayer> out;
  const auto add = [&](FoundLayer found) {
    for (FoundLayer& other : out) {
      if (!other.weight.is_same(found.weight)) continue;
      if (found.layer.embedding) other = std::move(found);
      return;
    }
    out.push_back(std::move(found));
  };
  for (const auto& child : module.named_modules("", false)) {
    const std::string& name = child.key();
    if (const auto* linear = child.value()->as<torch::nn::LinearImpl>()) {
      add({{name, false, linear->weight.sizes().vec()}, linear->weight, linear->bias});
    } else if (const auto* embedding = child.value()->as<torch::nn::EmbeddingImpl>()) {
      const auto& options = embedding->options;
      add({{name, true, embedding->weight.sizes().vec(), !options.max_norm(),
            options.padding_idx().value_or(-1)},
           embedding->weight,
           {}});
    }
  }
  return out;
}

std::vector<ModuleLayer> layers_of(const std::vector<FoundLayer>& found) {
  std::vector<ModuleLayer> out;
  for (const FoundLayer& one : found) out.push_back(one.layer);
  return out;
}

at::Tensor cut(const at::Tensor& whole, const ModulePart& part) {
  std::vector<at::Tensor> slices;
  for (const Slice& slice : part.slices) {
    slices.push_back(
        whole.detach().narrow(static_cast<std::int64_t>(part.dim), slice.begin, slice.count));
  }
  return at::cat(slices, static_cast<std::int64_t>(part.dim));
}

std::vector<ModuleShard> report(const std::vector<FoundLayer>& found,
                                const std::vector<ModulePart>& parts) {
  std::vector<ModuleShard> out;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const ModuleLayer& layer = found[i].layer;
    out.push_back({layer.name, parts[i].style, layer.shape, parts[i].local_shape(layer.shape)});
  }
  return out;
}

}  // namespace

std::vector<ModuleShard> module_plan(const torch::nn::Module& module, int rank, int ranks,
                                     const ModuleParallelOptions& options) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw Error(ErrorCode::invalid_argument, "module_plan",
                {.what = "the rank is out of range",
                 .got = std::to_string(rank) + " of " + std::to_string(ranks),
                 .want = "0 to ranks - 1"});
  }
  const auto found = find_layers(module);
  return report(found, plan_module(layers_of(found), options, rank, ranks));
}

std::vector<ModuleShard> tensor_parallel(torch::nn::Module& module,
                                         std::shared_ptr<comm::ProcessGroup> group,
                                         const ModuleParallelOptions& options) {
  if (!group) {
    throw Error(ErrorCode::invalid_argument, "tensor_parallel",
                {.what = "the process group is null"});
  }
  const auto found = find_layers(module);
  const auto parts = plan_module(layers_of(found), options, group->rank(), group->size());
  if (group->size() > 1) {
    const c10::AutoGradMode no_gradient(false);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const ModulePart& part = parts[i];
      if (part.style == ModuleStyle::replicated) continue;
      const auto& [layer, weight, bias] = found[i];
      weight.set_data(marked(cut(weight, part), {group, part, layer.shape[part.dim]}));
      weight.mutable_grad().reset();
      if (part.style == ModuleStyle::column && bias.defined()) {
        bias.set_data(cut(bias, part));
        bias.mutable_grad().reset();
      }
    }
  }
  return report(found, parts);
}

}  // namespace anyaccel::llm
