#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/causal/state.h"

namespace anyaccel::llm {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The matrix whose memory several parameters share, so that one product serves all of them. Their
/// gradients are views of its gradient.
class FusedRows : public torch::autograd::Function<FusedRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& base,
                            at::TensorList leaves) {
    std::vector<std::int64_t> rows;
    for (const at::Tensor& leaf : leaves) rows.push_back(leaf.size(0));
    context->saved_data["rows"] = rows;
    return base.variable_data();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list out = {at::Tensor()};
    std::int64_t begin = 0;
    std::size_t index = 1;  // index of the input
    for (const std::int64_t rows : context->saved_data["rows"].toIntVector()) {
      out.push_back(context->needs_input_grad(index++) ? gradients[0].narrow(0, begin, rows)
                                                       : at::Tensor());
      begin += rows;
    }
    return out;
  }
};

bool shares(const at::Tensor& leaf, const at::Tensor& place) {
  return leaf.const_data_ptr() == place.const_data_ptr() && leaf.sizes() == place.sizes() &&
         leaf.strides() == place.strides() && leaf.scalar_type() == place.scalar_type();
}

at::Tensor value_of(const at::Tensor& base, const Leaves& leaves) {
  const auto& tensors = leaves.tensors;
  if (tensors.size() == 1)
    return tensors[0].sizes() == base.sizes() && tensors[0].is_contiguous() ? tensors[0]
                                                                            : tensors[0].t();
  const bool trained = std::any_of(tensors.begin(), tensors.end(),
                                   [](const at::Tensor& leaf) { return leaf.requires_grad(); });
  return trained && c10::GradMode::is_enabled() ? FusedRows::apply(base, at::TensorList(tensors))
                                                : base;
}

}  // namespace

void CausalState::each_leaf(const std::function<void(at::Tensor& base, Leaves& own)>& function) {
  std::size_t i = 0;
  each_parameter(model->weights, [&](const std::string&, at::Tensor& base) {
    // A quantized model has a separate head, even if the configuration ties it to the embedding.
    if (i < leaves.size()) function(base, leaves[i++]);
  });
}

void CausalState::restore_sharing() {
  const c10::AutoGradMode no_gradient(false);
  each_leaf([](at::Tensor& base, Leaves& own) {
    for (std::size_t i = 0; i < own.tensors.size(); ++i) {
      at::Tensor& leaf = own.tensors[i];
      const ParameterPlace& place = own.places[i];
      const at::Tensor view = place.view(base);
      if (shares(leaf, view)) continue;
      if (leaf.sizes() != view.sizes() || leaf.scalar_type() != view.scalar_type()) {
        throw Error(ErrorCode::invalid_state, "CausalLM::forward",
                    {.what = "parameter " + quoted_text(place.name) + " was replaced",
                     .got = shortened_list(leaf.sizes()) + " of " +
                            std::string(c10::toString(leaf.scalar_type())),
                     .want = shortened_list(view.sizes()) + " of " +
                             std::string(c10::toString(view.scalar_type()))});
      }
      view.copy_(leaf);
      leaf.set_data(view);
    }
  });
}

Weights CausalState::differentiable() const {
  Weights out = model->weights;
  const bool tied = out.head.is_same(out.embedding);
  if (tied) out.head.reset();
  std::size_t i = 0;
  each_parameter(out, [&](const std::string&, at::Tensor& tensor) {
    if (i == leaves.size()) return;
    const Leaves& own = leaves[i++];
    if (!own.tensors.empty()) tensor = value_of(tensor, own);
  });
  if (tied) out.head = out.embedding;
  return out;
}

void make_leaves(CausalState& state) {
  const c10::AutoGradMode no_gradient(false);
  for (TensorLayout& places : parameter_layout(state.model->config))
    state.leaves.push_back({std::move(places), {}});
  state.each_leaf([](at::Tensor& base, Leaves& leaves) {
    if (!base.is_floating_point()) return;
    for (const ParameterPlace& place : leaves.places)
      leaves.tensors.push_back(place.view(base).variable_data().set_requires_grad(true));
  });
}

void add_parameter(CausalLMImpl& root, CausalState& state, const std::string& name,
                   const at::Tensor& leaf) {
  torch::nn::Module* node = &root;
  std::size_t begin = 0;
  for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
    auto& child = state.nodes[name.substr(0, dot)];
    const std::string part = name.substr(begin, dot - begin);
    if (!child) child = node->register_module(part, std::make_shared<torch::nn::Module>(part));
    node = child.get();
    begin = dot + 1;
  }
  node->register_parameter(name.substr(begin), leaf, leaf.requires_grad());
}

}  // namespace anyaccel::llm
