// One pass of a decoder model over few new positions of one or several sequences, over plain
// arrays. Nothing here knows torch.
#pragma once

#include <vector>

#include "kernels/decoder/matrix.h"
#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

/// A projection; its parts lie one behind the other in the results, so that checkpoints' matrices
/// need not be put together.
struct Linear {
  Matrix matrix;
  Values bias;
};

/// A sequence's keys and values in one layer, [kv_heads][capacity][head_dim].
struct Cache {
  Values keys, values;
};

/// Feed-forward parts of which each row takes a few, in place of `up` and `down`. Matrices of
/// floats.
struct Experts {
  Linear router;  ///< an output for each expert; none: the layer has no experts
  Matrix
      gate_up;  ///< [experts * 2 * inner][hidden]: of each expert the gate, then what it multiplies
  Matrix down;  ///< [experts * hidden][inner]
};

struct DecoderLayer {
  std::vector<Linear> qkv;  ///< query, key, value together: heads + 2 * kv_heads heads
  std::vector<Linear>
      up;  ///< the gate and what it multiplies, or the one part in front of the activation
  Linear output, down;
  Experts experts;
  Norm input_norm, post_norm;
  Norm query_norm, key_norm;  ///< of each head, where the model has them (`head_norms`)
  Norm after_attention, after_feed_forward;  ///< where the model has them (`norms_after`)
  std::vector<Cache> caches;                 ///< of each segment
  const float* cos;                          ///< [rows][half]
  const float* sin;
  std::int64_t window;  ///< positions that are seen; 0: all
  float scale;
};

/// The rows of one sequence: `rows` of them, from `begin` on, behind its `past` positions. None
/// sees another sequence.
struct Segment {
  std::int64_t past, begin, rows, capacity;
};

/// How ranks that hold the layers together add up their parts.
struct RankSum {
  /// Adds up values[count] of all ranks in place; idle(data) is called while others are waited for.
  /// Null: nothing is added up.
  void (*add_up)(void* group, float* values, std::int64_t count, void (*idle)(void*), void* data);
  void* group;
  bool attention, feed_forward;  ///< what is split
};

struct Decoder {
  std::int64_t hidden, heads, kv_heads, head_dim, inner,
      half;                        ///< half: pairs of a head that are rotated; 0: none
  std::int64_t group, first_head;  ///< query heads that share a key head, and how many of the first
                                   ///< one's are elsewhere
  Gate gate;
  bool gated, head_norms, norms_after;
  std::int64_t experts_per_token;  ///< that a row takes where a layer has experts
  bool normalize_experts;          ///< their shares are made to sum up to 1
  float softcap;                   ///< of the scores; 0: none
  std::vector<Segment> segments;   ///< one behind the other, at most most_rows rows in all
  std::vector<DecoderLayer> layers;
  Norm final_norm;  ///< weight and bias null, kind rms and eps negative: none
  Linear head;      ///< no outputs: the rows are left as they come out of the layers
  bool last_only;   ///< logits of each segment's last row alone
  RankSum sum;

  std::int64_t key_head(std::int64_t query) const { return (first_head + query) / group; }
};

/// What of the layers a pass goes through; halves are for ranks that hold a layer together and add
/// up elsewhere, and have one layer.
enum class Half { whole, attention, feed_forward };

/// Rows that one pass takes.
constexpr std::int64_t max_rows = 16;
constexpr std::int64_t max_head_dim = 512;

/// Bytes that a pass needs for so many threads.
std::int64_t decoder_scratch(const Decoder& decoder, std::int64_t threads);
/// x[rows][hidden], of all segments, goes through all layers; keys and values of each segment's
/// positions past, past + 1, ... are stored. logits[rows][outputs of head] unless there is none. Of
/// a half, what it would add to x is written to `change` [rows][hidden] instead, without the norm
/// behind it. What decoder.sum throws comes out of here. `scratch` is aligned to 64 bytes. Results
/// do not depend on `threads`, and a row's not on those behind it or of other segments.
void run_decoder(Isa isa, const Decoder& decoder, float* x, float* logits, void* scratch,
                 std::int64_t threads, Half half = Half::whole, float* change = nullptr);

}  // namespace anyaccel::ops
