// Forward pass of an encoder such as BERT over one or more sequences, on plain float32 arrays. The
// layers are post-norm, and each token attends to all tokens of its sequence. Independent of torch.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

/// Weights [outputs][inputs] as consecutive float32 panels in the format of make_panel(), and
/// bias[outputs].
struct PackedMatrix {
  std::int64_t outputs = 0, inputs = 0;
  const float* panels = nullptr;
  const float* bias = nullptr;
};

struct EncoderLayer {
  PackedMatrix qkv, output, inner, down;
  Norm attention_norm, norm;
};

struct Encoder {
  std::int64_t hidden = 0, heads = 0, inner = 0;
  Gate gate = Gate::gelu;
  /// Number of rows in each sequence; sequences are consecutive.
  std::vector<std::int64_t> lengths;
  std::vector<EncoderLayer> layers;
};

/// Size of a packed matrix, in floats.
std::int64_t packed_size(std::int64_t outputs, std::int64_t inputs) noexcept;
/// Packs panels [begin, end) of weight[outputs][inputs] into `packed`, which is aligned to 64
/// bytes. `scratch` has room for panel_scratch_bytes(inputs) bytes.
void pack_panels(Isa isa, const float* weight, std::int64_t outputs, std::int64_t inputs,
                 std::int64_t begin, std::int64_t end, void* scratch, float* packed) noexcept;

/// Size of the scratch memory, in bytes, for a pass with `threads` threads.
std::int64_t encoder_scratch(const Encoder& encoder, std::int64_t threads);
/// Passes x[rows][hidden], the rows of all sequences, through all layers. `scratch` must be aligned
/// to 64 bytes. Results do not depend on `threads`, and a sequence's result does not depend on
/// other sequences.
void run_encoder(Isa isa, const Encoder& encoder, float* x, void* scratch, std::int64_t threads);

}  // namespace anyaccel::ops
