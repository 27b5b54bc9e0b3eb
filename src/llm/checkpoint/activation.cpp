#include "llm/checkpoint/activation.h"

#include <string>
#include <utility>

#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

/// Names in transformers' ACT2FN. If a function has several names, activation_name() returns the
/// first.
constexpr std::pair<const char*, Activation> kActivations[] = {
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu", Activation::gelu},
    {"gelu_python", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"relu2", Activation::relu2},
};

}  // namespace

Activation read_activation(const JsonReader& in, const char* key, const char* absent) {
  const std::string name = in.string(key).value_or(absent);
  std::string all;
  for (const auto& [known, activation] : kActivations) {
    if (name == known) return activation;
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  unsupported_config(in.source(), key, name, "one of " + all);
}

const char* activation_name(Activation activation) noexcept {
  for (const auto& [name, known] : kActivations) {
    if (known == activation) return name;
  }
  return "silu";
}

}  // namespace anyaccel::llm
