#include "llm/causal/recompute.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>
#include <utility>

#include "anyaccel/accelerator.h"

namespace anyaccel::llm {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Calls function(tensor) for each tensor of a layer, in a fixed order. Replaces the adapters by a
/// copy, so that the function may change them.
template <typename Function>
void each_tensor(LayerWeights& layer, const Function& function) {
  for (at::Tensor* tensor :
       {&layer.input_norm, &layer.input_norm_bias, &layer.qkv, &layer.qkv_bias, &layer.query_norm,
        &layer.key_norm, &layer.output, &layer.output_bias, &layer.after_attention,
        &layer.post_norm, &layer.post_norm_bias, &layer.gate_up, &layer.gate_up_bias, &layer.down,
        &layer.down_bias, &layer.after_feed_forward, &layer.router, &layer.expert_gate_up,
        &layer.expert_down}) {
    if (tensor->defined()) function(*tensor);
  }
  if (!layer.adapters) return;
  auto adapters = std::make_shared<LayerAdapters>(*layer.adapters);
  for (std::vector<Adapter>* list :
       {&adapters->qkv, &adapters->output, &adapters->gate_up, &adapters->down}) {
    for (Adapter& adapter : *list) {
      function(adapter.a);
      function(adapter.b);
    }
  }
  layer.adapters = std::move(adapters);
}

/// Arguments of the recomputation that are not tensors.
struct LayerCall : torch::CustomClassHolder {
  LayerWeights layer;  ///< without tensors that may have gradients
  LayerFunction function;
  at::Tensor generator;  ///< state before the call; undefined if the call draws no random numbers
  bool autocast = false;
  c10::ScalarType autocast_type = c10::kFloat;

  /// Calls the function for the tensors of the layer, after x. Each tensor becomes a leaf that
  /// requires a gradient if the original does: kernels are chosen by requires_grad, and both passes
  /// must choose the same ones. Returns a result with a graph, and the leaves.
  std::pair<at::Tensor, variable_list> run(at::TensorList originals) const {
    variable_list inputs;
    for (const at::Tensor& original : originals)
      inputs.push_back(original.detach().set_requires_grad(original.requires_grad()));
    const c10::AutoGradMode gradient(true);
    // The cache would keep a copy of each layer's weights, because the leaves are new in each pass.
    const Autocast scope(inputs[0].device().type(), autocast_type, autocast,
                         /*cache_enabled=*/false);
    LayerWeights own = layer;
    std::size_t i = 1;
    each_tensor(own, [&](at::Tensor& tensor) { tensor = inputs[i++]; });
    at::Tensor out = function(own, inputs[0]);
    return {std::move(out), std::move(inputs)};
  }
};

/// Sets the state of the accelerator's generator, and restores it at the end of its scope.
class GeneratorState {
 public:
  explicit GeneratorState(const at::Tensor& state) {
    if (!state.defined()) return;
    kept_ = get_accelerator().get_rng_state();
    get_accelerator().set_rng_state(state);
  }
  ~GeneratorState() {
    if (kept_.defined()) get_accelerator().set_rng_state(kept_);
  }
  GeneratorState(const GeneratorState&) = delete;
  GeneratorState& operator=(const GeneratorState&) = delete;

 private:
  at::Tensor kept_;
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static at::Tensor forward(AutogradContext* context, at::TensorList inputs,
                            const c10::intrusive_ptr<LayerCall>& call) {
    context->save_for_backward(inputs.vec());
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return call->run(inputs).first.detach();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto capsule = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<const LayerCall&>(*capsule);
    at::Tensor out;
    variable_list inputs, needed;
    {
      const GeneratorState random(call.generator);
      std::tie(out, inputs) = call.run(saved);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (context->needs_input_grad(i)) needed.push_back(inputs[i]);
    }
    const variable_list found = torch::autograd::grad({out}, needed, {gradients[0]}, std::nullopt,
                                                      /*create_graph=*/false,
                                                      /*allow_unused=*/true);
    variable_list all;
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      all.push_back(context->needs_input_grad(i) ? found[next++] : at::Tensor());
    all.emplace_back();  // for `call`
    return all;
  }
};

}  // namespace

at::Tensor recompute_in_backward(const LayerWeights& layer, const at::Tensor& x, bool random,
                                 LayerFunction function) {
  auto call = c10::make_intrusive<LayerCall>();
  const c10::DeviceType device = x.device().type();
  call->layer = layer;
  call->function = std::move(function);
  call->autocast = at::autocast::is_autocast_enabled(device);
  call->autocast_type = at::autocast::get_autocast_dtype(device);
  if (random) call->generator = get_accelerator().get_rng_state();
  variable_list inputs = {x};
  each_tensor(call->layer, [&](at::Tensor& tensor) {
    inputs.push_back(tensor);
    tensor = tensor.detach();  // keeps it defined, without its graph
  });
  return Recompute::apply(at::TensorList(inputs), call);
}

}  // namespace anyaccel::llm
