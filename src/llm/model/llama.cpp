#include "llm/model/llama.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include "llm/model/decode_step.h"
#include "llm/model/graph_step.h"
#include "llm/model/layers.h"
#include "llm/model/masks.h"
#include "llm/parallel/shards.h"

namespace anyaccel::llm {

namespace {

/// Cosines and sines for the positions of all parts, concatenated.
template <typename Rows>
Rotation rotation_of(const std::vector<BatchSequence>& parts, Rows rows) {
  std::vector<at::Tensor> cosines, sines;
  for (const BatchSequence& part : parts) {
    auto [cos, sin] = rows(part);
    cosines.push_back(std::move(cos));
    sines.push_back(std::move(sin));
  }
  return {joined(cosines, 0), joined(sines, 0)};
}

at::Tensor embed(const Weights& weights, const ModelConfig& config, const at::Tensor& ids,
                 const std::vector<BatchSequence>& parts) {
  const at::Tensor x = embed_tokens(weights, config, ids);
  if (!config.learned_positions) return x;
  std::vector<at::Tensor> rows;
  for (const BatchSequence& part : parts) {
    rows.push_back(
        part.next ? part.next->row(weights.positions, config.position_offset)
                  : weights.positions.narrow(0, config.position_offset + part.past, part.time));
  }
  return x.add(joined(rows, 0));
}

at::Tensor last_logits(const Weights& weights, const ModelConfig& config, const at::Tensor& x) {
  at::Tensor out = linear(head_input(weights, config, x), weights.head, weights.head_scales, {});
  if (weights.shards) out = weights.shards->all_logits(out);
  return soft_cap(out, config.logit_softcap);
}

/// The output of the last layer, [batch, time, hidden].
at::Tensor run_layers(const Weights& weights, const ModelConfig& config, RopeTables& rope,
                      const at::Tensor& ids, std::vector<BatchSequence>& parts,
                      const DropoutMasks* masks) {
  Rotation rotation, window_rotation;
  if (!config.learned_positions) {
    rotation = rotation_of(parts, [&](const BatchSequence& part) {
      return part.next ? part.next->rotation() : rope.rows(part.past, part.time);
    });
    window_rotation = rotation_of(parts, [&](const BatchSequence& part) {
      return part.next ? part.next->window_rotation() : rope.window_rows(part.past, part.time);
    });
  }
  at::Tensor x = embed(weights, config, ids, parts);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    LayerDropout dropout;
    if (masks) {
      dropout.after_attention = (*masks)[2 * i];
      dropout.after_feed_forward = (*masks)[2 * i + 1];
    }
    const bool slides = !config.windows.empty() && config.windows[i] > 0;
    x = decoder_layer(weights.layers[i], config, x, slides ? window_rotation : rotation,
                      static_cast<std::int64_t>(i), parts, weights.shards.get(), dropout);
  }
  for (const BatchSequence& part : parts) {
    if (part.cache && !part.next) part.cache->advance(part.time);
  }
  return x;
}

std::vector<BatchSequence> parts_of(const std::vector<Segment>& segments, c10::Device device) {
  std::vector<BatchSequence> parts;
  std::int64_t begin = 0;
  for (const Segment& segment : segments) {
    const std::int64_t past = segment.cache->length();
    parts.push_back({segment.cache, past, begin, segment.time, Masks(past, segment.time, device)});
    begin += segment.time;
  }
  return parts;
}

const DecodeStep* step_of(const Weights& weights, const ModelConfig& config) {
  return decode_way() == DecodeWay::automatic ? DecodeStep::of(weights, config) : nullptr;
}

/// Logits [1, rows or segments, vocab] of new tokens, with all layers in one op.
at::Tensor run_step(const DecodeStep& step, const Weights& weights, const ModelConfig& config,
                    RopeTables& rope, const at::Tensor& ids, const std::vector<Segment>& segments,
                    bool last_only) {
  const at::Tensor x = embed(weights, config, ids, parts_of(segments, ids.device()));
  const at::Tensor logits = step.run(x, rope, segments, last_only, weights.shards.get());
  for (const Segment& segment : segments) segment.cache->advance(segment.time);
  return soft_cap(logits, config.logit_softcap);
}

/// Like run_step(), but processes many tokens of one sequence in chunks of `rows_at_once` tokens.
at::Tensor run_pieces(const DecodeStep& step, const Weights& weights, const ModelConfig& config,
                      RopeTables& rope, const at::Tensor& ids, KvCache& cache, bool last_only,
                      std::int64_t rows_at_once) {
  std::vector<at::Tensor> logits;
  for (const at::Tensor& piece : ids.split(rows_at_once, 1)) {
    const at::Tensor rows =
        run_step(step, weights, config, rope, piece, {{&cache, piece.size(1)}}, last_only);
    if (last_only) logits.clear();
    logits.push_back(rows);
  }
  return joined(logits, 1);
}

/// Returns whether the op can process a prompt of `time` tokens.
bool takes_prompt(const DecodeStep* step, const ModelConfig& config, std::int64_t time) {
  if (!step || step->prompt_rows() == 0) return false;
  // With these RoPE types, the frequencies depend on the sequence length, which differs between
  // chunks.
  const bool by_length =
      config.rope.type == RopeType::dynamic || config.rope.type == RopeType::longrope;
  return time <= step->prompt_rows() || !by_length;
}

/// Logits [1, segments, vocab] of the segments' last tokens, in one pass.
at::Tensor run_segments(const DecodeStep* step, const Weights& weights, const ModelConfig& config,
                        RopeTables& rope, const at::Tensor& ids,
                        const std::vector<Segment>& segments) {
  if (step && DecodeStep::takes(ids.size(1)))
    return run_step(*step, weights, config, rope, ids, segments, /*last_only=*/true);
  if (segments.size() == 1 && takes_prompt(step, config, ids.size(1)))
    return run_pieces(*step, weights, config, rope, ids, *segments[0].cache, /*last_only=*/true,
                      step->prompt_rows());
  std::vector<BatchSequence> parts = parts_of(segments, ids.device());
  const at::Tensor rows = run_layers(weights, config, rope, ids, parts, nullptr);
  std::vector<at::Tensor> last;
  for (const BatchSequence& part : parts)
    last.push_back(rows.narrow(1, part.begin + part.time - 1, 1));
  return last_logits(weights, config, joined(last, 1));
}

/// Groups segments into passes and returns their indices. With a DecodeStep, each segment uses the
/// same code path as it would alone: short segments share passes of the op up to its limit, and
/// each long segment is a separate pass. A sequence's results are therefore bitwise independent of
/// the other sequences.
std::vector<std::vector<std::size_t>> passes_of(bool has_step,
                                                const std::vector<Segment>& segments) {
  std::vector<std::vector<std::size_t>> passes, plain;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t time = segments[i].time;
    if (has_step && !DecodeStep::takes(time)) {
      plain.push_back({i});
      continue;
    }
    if (passes.empty() || (has_step && !DecodeStep::takes(rows + time))) {
      passes.emplace_back();
      rows = 0;
    }
    passes.back().push_back(i);
    rows += time;
  }
  passes.insert(passes.end(), plain.begin(), plain.end());
  return passes;
}

}  // namespace

at::Tensor llama_forward(const Weights& weights, const ModelConfig& config, RopeTables& rope,
                         const at::Tensor& ids, KvCache* cache, bool last_only,
                         const DropoutMasks* masks) {
  const std::int64_t past = cache ? cache->length() : 0;
  const std::int64_t time = ids.size(1);
  const bool alone = !masks && ids.size(0) == 1 && !c10::GradMode::is_enabled();
  if (const DecodeStep* step = alone ? step_of(weights, config) : nullptr) {
    // Verify draft tokens in batches of at most max_rows tokens, so that the results are bitwise
    // identical to those of single decode steps.
    if (cache && (!last_only || DecodeStep::takes(time)))
      return run_pieces(*step, weights, config, rope, ids, *cache, last_only, DecodeStep::max_rows);
    if (takes_prompt(step, config, time)) {
      std::optional<KvCache> own;
      if (!cache) own.emplace(config, 1, time, weights.embedding.scalar_type());
      return run_pieces(*step, weights, config, rope, ids, cache ? *cache : *own, last_only,
                        step->prompt_rows());
    }
  }
  std::vector<BatchSequence> parts = {{cache, past, 0, time, Masks(past, time, ids.device())}};
  if (alone && cache && time == 1 && GraphStep::takes(weights, config, past)) {
    const auto pass = [&](NextToken& next, const at::Tensor& id) {
      parts[0].next = &next;
      return last_logits(weights, config, run_layers(weights, config, rope, id, parts, nullptr));
    };
    if (auto logits = cache->graph_step().run(weights, config, rope, ids, *cache, pass)) {
      cache->advance(time);
      return *logits;
    }
    parts[0].next = nullptr;
  }
  at::Tensor x = run_layers(weights, config, rope, ids, parts, masks);
  if (last_only) x = x.narrow(1, time - 1, 1);
  return last_logits(weights, config, x);
}

at::Tensor llama_forward_segments(const Weights& weights, const ModelConfig& config,
                                  RopeTables& rope, const at::Tensor& ids,
                                  const std::vector<Segment>& segments) {
  const DecodeStep* step = c10::GradMode::is_enabled() ? nullptr : step_of(weights, config);
  const auto passes = passes_of(step != nullptr, segments);
  if (passes.size() == 1)
    return run_segments(step, weights, config, rope, ids, segments).squeeze(0);
  std::vector<std::int64_t> times;
  for (const Segment& segment : segments) times.push_back(segment.time);
  const std::vector<at::Tensor> own_ids = ids.split_with_sizes(times, 1);
  std::vector<at::Tensor> logits(segments.size());
  for (const auto& pass : passes) {
    std::vector<at::Tensor> pass_ids;
    std::vector<Segment> pass_segments;
    for (const std::size_t i : pass) {
      pass_ids.push_back(own_ids[i]);
      pass_segments.push_back(segments[i]);
    }
    const at::Tensor rows =
        run_segments(step, weights, config, rope, joined(pass_ids, 1), pass_segments);
    for (std::size_t k = 0; k < pass.size(); ++k)
      logits[pass[k]] = rows.narrow(1, static_cast<std::int64_t>(k), 1).to(c10::kFloat);
  }
  return at::cat(logits, 1).squeeze(0);
}

}  // namespace anyaccel::llm
