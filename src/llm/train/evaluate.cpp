#include "llm/train/evaluate.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "anyaccel/accelerator.h"
#include "llm/model/llama.h"

namespace anyaccel::llm {

at::Tensor window_tokens(std::span<const std::uint16_t> stream, std::span<const Window> windows) {
  const auto length = static_cast<std::int64_t>(windows.front().length);
  at::Tensor tokens = at::empty({static_cast<std::int64_t>(windows.size()), length},
                                at::TensorOptions().dtype(c10::kLong));
  auto* out = tokens.mutable_data_ptr<std::int64_t>();
  for (const Window& window : windows) {
    const auto part = stream.subspan(window.begin, window.length);
    out = std::copy(part.begin(), part.end(), out);
  }
  return tokens;
}

std::vector<Window> byte_windows(std::span<const std::uint16_t> tokens,
                                 std::span<const Window> windows,
                                 const std::vector<std::uint32_t>& lengths) {
  std::vector<std::size_t> begins(1, 0);
  for (const std::uint16_t token : tokens) begins.push_back(begins.back() + lengths[token]);
  std::vector<Window> out;
  for (const Window& window : windows) {
    const std::size_t begin = begins[window.begin + 1] - 1;
    out.push_back({begin, begins[window.begin + window.length] - begin});
  }
  return out;
}

double held_out_loss(ModelState& model, std::span<const std::uint16_t> stream,
                     std::span<const Window> windows, std::int64_t batch, c10::ScalarType dtype) {
  const c10::AutoGradMode no_gradient(false);
  Accelerator& accelerator = get_accelerator();
  double sum = 0;
  for (std::size_t i = 0; i < windows.size(); i += static_cast<std::size_t>(batch)) {
    const auto part =
        windows.subspan(i, std::min(static_cast<std::size_t>(batch), windows.size() - i));
    const at::Tensor tokens = window_tokens(stream, part).to(accelerator.torch_device());
    const auto time = tokens.size(1) - 1;
    at::Tensor logits;
    {
      const Autocast autocast = accelerator.autocast(dtype, dtype != c10::kFloat);
      logits = llama_forward(model.weights, model.config, model.rope, tokens.narrow(1, 0, time));
    }
    const at::Tensor loss =
        at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(c10::kFloat),
                               tokens.narrow(1, 1, time).reshape({-1}));
    sum += loss.item<double>() * static_cast<double>(part.size());
  }
  return windows.empty() ? 0.0 : sum / static_cast<double>(windows.size());
}

}  // namespace anyaccel::llm
