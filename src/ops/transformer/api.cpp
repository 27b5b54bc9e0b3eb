#include <cmath>

#include "ATen/Context.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/randint.h"
#include "anyaccel/ops/call.h"
#include "anyaccel/ops/transformer.h"
#include "c10/core/GradMode.h"

namespace anyaccel::ops {
namespace {

using namespace ops;
constexpr const char* where = "TransformerLayer";
using T = const at::Tensor&;
using Call = at::Tensor(T, const std::optional<at::Tensor>&, T, T, T, T, T, T, T, T, T, T, T, T,
                        std::int64_t, double, double, double, std::int64_t, bool, bool, bool, bool,
                        bool, c10::string_view);

const c10::TypedOperatorHandle<Call>& op_of(bool stochastic) {
  if (stochastic) {
    static const auto op =
        load_op<Call>("StochasticTransformerBuilder", "stochastic_transformer_layer");
    return op;
  }
  static const auto op = load_op<Call>("TransformerBuilder", "transformer_layer");
  return op;
}

void check(bool right, const char* what, const std::string& got, const char* want) {
  if (!right)
    throw Error(ErrorCode::invalid_argument, where, {.what = what, .got = got, .want = want});
}

/// Names of the op's parameters, in order, with the corresponding names in a BertLayer. Query, key
/// and value are concatenated.
struct Name {
  const char* ours;
  const char* theirs;
};
constexpr Name names[] = {
    {"attn_qkvw", "weight"},
    {"attn_qkvb", "bias"},
    {"attn_ow", "attention.output.dense.weight"},
    {"attn_ob", "attention.output.dense.bias"},
    {"attn_nw", "attention.output.LayerNorm.weight"},
    {"attn_nb", "attention.output.LayerNorm.bias"},
    {"inter_w", "intermediate.dense.weight"},
    {"inter_b", "intermediate.dense.bias"},
    {"output_w", "output.dense.weight"},
    {"output_b", "output.dense.bias"},
    {"norm_w", "output.LayerNorm.weight"},
    {"norm_b", "output.LayerNorm.bias"},
};

}  // namespace

TransformerLayer::TransformerLayer(TransformerConfig config, at::ScalarType dtype)
    : config_(std::move(config)) {
  TransformerConfig& c = config_;
  if (c.intermediate_size <= 0) c.intermediate_size = 4 * c.hidden_size;
  check(c.heads > 0 && c.hidden_size > 0 && c.hidden_size % c.heads == 0,
        "hidden_size is not a multiple of heads",
        std::to_string(c.hidden_size) + " and " + std::to_string(c.heads),
        "positive sizes, and hidden_size a multiple of heads");
  check(c.initializer_range >= 0, "initializer_range is out of range",
        std::to_string(c.initializer_range), "0 or more");
  op_of(c.stochastic_mode);
  const double smaller = c.adjust_init_range && c.num_hidden_layers > 0
                             ? std::sqrt(2.0 * static_cast<double>(c.num_hidden_layers))
                             : 1.0;
  const auto options = at::TensorOptions(dtype);
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  for (const Name& name : names) {
    const std::string ours = name.ours;
    std::vector<std::int64_t> sizes = {
        ours == "attn_qkvw" || ours == "attn_qkvb" ? 3 * c.hidden_size
        : ours == "inter_w" || ours == "inter_b"   ? c.intermediate_size
                                                   : c.hidden_size};
    const bool weight = ours.ends_with('w') && !ours.ends_with("nw") && ours != "norm_w";
    if (weight) sizes.push_back(ours == "output_w" ? c.intermediate_size : c.hidden_size);
    at::Tensor tensor = at::empty(sizes, options);
    if (weight)
      tensor.normal_(
          0, c.initializer_range / (ours == "attn_ow" || ours == "output_w" ? smaller : 1.0));
    else
      tensor.fill_(ours.ends_with('w') ? 1 : 0);
    parameters_.emplace_back(ours, tensor.requires_grad_());
  }
}

at::Tensor& TransformerLayer::parameter(const std::string& name) {
  for (auto& [own, tensor] : parameters_)
    if (own == name) return tensor;
  throw Error(ErrorCode::invalid_argument, where,
              {.what = "unknown parameter", .got = name, .want = "one of named_parameters()"});
}

std::int64_t TransformerLayer::next_seed() {
  if (config_.seed < 0)
    return at::randint(std::int64_t{1} << 62, {1}, at::TensorOptions(at::kLong))
        .item<std::int64_t>();
  // The op hashes the seeds, so consecutive seeds are independent.
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(config_.seed) + (calls_++ << 32));
}

at::Tensor TransformerLayer::forward(const at::Tensor& hidden_states,
                                     const at::Tensor& attention_mask) {
  const TransformerConfig& c = config_;
  check(hidden_states.defined(), "the input is undefined", "an undefined tensor",
        "[batch, length, hidden_size]");
  const bool drops = training_ && (c.attn_dropout_ratio > 0 || c.hidden_dropout_ratio > 0);
  const std::int64_t seed = drops ? next_seed() : 0;
  const auto p = [this](std::size_t i) -> T { return parameters_[i].second; };
  return calling(where, [&] {
    return op_of(c.stochastic_mode)
        .call(hidden_states,
              attention_mask.defined() ? std::optional(attention_mask) : std::nullopt, p(0), p(1),
              p(2), p(3), p(4), p(5), p(6), p(7), p(8), p(9), p(10), p(11), c.heads,
              drops ? c.attn_dropout_ratio : 0.0, drops ? c.hidden_dropout_ratio : 0.0,
              c.layer_norm_eps, seed, c.pre_layer_norm, c.attn_dropout_checkpoint,
              c.normalize_invertible, c.gelu_checkpoint, c.stochastic_mode, c.gelu_approximate);
  });
}

void TransformerLayer::load_hugging_face(const std::map<std::string, at::Tensor>& tensors,
                                         const std::string& prefix) {
  const auto find = [&](const std::string& name) {
    const auto found = tensors.find(prefix + name);
    check(found != tensors.end(), "a weight is missing", "no weight with that name",
          (prefix + name).c_str());
    return found->second;
  };
  // Collect and check all values first, so that nothing is modified if a check fails.
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string theirs = names[i].theirs;
    values.push_back(i > 1 ? find(theirs)
                           : at::cat({find("attention.self.query." + theirs),
                                      find("attention.self.key." + theirs),
                                      find("attention.self.value." + theirs)}));
    check(values.back().sizes() == parameters_[i].second.sizes(), "a weight has the wrong shape",
          prefix + theirs + " " + c10::str(values.back().sizes()),
          c10::str(parameters_[i].second.sizes()).c_str());
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) parameters_[i].second.copy_(values[i]);
}

}  // namespace anyaccel::ops
