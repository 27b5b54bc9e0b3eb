// Per-token operations on a ragged batch: embedding lookup, rotary embeddings, storing keys and
// values in the KV cache, and gathering the activations of the last tokens.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ATen/Dispatch.h"
#include "ATen/ops/index_select.h"
#include "ops/ragged/batch.h"
#include "ops/shared/tasks.h"

namespace anyaccel::ops {

void ragged_embed(const Tensor& out, const Tensor& ids, const Tensor& weight,
                  const std::optional<Tensor>& positions, std::int64_t offset,
                  const Tensor& metadata, const Tensor& sequences, const Tensor&, const Tensor&) {
  constexpr const char* where = "ragged_embed";
  const RaggedBatch batch(where, metadata, sequences);
  batch.check_rows(out, "the result");
  batch.check_rows(ids, "the token ids");
  const bool placed = positions && positions->defined();
  if (weight.dim() != 2 || ids.dim() != 1 || out.dim() != 2 || out.stride(1) != 1 ||
      out.size(1) != weight.size(1) || out.scalar_type() != weight.scalar_type() ||
      (placed && (positions->dim() != 2 || positions->size(1) != weight.size(1) ||
                  positions->size(0) == 0 || positions->scalar_type() != weight.scalar_type())))
    fail_argument(where, "the shapes or dtypes of the tensors do not match",
                  c10::str(words(out), ", ", words(weight)),
                  "[tokens, channels] and [vocabulary size, channels]");
  const Tensor rows = weight.contiguous(), places = placed ? positions->contiguous() : Tensor(),
               words_at = ids.to(at::kLong).contiguous();
  const std::int64_t channels = weight.size(1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, weight.scalar_type(), where, [&] {
    scalar_t* const to = static_cast<scalar_t*>(changed_memory(out));
    const std::int64_t* const word = words_at.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < batch.count(); ++i) {
      const RaggedSequence& sequence = batch.sequence(i);
      for (std::int64_t token = sequence.first;
           token < std::int64_t{sequence.first} + sequence.tokens; ++token) {
        if (word[token] < 0 || word[token] >= weight.size(0)) continue;  // padding, as in DeepSpeed
        const scalar_t* from = rows.const_data_ptr<scalar_t>() + word[token] * channels;
        scalar_t* const row = to + token * out.stride(0);
        if (!placed) {
          std::copy(from, from + channels, row);
          continue;
        }
        const std::int64_t place = std::clamp<std::int64_t>(
            sequence.seen + token - sequence.first + offset, 0, places.size(0) - 1);
        const scalar_t* const more = places.const_data_ptr<scalar_t>() + place * channels;
        for (std::int64_t c = 0; c < channels; ++c)
          row[c] = static_cast<scalar_t>(static_cast<float>(from[c]) + static_cast<float>(more[c]));
      }
    }
  });
}

void gather_for_logits(const Tensor& last, const Tensor& all, const Tensor& metadata,
                       const Tensor& sequences) {
  constexpr const char* where = "gather_for_logits";
  const RaggedBatch batch(where, metadata, sequences);
  batch.check_rows(all, "the activations");
  if (last.dim() != 2 || all.dim() != 2 || last.size(0) < batch.count() ||
      last.size(1) != all.size(1))
    fail_argument(where, "the result has the wrong shape", words(last),
                  c10::str("[", batch.count(), ", ", all.size(1), "]"));
  for (std::int64_t i = 0; i < batch.count(); ++i)
    if (batch.sequence(i).tokens > 0)
      last.select(0, i).copy_(
          all.select(0, batch.sequence(i).first + batch.sequence(i).tokens - 1));
}

namespace {

template <typename T>
void turn(const T* from, T* to, std::int64_t dim, std::int64_t rotary, const float* cosines,
          const float* sines) {
  const std::int64_t half = rotary / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const float x = static_cast<float>(from[i]), y = static_cast<float>(from[i + half]);
    to[i] = static_cast<T>(x * cosines[i] - y * sines[i]);
    to[i + half] = static_cast<T>(y * cosines[i] + x * sines[i]);
  }
  if (from != to) std::copy(from + rotary, from + dim, to + rotary);
}

}  // namespace

void keep_keys(const char* where, const Tensor& cache, const Tensor& q, const Tensor& k,
               const Tensor& v, std::int64_t rotary_dim, double theta,
               const std::optional<Tensor>& frequencies, const Tensor& metadata,
               const Tensor& sequences, const Tensor& kv_ptrs) {
  RaggedBatch batch(where, metadata, sequences);
  batch.set_blocks(kv_ptrs);
  const BlockedCache to(where, cache, q);
  for (const Tensor* each : {&q, &k, &v}) {
    batch.check_rows(*each, "queries, keys or values");
    if (each->dim() != 2 || each->stride(1) != 1 || each->size(1) % to.dim != 0 ||
        each->scalar_type() != q.scalar_type() ||
        (each != &q && each->size(1) != to.heads * to.dim))
      fail_argument(where, "queries, keys or values have the wrong shape, strides or dtype",
                    words(*each), "[tokens, heads * head dim] like the cache");
  }
  const std::int64_t heads = q.size(1) / to.dim, half = rotary_dim / 2;
  if (rotary_dim < 0 || rotary_dim > to.dim || rotary_dim % 2 != 0)
    fail_argument(where, "the number of rotary dimensions is out of range",
                  std::to_string(rotary_dim), c10::str("an even number, at most ", to.dim));
  std::vector<float> steps(static_cast<std::size_t>(half));
  const Tensor arguments =
      frequencies && frequencies->defined() ? frequencies->to(at::kFloat).contiguous() : Tensor();
  for (std::int64_t i = 0; i < half; ++i)
    steps[static_cast<std::size_t>(i)] =
        arguments.defined()
            ? arguments.const_data_ptr<float>()[i]
            : static_cast<float>(
                  std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim)));
  for (std::int64_t i = 0; i < batch.count(); ++i) {
    const RaggedSequence& sequence = batch.sequence(i);
    const std::int64_t end = sequence.tokens ? std::int64_t{sequence.seen} + sequence.tokens : 0;
    if (end > to.tensor.size(0) * to.block)
      fail_argument(where, "a sequence is longer than the cache", std::to_string(end) + " tokens",
                    c10::str("at most ", to.tensor.size(0) * to.block, " tokens"));
    for (std::int64_t b = sequence.seen / to.block; b * to.block < end; ++b)
      to.check(where, batch.blocks(i)[b]);
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, q.scalar_type(), "keep_keys", [&] {
    scalar_t* const queries = static_cast<scalar_t*>(changed_memory(q));
    scalar_t* const kept = static_cast<scalar_t*>(changed_memory(cache));
    const scalar_t *const keys = k.const_data_ptr<scalar_t>(), *const values =
                                                                   v.const_data_ptr<scalar_t>();
    std::vector<float> cosines(steps.size()), sines(steps.size());
    for (std::int64_t i = 0; i < batch.count(); ++i) {
      const RaggedSequence& sequence = batch.sequence(i);
      for (std::int64_t t = 0; t < sequence.tokens; ++t) {
        const std::int64_t token = sequence.first + t, place = sequence.seen + t;
        for (std::size_t d = 0; d < steps.size(); ++d) {
          cosines[d] = std::cos(steps[d] * static_cast<float>(place));
          sines[d] = std::sin(steps[d] * static_cast<float>(place));
        }
        scalar_t* const query = queries + token * q.stride(0);
        if (rotary_dim > 0)
          for (std::int64_t h = 0; h < heads; ++h)
            turn(query + h * to.dim, query + h * to.dim, to.dim, rotary_dim, cosines.data(),
                 sines.data());
        const scalar_t *const key = keys + token * k.stride(0), *const value =
                                                                    values + token * v.stride(0);
        scalar_t* const key_to = kept + to.at(batch.blocks(i), place, 0);
        for (std::int64_t h = 0; h < to.heads; ++h)
          turn(key + h * to.dim, key_to + h * to.dim, to.dim, rotary_dim, cosines.data(),
               sines.data());
        std::copy(value, value + to.heads * to.dim, kept + to.at(batch.blocks(i), place, 1));
      }
    }
  });
}

}  // namespace anyaccel::ops
