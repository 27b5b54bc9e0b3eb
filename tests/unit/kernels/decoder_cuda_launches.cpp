// Host implementations of the kernel launches in kernels/decoder/cuda, which replace the .cu files.
// They run the same thread blocks in reverse order, with shared memory initialized to NaN.
#include "unit/kernels/decoder_cuda_launches.h"

#include "kernels/decoder/cuda/attention.h"
#include "kernels/decoder/cuda/experts.h"
#include "kernels/decoder/cuda/integers.h"
#include "kernels/decoder/cuda/rows.h"
#include "unit/kernels/device_elements.h"

namespace op_tests {

bool launches_backwards = true;

}  // namespace op_tests

namespace anyaccel::ops {
namespace {

using op_tests::HostLanes;
using op_tests::with_device_type;

struct HostTypes {
  using Bf16 = op_tests::DeviceBf16;
  using Fp16 = op_tests::DeviceFp16;
};

template <int lanes>
HostLanes<lanes> threads() {
  return {op_tests::launches_backwards};
}

/// `count` floats that serve as a block's shared memory.
class Shared {
 public:
  explicit Shared(std::int64_t count)
      : memory_(static_cast<std::size_t>(count) + 4, std::numeric_limits<float>::quiet_NaN()) {}
  float* floats() {
    auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return reinterpret_cast<float*>((address + 15) / 16 * 16);
  }

 private:
  std::vector<float> memory_;
};

template <typename Function>
void last_first(std::int64_t count, const Function& function) {
  for (std::int64_t block = count; block-- > 0;) function(block);
}

std::int64_t pieces_of(std::int64_t columns) { return (columns + gate_lanes - 1) / gate_lanes; }

}  // namespace

const char* cuda_norm_rows(const NormRows& launch, void*) {
  last_first(launch.rows, [&](std::int64_t row) {
    Shared shared(norm_lanes / warp_lanes);
    norm_row_block<HostTypes>(launch, row, threads<norm_lanes>(), shared.floats());
  });
  return nullptr;
}

const char* cuda_position_heads(const PositionHeads& launch, void*) {
  last_first(launch.rows, [&](std::int64_t row) {
    last_first(launch.heads + 2 * launch.kv_heads, [&](std::int64_t head) {
      Shared shared(launch.dim + head_lanes / warp_lanes);
      position_head_block<HostTypes>(launch, row, head, threads<head_lanes>(), shared.floats());
    });
  });
  return nullptr;
}

const char* cuda_gate_rows(const GateRows& launch, void*) {
  last_first(launch.rows, [&](std::int64_t row) {
    last_first(pieces_of(launch.columns), [&](std::int64_t piece) {
      gate_block<HostTypes>(launch, row, piece, threads<gate_lanes>());
    });
  });
  return nullptr;
}

const char* cuda_attend_cache(const AttendCache& launch, void*) {
  std::int64_t chunks = 0;
  with_device_type(launch.type, [&](auto type) {
    using T = decltype(type);
    with_queries(launch, [&](auto queries) {
      constexpr int count = decltype(queries)::count;
      const AttendGrid grid = attend_grid(launch, count);
      chunks = grid.chunks;
      const AttendShared sizes(static_cast<int>(launch.dim), sizeof(T), count);
      EXPECT_LE(sizes.bytes, 48 * 1024);  // the default shared-memory limit per block
      const auto each = threads<attend_lanes>();
      last_first(grid.rows, [&](std::int64_t row) {
        last_first(grid.groups, [&](std::int64_t group) {
          last_first(grid.chunks, [&](std::int64_t chunk) {
            Shared shared(sizes.bytes / 4);
            AttendBlock<T, count, HostLanes<attend_lanes>>(launch, group, row, each,
                                                           reinterpret_cast<char*>(shared.floats()))
                .run(chunk, grid.chunks);
          });
        });
      });
    });
  });
  if (chunks < 2) return nullptr;
  last_first(launch.rows, [&](std::int64_t row) {
    last_first(launch.heads, [&](std::int64_t head) {
      combine_block(launch, row, head, chunks, threads<attend_lanes>());
    });
  });
  return nullptr;
}

const char* cuda_products(const Products& launch, void*) {
  if (launch.rows == 0) return nullptr;
  with_weights<HostTypes>(launch.format, [&](auto weights) {
    using Weights = decltype(weights);
    const bool aligned =
        products_aligned(launch, Weights::align, Weights::row_bytes(launch.inputs));
    with_product_kind(launch.rows, aligned, [&](auto kind) {
      using Kind = decltype(kind);
      last_first(product_blocks(launch, Kind::count), [&](std::int64_t block) {
        Shared shared(product_shared);
        products_block<HostTypes, Weights, Kind::count, Kind::aligned>(
            launch, block, threads<product_lanes>(), shared.floats());
      });
    });
  });
  return nullptr;
}

const char* cuda_choose_experts(const ChooseExperts& launch, void*) {
  last_first(launch.rows, [&](std::int64_t row) { choose_row(launch, row); });
  return nullptr;
}

const char* cuda_expert_products(const ExpertProducts& launch, void*) {
  with_float_weights<HostTypes>(launch.format, [&](auto weights) {
    using Weights = decltype(weights);
    const bool aligned = expert_aligned(launch, Weights::align, Weights::row_bytes(launch.inputs));
    last_first(launch.pairs, [&](std::int64_t pair) {
      last_first((launch.outputs + expert_outputs - 1) / expert_outputs, [&](std::int64_t tile) {
        Shared shared(product_shared);
        if (aligned)
          expert_block<Weights, true>(launch, pair, tile, threads<product_lanes>(),
                                      shared.floats());
        else
          expert_block<Weights, false>(launch, pair, tile, threads<product_lanes>(),
                                       shared.floats());
      });
    });
  });
  return nullptr;
}

const char* cuda_mix_experts(const MixExperts& launch, void*) {
  last_first(launch.rows, [&](std::int64_t row) {
    last_first(pieces_of(launch.columns), [&](std::int64_t piece) {
      mix_block(launch, row, piece, gate_lanes, threads<gate_lanes>());
    });
  });
  return nullptr;
}

const char* cuda_quantize_matrix(const QuantizeMatrix& launch, void*) {
  const auto each = threads<quantize_lanes>();
  last_first(launch.outputs * (launch.inputs / launch.group), [&](std::int64_t group) {
    Shared shared(quantize_lanes);
    QuantizeGroup<HostTypes, HostLanes<quantize_lanes>>(launch, group, each, shared.floats()).run();
  });
  return nullptr;
}

const char* cuda_widen_matrix(const WidenMatrix& launch, void*) {
  last_first(launch.count * launch.matrix.inputs,
             [&](std::int64_t i) { widen_element<HostTypes>(launch, i); });
  return nullptr;
}

}  // namespace anyaccel::ops
