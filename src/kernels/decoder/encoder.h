// A pass of texts through the layers of an encoder (BERT: norms behind the sums, attention to a
// whole text), over plain arrays of float32. Nothing here knows torch.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

/// Weights [outputs][inputs] as panels, one behind the other, as make_panel() writes them for
/// float32; `bias` [outputs].
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
  std::vector<std::int64_t> lengths;  ///< rows of each text, which are one behind the other
  std::vector<EncoderLayer> layers;
};

/// Floats of a packed matrix.
std::int64_t packed_size(std::int64_t outputs, std::int64_t inputs) noexcept;
/// weight[outputs][inputs] into `packed`, aligned to 64 bytes; panels [begin, end) of it.
/// `scratch`: panel_scratch_bytes(inputs).
void pack_panels(Isa isa, const float* weight, std::int64_t outputs, std::int64_t inputs,
                 std::int64_t begin, std::int64_t end, void* scratch, float* packed) noexcept;

/// Bytes that a pass needs for so many threads.
std::int64_t encoder_scratch(const Encoder& encoder, std::int64_t threads);
/// x[rows][hidden], of all texts, goes through all layers. `scratch` is aligned to 64 bytes.
/// Results do not depend on `threads`, and a text's not on the others.
void run_encoder(Isa isa, const Encoder& encoder, float* x, void* scratch, std::int64_t threads);

}  // namespace anyaccel::ops
