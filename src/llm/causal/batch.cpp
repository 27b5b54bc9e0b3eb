#include "llm/causal/batch.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <utility>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/causal/loss.h"

namespace anyaccel::llm {

namespace {

[[noreturn]] void reject_input(const std::string& what, std::string got, std::string want) {
  throw Error(ErrorCode::invalid_argument, "CausalLM::forward",
              {.what = what, .got = std::move(got), .want = std::move(want)});
}

void check_tensor(const char* name, const at::Tensor& tensor, const at::Tensor& ids) {
  if (!tensor.defined()) return;
  if (tensor.sizes() != ids.sizes())
    reject_input(std::string(name) + " has a different shape than ids",
                 shortened_list(tensor.sizes()), shortened_list(ids.sizes()));
  if (!c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true))
    reject_input(std::string(name) + " has the wrong dtype", c10::toString(tensor.scalar_type()),
                 "int64");
}

void check_input(const CausalLMInput& input) {
  if (!input.ids.defined() || input.ids.dim() != 2 || input.ids.numel() == 0)
    reject_input("ids is not a batch of tokens",
                 input.ids.defined() ? shortened_list(input.ids.sizes()) : "an undefined tensor",
                 "int64 [batch, time] with at least one token");
  check_tensor("ids", input.ids, input.ids);
  check_tensor("labels", input.labels, input.ids);
  check_tensor("attention_mask", input.attention_mask, input.ids);
  check_tensor("position_ids", input.position_ids, input.ids);
  check_tensor("sequence_ids", input.sequence_ids, input.ids);
  if (input.num_items_in_batch < 0)
    reject_input("num_items_in_batch is negative", std::to_string(input.num_items_in_batch),
                 "0 or the number of labels in the whole batch");
}

/// An int64 copy of a tensor on the host, as an array. Null if the tensor is undefined.
class HostArray {
 public:
  explicit HostArray(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    tensor_ = tensor.to(c10::Device(c10::kCPU), c10::kLong).contiguous();
    values_ = tensor_.const_data_ptr<std::int64_t>();
  }
  explicit operator bool() const { return values_ != nullptr; }
  std::int64_t operator[](std::int64_t i) const { return values_[i]; }

 private:
  at::Tensor tensor_;
  const std::int64_t* values_ = nullptr;
};

/// Tokens of an input in order, grouped into sequences.
struct Tokens {
  std::vector<std::int64_t> index, position, target, lengths;
};

/// Finds the sequences of an input with a mask, positions or sequence ids. `by_count`: positions
/// count real tokens.
Tokens find_tokens(const CausalLMInput& input, bool by_count) {
  const HostArray mask(input.attention_mask), positions(input.position_ids),
      sequences(input.sequence_ids), labels(input.labels);
  const std::int64_t batch = input.ids.size(0), time = input.ids.size(1);
  Tokens out;
  for (std::int64_t row = 0; row < batch; ++row) {
    std::int64_t last = -1, begin = 0, real = 0;  // last real column; first column of the sequence
    for (std::int64_t column = 0; column < time; ++column) {
      const std::int64_t i = row * time + column;
      if (mask && mask[i] == 0) continue;
      bool starts = last < 0;
      if (!starts && sequences) starts = sequences[i] != sequences[row * time + last];
      if (!starts && positions && !sequences && !mask)
        starts = positions[i] != positions[i - 1] + 1;
      if (!starts && column != last + 1)
        reject_input("attention_mask has padding in the middle of a sequence",
                     "row " + std::to_string(row) + ", column " + std::to_string(last + 1),
                     "padding on the left or on the right");
      if (starts) {
        begin = column;
        out.lengths.push_back(0);
      }
      ++out.lengths.back();
      out.index.push_back(i);
      out.position.push_back(positions   ? positions[i]
                             : sequences ? column - begin
                             : by_count  ? real
                                         : column);
      if (!starts && labels) out.target.back() = labels[i];
      out.target.push_back(ignored_label);
      last = column;
      ++real;
    }
  }
  if (out.index.empty())
    reject_input("attention_mask excludes all tokens", "zeros", "one real token");
  return out;
}

at::Tensor tensor_of(const std::vector<std::int64_t>& values, c10::Device device) {
  const at::Tensor host =
      at::empty({static_cast<std::int64_t>(values.size())}, at::TensorOptions().dtype(c10::kLong));
  std::copy(values.begin(), values.end(), host.mutable_data_ptr<std::int64_t>());
  return host.to(device);
}

bool all_ones(const at::Tensor& mask) { return mask.ne(0).all().item<bool>(); }

/// Returns whether the rows of the input are whole sequences with the usual positions.
bool is_plain(const CausalLMInput& input) {
  return !input.position_ids.defined() && !input.sequence_ids.defined() &&
         (!input.attention_mask.defined() || all_ones(input.attention_mask));
}

/// labels[t + 1] for each t.
at::Tensor shifted(const at::Tensor& labels) {
  return at::constant_pad_nd(labels.narrow(1, 1, labels.size(1) - 1).to(c10::kLong), {0, 1},
                             ignored_label)
      .reshape({-1});
}

void check_range(const char* name, const at::Tensor& values, std::int64_t low, std::int64_t high) {
  const std::int64_t least = values.min().item<std::int64_t>();
  const std::int64_t most = values.max().item<std::int64_t>();
  if (least < low || most >= high)
    reject_input(std::string(name) + " has a value out of range",
                 std::to_string(least < low ? least : most),
                 std::to_string(low) + " to " + std::to_string(high - 1));
}

void check_span(std::int64_t span, const ModelConfig& config) {
  if (span > config.context_length())
    reject_input("a sequence is longer than the model's context", std::to_string(span) + " tokens",
                 "at most " + std::to_string(config.context_length()) + " tokens");
}

/// Sets `counted` if excluding the other tokens saves a tenth of the head's work.
void find_counted(TokenBatch& batch, const at::Tensor& host_targets, const ModelConfig& config,
                  c10::Device device) {
  const at::Tensor counted = host_targets.ne(ignored_label).nonzero().reshape({-1});
  if (counted.numel() > 0)
    check_range("labels", host_targets.index_select(0, counted), 0, config.vocab_size);
  if (counted.numel() * 10 <= host_targets.numel() * 9) batch.counted = counted.to(device);
}

}  // namespace

TokenBatch make_batch(const CausalLMInput& input, const ModelConfig& config, c10::Device device) {
  check_input(input);
  if (input.ids.is_cpu()) check_range("ids", input.ids, 0, config.vocab_size);
  const at::Tensor ids = input.ids.to(device, c10::kLong);
  TokenBatch out;
  if (is_plain(input)) {
    out.ids = ids;
    out.span = ids.size(1);
    check_span(out.span, config);
    if (!input.labels.defined()) return out;
    const at::Tensor targets = shifted(input.labels);
    out.targets = targets.to(device);
    if (targets.is_cpu()) find_counted(out, targets, config, device);
    return out;
  }
  const Tokens tokens = find_tokens(input, /*by_count=*/config.position_offset > 0);
  const auto count = static_cast<std::int64_t>(tokens.index.size());
  const auto [least, most] = std::minmax_element(tokens.position.begin(), tokens.position.end());
  if (*least < 0)
    reject_input("position_ids has a negative value", std::to_string(*least), "0 or more");
  out.span = *most + 1;
  check_span(out.span, config);
  const std::int64_t length = tokens.lengths.front();
  const bool same = std::all_of(tokens.lengths.begin(), tokens.lengths.end(),
                                [&](std::int64_t other) { return other == length; });
  const std::vector<std::int64_t> shape =
      same ? std::vector{count / length, length} : std::vector<std::int64_t>{1, count};
  if (!same) out.lengths = tokens.lengths;
  bool usual = same;
  for (std::int64_t i = 0; usual && i < count; ++i)
    usual = tokens.position[static_cast<std::size_t>(i)] == i % length;
  if (!usual) out.positions = tensor_of(tokens.position, device).view(shape);
  if (count < ids.numel()) out.index = tensor_of(tokens.index, device);
  out.ids =
      (out.index.defined() ? ids.reshape({-1}).index_select(0, out.index) : ids).reshape(shape);
  if (!input.labels.defined()) return out;
  const at::Tensor host_targets = tensor_of(tokens.target, c10::Device(c10::kCPU));
  out.targets = host_targets.to(device);
  find_counted(out, host_targets, config, device);
  return out;
}

std::int64_t count_labels(const CausalLMInput& input) {
  check_input(input);
  if (!input.labels.defined()) return 0;
  if (is_plain(input)) return shifted(input.labels).ne(ignored_label).sum().item<std::int64_t>();
  const std::vector<std::int64_t> targets = find_tokens(input, /*by_count=*/false).target;
  return static_cast<std::int64_t>(targets.size()) -
         std::count(targets.begin(), targets.end(), ignored_label);
}

}  // namespace anyaccel::llm
