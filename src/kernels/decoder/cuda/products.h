// Matrix products with few rows, for CUDA thread blocks. Each block computes a few outputs for all
// rows. The code is also compiled for the host, where the tests run it.
//
// Each thread of a block reads different inputs for the same outputs, so even a matrix with few
// outputs has loads in flight from many threads. Thread t adds up the chunks t, t + product_lanes,
// ... in order; then the sums of all threads are combined. A result therefore does not depend on
// the number of rows or on the other outputs of its block. Products accumulate in float32. With
// quantized weights, the sums are scaled per group.
#pragma once

#include <cmath>

#include "kernels/cuda/lanes.h"
#include "kernels/decoder/cuda/elements.h"
#include "kernels/decoder/cuda/launches.h"
#include "kernels/decoder/cuda/weights.h"

namespace anyaccel::ops {

constexpr int product_lanes = 128;
/// Number of outputs per block. It is limited by the registers that hold rows * outputs sums.
ANYACCEL_ON_BOTH constexpr int block_outputs(int rows) { return rows <= 4 ? 4 : 2; }
constexpr int max_block_sums = 32;
/// Maximum number of inputs. The inner loop divides input indices by the group size, and 64-bit
/// division is slow, so indices are 32-bit. This limit prevents overflow.
constexpr std::int64_t max_inputs = 1 << 30;
constexpr int product_shared = max_block_sums * product_lanes / warp_lanes;

/// The rows of x and the outputs of one matrix that a block processes.
struct ProductTile {
  const void* weight;  ///< weights of the matrix's first output
  const float* scales;
  const std::uint8_t* zeros;
  int inputs, group;
  std::int64_t outputs, first;
  const float* x;
  int rows;
};

/// Computes one thread's contribution to all sums, stored as [rows][outputs].
template <typename Weights, int rows, int outputs, bool aligned>
ANYACCEL_ON_BOTH void sum_products(const ProductTile& t, int lane,
                                   Several<float, rows * outputs>& sums) {
  ANYACCEL_UNROLL
  for (int i = 0; i < rows * outputs; ++i) sums.at[i] = 0;
  // Rows and outputs past the end are replaced by the last one, and their results are not stored.
  const auto output_of = [&](int o) {
    return t.first + o < t.outputs ? t.first + o : t.outputs - 1;
  };
  const auto row_of = [&](int r) {
    return t.x + static_cast<std::int64_t>(r < t.rows ? r : t.rows - 1) * t.inputs;
  };
  const int groups = Weights::has_scales ? t.inputs / t.group : 0;
  constexpr int at_once = 2;  // number of chunks in flight per output
  constexpr int step = product_lanes * chunk_inputs;
  for (int begin = lane * chunk_inputs; begin < t.inputs; begin += at_once * step) {
    typename Weights::Raw raw[at_once][outputs];
    ANYACCEL_UNROLL
    for (int k = 0; k < at_once; ++k)
      if (begin + k * step < t.inputs) {
        ANYACCEL_UNROLL
        for (int o = 0; o < outputs; ++o)
          Weights::load(
              static_cast<const char*>(t.weight) + output_of(o) * Weights::row_bytes(t.inputs),
              begin + k * step, t.inputs, aligned, raw[k][o]);
      }
    ANYACCEL_UNROLL
    for (int k = 0; k < at_once; ++k) {
      const int at = begin + k * step;
      if (at >= t.inputs) continue;
      float w[outputs][chunk_inputs], scale[outputs];
      ANYACCEL_UNROLL
      for (int o = 0; o < outputs; ++o) {
        const std::int64_t group = Weights::has_scales ? output_of(o) * groups + at / t.group : 0;
        scale[o] = Weights::has_scales ? t.scales[group] : 1.0F;
        Weights::widen(raw[k][o], t.zeros ? static_cast<float>(t.zeros[group]) : 8.0F, w[o]);
      }
      ANYACCEL_UNROLL
      for (int r = 0; r < rows; ++r) {
        float x[chunk_inputs];
        Weights::load_row(row_of(r), at, t.inputs, t.group, aligned, x);
        ANYACCEL_UNROLL
        for (int o = 0; o < outputs; ++o) {
          float& all = sums.at[r * outputs + o];
          float sum = Weights::has_scales ? 0.0F : all;
          ANYACCEL_UNROLL
          for (int i = 0; i < chunk_inputs; ++i) sum = fmaf(x[i], w[o][i], sum);
          all = Weights::has_scales ? fmaf(scale[o], sum, all) : sum;
        }
      }
    }
  }
}

/// Calls store(row, output, sum) for each row and output of a tile. `shared` has room for
/// product_shared floats. `aligned` means that rows are aligned for vector loads.
template <typename Weights, int rows, bool aligned, typename Each, typename Store>
ANYACCEL_ON_BOTH void product_block(const ProductTile& t, const Each& each, float* shared,
                                    const Store& store) {
  constexpr int outputs = block_outputs(rows), count = rows * outputs;
  static_assert(count <= max_block_sums && count <= product_lanes);
  PerLane<Several<float, count>, product_lanes> sums;
  each([&](int lane) { sum_products<Weights, rows, outputs, aligned>(t, lane, sums[lane]); });
  join_warps(sums, Sum());
  each([&](int lane) {
    if (lane % warp_lanes) return;
    ANYACCEL_UNROLL
    for (int i = 0; i < count; ++i) shared[lane / warp_lanes * count + i] = sums[lane].at[i];
  });
  each([&](int lane) {
    const int row = lane / outputs;
    const std::int64_t output = t.first + lane % outputs;
    if (lane >= count || row >= t.rows || output >= t.outputs) return;
    float sum = shared[lane];
    for (int warp = 1; warp < product_lanes / warp_lanes; ++warp)
      sum += shared[warp * count + lane];
    store(row, output, sum);
  });
}

/// Runs thread block `task` of a launch.
template <typename Types, typename Weights, int rows, bool aligned, typename Each>
ANYACCEL_ON_BOTH void products_block(const Products& c, std::int64_t task, const Each& each,
                                     float* shared) {
  constexpr int outputs = block_outputs(rows);
  std::int64_t column = 0;
  int p = 0;
  for (; p + 1 < c.parts; ++p) {
    const std::int64_t tiles = (c.part[p].outputs + outputs - 1) / outputs;
    if (task < tiles) break;
    task -= tiles;
    column += c.part[p].outputs;
  }
  const Products::Linear& part = c.part[p];
  product_block<Weights, rows, aligned>(
      {part.weight, part.scales, part.zeros, static_cast<int>(c.inputs), static_cast<int>(c.group),
       part.outputs, task * outputs, c.x, static_cast<int>(c.rows)},
      each, shared, [&](std::int64_t row, std::int64_t output, float sum) {
        c.to[row * c.to_row + column + output] = sum + bias_at<Types>(part.bias, output);
      });
}

inline std::int64_t product_blocks(const Products& c, int rows) {
  const std::int64_t outputs = block_outputs(rows);
  std::int64_t blocks = 0;
  for (int p = 0; p < c.parts; ++p) blocks += (c.part[p].outputs + outputs - 1) / outputs;
  return blocks;
}

/// Returns true if all rows of the weights and of x are aligned for vector loads.
inline bool products_aligned(const Products& c, int align, std::int64_t row_bytes) {
  bool aligned = is_aligned16(c.x) && c.inputs % chunk_inputs == 0 && row_bytes % align == 0;
  for (int p = 0; p < c.parts; ++p)
    aligned =
        aligned &&
        reinterpret_cast<std::uintptr_t>(c.part[p].weight) % static_cast<unsigned>(align) == 0;
  return aligned;
}

/// Calls call(Weights()) with the weight type of a floating-point format.
template <typename Types, typename Call>
void with_float_weights(Format format, const Call& call) {
  if (format == Format::f32) return call(FloatWeights<float>());
  if (format == Format::bf16) return call(FloatWeights<typename Types::Bf16>());
  call(FloatWeights<typename Types::Fp16>());
}
template <typename Types, typename Call>
void with_weights(Format format, const Call& call) {
  if (format == Format::int8) return call(Int8Weights());
  if (format == Format::int4) return call(Int4Weights());
  with_float_weights<Types>(format, call);
}

template <int rows, bool is_aligned>
struct ProductKind {
  static constexpr int count = rows;
  static constexpr bool aligned = is_aligned;
};
/// Calls call(ProductKind()) with the smallest kernel variant that supports this number of rows.
/// Matrices with unaligned rows are rare, so they share one kernel.
template <typename Call>
void with_product_kind(std::int64_t rows, bool aligned, const Call& call) {
  if (!aligned) return call(ProductKind<cuda_rows, false>());
  if (rows <= 1) return call(ProductKind<1, true>());
  if (rows <= 2) return call(ProductKind<2, true>());
  if (rows <= 4) return call(ProductKind<4, true>());
  if (rows <= 8) return call(ProductKind<8, true>());
  call(ProductKind<cuda_rows, true>());
}

}  // namespace anyaccel::ops
