#include "llm/fine_tune/batch.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm {

CausalLMInput make_batch(const ExampleStore& store, const Rows& rows,
                         std::span<const std::size_t> indices) {
  std::int64_t time = 0, tokens = 0;
  bool several = false;
  for (const std::size_t index : indices) {
    std::int64_t length = 0;
    for (const RowPart& part : rows.row(index)) length += part.length;
    several = several || rows.row(index).size() > 1;
    time = std::max(time, length);
    tokens += length;
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  const auto long_type = at::TensorOptions().dtype(at::kLong);
  CausalLMInput batch{.ids = at::zeros({count, time}, long_type),
                      .labels = at::full({count, time}, -100, long_type)};
  const bool padded = tokens < count * time;
  if (padded) batch.attention_mask = at::zeros({count, time}, long_type);
  if (several) batch.sequence_ids = at::zeros({count, time}, long_type);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = i * time;
    std::int64_t number = 0;
    for (const RowPart& part : rows.row(indices[static_cast<std::size_t>(i)])) {
      auto* const labels = batch.labels.mutable_data_ptr<std::int64_t>() + at;
      store.read(part.example, part.begin, part.length,
                 batch.ids.mutable_data_ptr<std::int64_t>() + at, labels);
      labels[0] = -100;
      if (padded)
        std::fill_n(batch.attention_mask.mutable_data_ptr<std::int64_t>() + at, part.length, 1);
      if (several)
        std::fill_n(batch.sequence_ids.mutable_data_ptr<std::int64_t>() + at, part.length,
                    number++);
      at += part.length;
    }
  }
  return batch;
}

std::int64_t learned_tokens(const ExampleStore& store, const Rows& rows,
                            std::span<const std::size_t> indices) {
  std::int64_t sum = 0;
  for (const std::size_t index : indices) {
    for (const RowPart& part : rows.row(index))
      sum += store.learned_in(part.example, part.begin + 1, part.length - 1);
  }
  return sum;
}

std::uint64_t step_seed(std::uint64_t seed, std::int64_t step, int rank) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(step) + 1) +
                    0xbf58476d1ce4e5b9ULL * static_cast<std::uint64_t>(rank);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

void check_finite(double loss, double norm, double lr, std::int64_t step) {
  if (std::isfinite(loss) && std::isfinite(norm)) return;
  throw Error(ErrorCode::invalid_state, "train",
              {.what = "training diverged in step " + std::to_string(step) +
                       "; earlier checkpoints are unchanged",
               .got = "loss " + std::to_string(loss) + ", gradient norm " + std::to_string(norm) +
                      " with learning rate " + std::to_string(lr),
               .want = "finite numbers",
               .hint = "start again with a lower --lr or a longer --warmup"});
}

}  // namespace anyaccel::llm
