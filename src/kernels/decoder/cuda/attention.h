// Attention over a KV cache for CUDA thread blocks. Each block processes one chunk of the positions
// visible to a row, for query heads that share a key head. The code is also compiled for the host,
// where the tests run it.
//
// The keys of a tile are copied to shared memory with padded rows, so that threads, each of which
// computes one score, read them without bank conflicts. Values are read in place; adjacent threads
// read adjacent elements of a position. The running maximum and sum of the softmax are carried from
// tile to tile. Chunk boundaries depend only on the row's position, so a row's results are bitwise
// independent of other rows.
#pragma once

#include <cmath>

#include "kernels/attention/running_softmax.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/vectors.h"
#include "kernels/decoder/cuda/launches.h"

namespace anyaccel::ops {

constexpr int attend_lanes = 128;
constexpr int max_queries = 8;  // number of queries per block, from heads that share a key head
constexpr int value_step = 8;   // number of value elements per thread
constexpr int max_chunks = 64;
constexpr std::int64_t min_chunk = 256;

/// The positions [begin, end) that are visible to a row.
struct Seen {
  std::int64_t begin, end;
};
ANYACCEL_ON_BOTH Seen seen_by(const AttendCache& c, std::int64_t row) {
  const std::int64_t end = c.places[row].position + 1;
  return {c.window > 0 && c.window < end ? end - c.window : 0, end};
}

/// Number of positions per chunk, for a row at position end - 1. The result is large enough for
/// max_chunks chunks to cover the row.
ANYACCEL_ON_BOTH std::int64_t attend_chunk(std::int64_t end) {
  constexpr std::int64_t all = min_chunk * max_chunks;
  return min_chunk * ((end + all - 1) / all);
}
ANYACCEL_ON_BOTH std::int64_t chunks_of(const Seen& seen) {
  const std::int64_t chunk = attend_chunk(seen.end);
  return (seen.end + chunk - 1) / chunk - seen.begin / chunk;
}

/// Grid dimensions of a launch: the largest number of chunks of any row, the groups of queries for
/// all key heads, and the rows.
struct AttendGrid {
  std::int64_t chunks, groups, rows;
};
ANYACCEL_ON_BOTH std::int64_t query_groups(const AttendCache& c, int queries) {
  return (c.group + queries - 1) / queries;
}
inline AttendGrid attend_grid(const AttendCache& c, int queries) {
  AttendGrid grid{0, c.kv_heads * query_groups(c, queries), c.rows};
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t chunks = chunks_of(seen_by(c, row));
    grid.chunks = chunks > grid.chunks ? chunks : grid.chunks;
  }
  return grid;
}

template <int queries>
struct Queries {
  static constexpr int count = queries;
};
/// Calls call(Queries<n>()), where n is the number of queries per block.
template <typename Call>
void with_queries(const AttendCache& c, const Call& call) {
  if (c.group <= 1) return call(Queries<1>());
  if (c.group <= 4) return call(Queries<4>());
  call(Queries<max_queries>());
}

/// Number of floats per chunk and head in `partial`: the weighted sums of values, followed by the
/// maximum score and the sum of the exponentials.
ANYACCEL_ON_BOTH std::int64_t partial_floats(const AttendCache& c) { return c.dim + 2; }
ANYACCEL_ON_BOTH float* partial_of(const AttendCache& c, std::int64_t row, std::int64_t head,
                                   std::int64_t chunk, std::int64_t chunks) {
  return c.partial + ((row * c.heads + head) * chunks + chunk) * partial_floats(c);
}

/// Maximum size of `partial` in floats, for rows at positions before `end`.
inline std::int64_t attend_floats(std::int64_t rows, std::int64_t heads, std::int64_t dim,
                                  std::int64_t end) {
  const std::int64_t chunks = (end + min_chunk - 1) / min_chunk;
  return chunks < 2 ? 0 : rows * heads * (chunks < max_chunks ? chunks : max_chunks) * (dim + 2);
}

/// Byte offsets in a block's shared memory, for heads of `dim` elements of `size` bytes.
struct AttendShared {
  /// `row` is the size of a padded key in bytes, and `tile` the number of positions per tile.
  int row, tile, keys, scores, maxima, bytes;

  ANYACCEL_ON_BOTH AttendShared(int dim, int size, int queries) {
    const int padded = (dim * size + 15) / 16 * 16;
    row = padded + 16;  // padding, so that consecutive rows begin in different banks
    tile = padded <= 256 ? 64 : padded <= 512 ? 32 : padded <= 1024 ? 16 : 8;
    keys = queries * (padded / size) * 4;
    const int sums = attend_lanes * value_step * 4;  // shares its memory with the keys
    scores = keys + (tile * row > sums ? tile * row : sums);
    maxima = scores + queries * tile * 4;
    bytes = maxima + 3 * queries * 4;
  }
};

template <typename T, int queries, typename Each>
class AttendBlock {
 public:
  ANYACCEL_ON_BOTH AttendBlock(const AttendCache& launch, std::int64_t group, std::int64_t at_row,
                               const Each& phase, char* memory)
      : c(launch),
        each(phase),
        row(at_row),
        place(c.places[row]),
        dim(static_cast<int>(c.dim)),
        shared(dim, sizeof(T), queries) {
    const std::int64_t groups = query_groups(c, queries);
    kv_head = group / groups;
    const std::int64_t begin = kv_head * c.group - c.first_head, end = begin + c.group;
    head = (begin > 0 ? begin : 0) + group % groups * queries;
    const std::int64_t left = (end < c.heads ? end : c.heads) - head;
    count = static_cast<int>(left < queries ? left : queries);
    padded = (shared.row - 16) / static_cast<int>(sizeof(T));
    vectors = (dim + value_step - 1) / value_step;
    parts = attend_lanes / vectors;
    query = reinterpret_cast<float*>(memory);
    keys = memory + shared.keys;
    scores = reinterpret_cast<float*>(memory + shared.scores);
    maximum = reinterpret_cast<float*>(memory + shared.maxima);
    sum = maximum + queries;
    again = sum + queries;
    const std::int64_t offset = kv_head * place.capacity * c.dim;
    all_keys = static_cast<const T*>(place.keys.data) + offset;
    all_values = static_cast<const T*>(place.values.data) + offset;
    const bool whole = c.dim * static_cast<std::int64_t>(sizeof(T)) % 16 == 0;
    aligned = whole && reinterpret_cast<std::uintptr_t>(all_keys) % 16 == 0 &&
              reinterpret_cast<std::uintptr_t>(all_values) % 16 == 0;
    // Values are loaded value_step elements at a time, up to 32 bytes.
    whole_values = aligned && c.dim % value_step == 0;
  }

  /// Processes chunk `chunk` of the row. `chunks` is the largest number of chunks of any row.
  ANYACCEL_ON_BOTH void run(std::int64_t chunk, std::int64_t chunks) const {
    const Seen seen = seen_by(c, row);
    const std::int64_t own = chunks_of(seen), size = attend_chunk(seen.end);
    if (chunk >= own || count <= 0 || place.keys.type != c.type) return;
    const std::int64_t first = (seen.begin / size + chunk) * size;
    const std::int64_t begin = first > seen.begin ? first : seen.begin;
    const std::int64_t end = first + size < seen.end ? first + size : seen.end;
    PerLane<Several<float, queries * value_step>, attend_lanes> mixed;
    each([&](int lane) {
      for (int i = lane; i < queries * padded; i += attend_lanes) {
        const int q = i / padded, d = i % padded;
        query[i] =
            q < count && d < dim ? c.queries[row * c.queries_row + (head + q) * c.dim + d] : 0.0F;
      }
      if (lane < queries) {
        maximum[lane] = no_score<float>;
        sum[lane] = 0;
      }
      ANYACCEL_UNROLL
      for (int i = 0; i < queries * value_step; ++i) mixed[lane].at[i] = 0;
    });
    for (std::int64_t at = begin; at < end; at += shared.tile) {
      const int there = end - at < shared.tile ? static_cast<int>(end - at) : shared.tile;
      each([&](int lane) { load_keys(lane, at, there); });
      each([&](int lane) { make_scores(lane, at, there); });
      soften();
      each([&](int lane) { mix(lane, at, there, mixed[lane]); });
    }
    ANYACCEL_UNROLL
    for (int q = 0; q < queries; ++q) {
      if (q >= count) break;
      auto* const sums = reinterpret_cast<float*>(keys);
      each([&](int lane) {
        if (lane >= parts * vectors) return;
        ANYACCEL_UNROLL
        for (int i = 0; i < value_step; ++i)
          sums[lane * value_step + i] = mixed[lane].at[q * value_step + i];
      });
      each([&](int lane) { finish(lane, q, sums, chunk, own, chunks); });
    }
  }

 private:
  ANYACCEL_ON_BOTH void load_keys(int lane, std::int64_t at, int there) const {
    const T* const from = all_keys + at * c.dim;
    if (aligned) {
      constexpr int step = Sixteen<T>::count;
      const int pieces = dim / step;
      for (int i = lane; i < there * pieces; i += attend_lanes) {
        auto* const to = reinterpret_cast<T*>(keys + i / pieces * shared.row) + i % pieces * step;
        store_sixteen(load_sixteen<Reads::once>(from + i * step), to);
      }
      return;
    }
    for (int i = lane; i < there * padded; i += attend_lanes) {
      const int p = i / padded, d = i % padded;
      reinterpret_cast<T*>(keys + p * shared.row)[d] =
          d < dim ? from[p * c.dim + d] : static_cast<T>(0.0F);
    }
  }

  ANYACCEL_ON_BOTH void make_scores(int lane, std::int64_t at, int there) const {
    constexpr int step = Sixteen<T>::count;
    for (int i = lane; i < count * shared.tile; i += attend_lanes) {
      const int q = i / shared.tile, p = i % shared.tile;
      float score = no_score<float>;
      if (p < there) {
        const T* const key = reinterpret_cast<const T*>(keys + p * shared.row);
        const float* const with = query + q * padded;
        // Use independent sums, because in a single chain each addition would wait for the previous
        // one.
        float part[4] = {};
        for (int d = 0; d < padded; d += step) {
          const Sixteen<T> some = load_sixteen<Reads::written>(key + d);
          ANYACCEL_UNROLL
          for (int k = 0; k < step; k += 4) {
            const Sixteen<float> four = load_sixteen<Reads::written>(with + d + k);
            ANYACCEL_UNROLL
            for (int j = 0; j < 4; ++j)
              part[j] = fmaf(four.at[j], static_cast<float>(some.at[k + j]), part[j]);
          }
        }
        score = ((part[0] + part[1]) + (part[2] + part[3])) * c.scale;
        if (c.softcap > 0) score = c.softcap * tanhf(score / c.softcap);
        if (c.mask) score += c.mask[row * c.mask_row + at + p];
      }
      scores[i] = score;
    }
  }

  /// Replaces the scores with e^(score - running maximum). Each warp processes one query.
  ANYACCEL_ON_BOTH void soften() const {
    constexpr int warps = attend_lanes / warp_lanes;
    for (int begin = 0; begin < count; begin += warps) {
      PerLane<float, attend_lanes> most, total;
      each([&](int lane) {
        const int q = begin + lane / warp_lanes;
        most[lane] = no_score<float>;
        if (q >= count) return;
        for (int p = lane % warp_lanes; p < shared.tile; p += warp_lanes)
          most[lane] = Greatest()(most[lane], scores[q * shared.tile + p]);
      });
      join_warps(most, Greatest());
      each([&](int lane) {
        const int q = begin + lane / warp_lanes;
        total[lane] = 0;
        if (q >= count) return;
        most[lane] = Greatest()(most[lane], maximum[q]);
        const float from = subtrahend(most[lane]);
        for (int p = lane % warp_lanes; p < shared.tile; p += warp_lanes) {
          float& score = scores[q * shared.tile + p];
          score = expf(score - from);
          total[lane] += score;
        }
      });
      join_warps(total, Sum());
      each([&](int lane) {
        const int q = begin + lane / warp_lanes;
        if (q >= count || lane % warp_lanes) return;
        const float from = subtrahend(most[lane]);
        again[q] = expf(maximum[q] - from);
        sum[q] = sum[q] * again[q] + total[lane];
        maximum[q] = most[lane];
      });
    }
  }

  ANYACCEL_ON_BOTH void mix(int lane, std::int64_t at, int there,
                            Several<float, queries * value_step>& mixed) const {
    if (lane >= parts * vectors) return;
    const int part = lane / vectors, d = lane % vectors * value_step;
    ANYACCEL_UNROLL
    for (int q = 0; q < queries; ++q) {
      if (q >= count) break;
      ANYACCEL_UNROLL
      for (int i = 0; i < value_step; ++i) mixed.at[q * value_step + i] *= again[q];
    }
    for (int p = part; p < there; p += parts) {
      float values[value_step];
      load_floats<value_step, Reads::once>(all_values + (at + p) * c.dim + d, c.dim - d,
                                           whole_values, values);
      ANYACCEL_UNROLL
      for (int q = 0; q < queries; ++q) {
        if (q >= count) break;
        const float share = scores[q * shared.tile + p];
        ANYACCEL_UNROLL
        for (int i = 0; i < value_step; ++i)
          mixed.at[q * value_step + i] = fmaf(share, values[i], mixed.at[q * value_step + i]);
      }
    }
  }

  ANYACCEL_ON_BOTH void finish(int lane, int q, const float* sums, std::int64_t chunk,
                               std::int64_t own, std::int64_t chunks) const {
    float* const partial = own > 1 ? partial_of(c, row, head + q, chunk, chunks) : nullptr;
    for (int d = lane; d < dim; d += attend_lanes) {
      float all = sums[d];
      for (int part = 1; part < parts; ++part) all += sums[part * vectors * value_step + d];
      if (partial)
        partial[d] = all;
      else
        c.to[(row * c.heads + head + q) * c.dim + d] = sum[q] == 0 ? 0.0F : all / sum[q];
    }
    if (!partial || lane) return;
    partial[c.dim] = maximum[q];
    partial[c.dim + 1] = sum[q];
  }

  const AttendCache& c;
  const Each& each;
  std::int64_t row;
  const RowPlace& place;
  int dim;
  AttendShared shared;
  std::int64_t kv_head, head;
  int padded, vectors, parts;
  int count;  ///< number of queries in this block
  float *query, *scores, *maximum, *sum, *again;
  char* keys;
  const T *all_keys, *all_values;
  bool aligned, whole_values;
};

/// Combines the partial results of all chunks for one head of a row.
template <typename Each>
ANYACCEL_ON_BOTH void combine_block(const AttendCache& c, std::int64_t row, std::int64_t head,
                                    std::int64_t chunks, const Each& each) {
  const std::int64_t own = chunks_of(seen_by(c, row));
  if (own < 2 || c.places[row].keys.type != c.type) return;
  const float* const first = partial_of(c, row, head, 0, chunks);
  const std::int64_t step = partial_floats(c);
  each([&](int lane) {
    float most = no_score<float>, sum = 0;
    for (std::int64_t i = 0; i < own; ++i) most = Greatest()(most, first[i * step + c.dim]);
    const float from = subtrahend(most);
    for (std::int64_t i = 0; i < own; ++i)
      sum = fmaf(expf(first[i * step + c.dim] - from), first[i * step + c.dim + 1], sum);
    for (std::int64_t d = lane; d < c.dim; d += attend_lanes) {
      float all = 0;
      for (std::int64_t i = 0; i < own; ++i)
        all = fmaf(expf(first[i * step + c.dim] - from), first[i * step + d], all);
      c.to[(row * c.heads + head) * c.dim + d] = sum == 0 ? 0.0F : all / sum;
    }
  });
}

}  // namespace anyaccel::ops
