// Routes tokens to experts: gating, scattering the tokens and gathering the results.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ATen/ops/full.h"
#include "ops/ragged/batch.h"

namespace anyaccel::ops {
namespace {

constexpr std::int32_t unassigned = -1;

std::int32_t* numbers(const char* where, const Tensor& tensor, std::int64_t count, const char* name,
                      bool changed) {
  check_on_host(where, name, tensor);
  if (tensor.scalar_type() != at::kInt || !tensor.is_contiguous() || tensor.numel() < count)
    fail_argument(where, std::string(name) + ": wrong size, dtype or strides", words(tensor),
                  c10::str("a contiguous int32 tensor with ", count, " elements or more"));
  return static_cast<std::int32_t*>(changed ? changed_memory(tensor)
                                            : const_cast<void*>(tensor.const_data_ptr()));
}

}  // namespace

void top_k_gating(const Tensor& expert_counts, const Tensor& scores, const Tensor& assignments,
                  const Tensor& offsets, const Tensor& logits, const Tensor& metadata) {
  constexpr const char* where = "top_k_gating";
  check_on_host(where, "the logits", logits);
  check_on_host(where, "the scores", scores);
  const std::int64_t* const sizes = scores.sizes().data();
  if (scores.dim() != 2 || logits.dim() != 2 || scores.scalar_type() != at::kFloat ||
      !scores.is_contiguous() || logits.size(0) < sizes[0] || sizes[1] > logits.size(1))
    fail_argument(where, "the shapes or dtypes of scores and logits do not match",
                  c10::str(words(scores), " and ", words(logits)),
                  "float32 [tokens, choices] and [tokens, experts]");
  const std::int64_t tokens = sizes[0], choices = sizes[1], experts = logits.size(1);
  std::int32_t* const counts = numbers(where, expert_counts, experts, "the counts", true);
  std::int32_t* const chosen =
      numbers(where, assignments, tokens * choices, "the assignments", true);
  std::int32_t* const place = numbers(where, offsets, tokens * choices, "the offsets", true);
  const std::int64_t real = numbers(where, metadata, 2, "the batch metadata", false)[0];
  const Tensor arguments = logits.to(at::kFloat).contiguous();
  auto* const score = static_cast<float*>(changed_memory(scores));
  std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
  for (std::int64_t token = 0; token < tokens; ++token) {
    if (token >= real) {
      std::fill_n(chosen + token * choices, choices, unassigned);
      std::fill_n(place + token * choices, choices, unassigned);
      continue;
    }
    const float* const row = arguments.const_data_ptr<float>() + token * experts;
    for (std::int64_t i = 0; i < experts; ++i)
      order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
    std::partial_sort(order.begin(), order.begin() + choices, order.end(),
                      [&](std::int32_t a, std::int32_t b) {
                        return row[a] > row[b] || (row[a] == row[b] && a < b);
                      });
    float sum = 0;
    const float most = choices ? row[order[0]] : 0;
    for (std::int64_t i = 0; i < experts; ++i) sum += std::exp(row[i] - most);
    for (std::int64_t i = 0; i < choices; ++i) {
      const std::int32_t expert = order[static_cast<std::size_t>(i)];
      score[token * choices + i] = std::exp(row[expert] - most) / sum;
      chosen[token * choices + i] = expert;
      place[token * choices + i] = counts[expert]++;
    }
  }
}

void moe_scatter(const Tensor& moe_input, const Tensor& cumsums, const Tensor& mapped_slots,
                 const Tensor& activations, const Tensor& expert_counts, const Tensor& assignments,
                 const Tensor& offsets) {
  constexpr const char* where = "moe_scatter";
  check_on_host(where, "the activations", activations);
  if (activations.dim() != 2 || moe_input.dim() != 2 || moe_input.size(1) != activations.size(1) ||
      assignments.dim() != 2 || cumsums.scalar_type() != at::kLong || !cumsums.is_contiguous())
    fail_argument(where, "the shapes or dtypes of the tensors do not match",
                  c10::str(words(moe_input), ", ", words(activations), ", ", words(cumsums)),
                  "[rows, channels], [tokens, channels] and int64 [experts]");
  const std::int64_t tokens = activations.size(0), choices = assignments.size(1),
                     experts = cumsums.numel();
  const std::int32_t* const counts = numbers(where, expert_counts, experts, "the counts", false);
  const std::int32_t* const chosen =
      numbers(where, assignments, tokens * choices, "the assignments", false);
  const std::int32_t* const place = numbers(where, offsets, tokens * choices, "the offsets", false);
  std::int32_t* const slots = numbers(where, mapped_slots, tokens * choices, "the slots", true);
  std::vector<std::int64_t> ends(static_cast<std::size_t>(experts));
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < experts; ++i) ends[static_cast<std::size_t>(i)] = sum += counts[i];
  const auto slot_of = [&](std::int64_t i) {
    const std::int32_t expert = chosen[i];
    if (expert < 0 || expert >= experts) return std::int64_t{-1};
    return (expert > 0 ? ends[static_cast<std::size_t>(expert) - 1] : 0) + place[i];
  };
  for (std::int64_t i = 0; i < tokens * choices; ++i)
    if (chosen[i] != unassigned && (slot_of(i) < 0 || slot_of(i) >= moe_input.size(0)))
      fail_argument(where, "an assignment is out of range",
                    c10::str("expert ", chosen[i], ", its token ", place[i]),
                    c10::str("one of ", experts, " experts and ", moe_input.size(0), " rows"));
  std::copy(ends.begin(), ends.end(), static_cast<std::int64_t*>(changed_memory(cumsums)));
  for (std::int64_t i = 0; i < tokens * choices; ++i) {
    slots[i] = unassigned;
    if (chosen[i] == unassigned) continue;
    slots[i] = static_cast<std::int32_t>(slot_of(i));
    moe_input.select(0, slots[i]).copy_(activations.select(0, i / choices));
  }
}

void moe_gather(const Tensor& layer_output, const Tensor& moe_output, const Tensor& scores,
                const Tensor& mapped_slots, const Tensor& expert_counts, bool normalize_scales) {
  constexpr const char* where = "moe_gather";
  check_on_host(where, "the result", layer_output);
  if (layer_output.dim() != 2 || moe_output.dim() != 2 ||
      layer_output.size(1) != moe_output.size(1) || mapped_slots.dim() != 2 ||
      scores.scalar_type() != at::kFloat || !scores.is_contiguous() ||
      scores.numel() < layer_output.size(0) * mapped_slots.size(1))
    fail_argument(where, "the shapes or dtypes of the tensors do not match",
                  c10::str(words(layer_output), ", ", words(moe_output), ", ", words(scores)),
                  "[tokens, channels], [rows, channels] and float32 [tokens, choices]");
  const std::int64_t tokens = layer_output.size(0), choices = mapped_slots.size(1);
  const std::int32_t* const slots =
      numbers(where, mapped_slots, tokens * choices, "the slots", false);
  for (std::int64_t i = 0; i < tokens * choices; ++i)
    if (slots[i] != unassigned && (slots[i] < 0 || slots[i] >= moe_output.size(0)))
      fail_argument(where, "a slot is out of range", std::to_string(slots[i]),
                    c10::str("0 to ", moe_output.size(0) - 1));
  std::int32_t* const counts = numbers(where, expert_counts, 0, "the counts", true);
  std::fill_n(counts, expert_counts.numel(), 0);
  const float* const score = scores.const_data_ptr<float>();
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int32_t* const own = slots + token * choices;
    float sum = 0;
    for (std::int64_t i = 0; i < choices; ++i) sum += score[token * choices + i];
    Tensor row;
    for (std::int64_t i = 0; i < choices; ++i) {
      if (own[i] == unassigned) continue;
      const float share = score[token * choices + i] / (normalize_scales && sum > 0 ? sum : 1);
      const Tensor part = moe_output.select(0, own[i]).to(at::kFloat).mul(share);
      row = row.defined() ? row.add(part) : part;
    }
    if (row.defined()) layer_output.select(0, token).copy_(row);
  }
}

}  // namespace anyaccel::ops
