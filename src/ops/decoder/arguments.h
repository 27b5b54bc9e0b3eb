// Tensors of a decoder as the kernels see them, checked: whatever is given, nothing outside of a tensor is read or written. All of them lie
// on one device, whatever that is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ATen/core/List.h"
#include "ATen/core/Tensor.h"
#include "kernels/decoder/decoder.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensors = c10::List<std::optional<Tensor>>;

/// What a decoder is made of; `decoder` looks into these tensors.
struct DecoderArguments {
  const Tensor& x;
  const OptionalTensors& weights;
  at::TensorList keys, values;  ///< of the first segment's layers, then of the second one's, ...
  at::TensorList angles;
  at::IntArrayRef past, rows;  ///< of each segment
  at::IntArrayRef config;      ///< pack_decoder_config()
  const std::optional<Tensor>& logits;
  const std::optional<Tensor>& change;
  const std::string& sum_group;  ///< of `shm_comm_init`; empty: no other rank holds a part of these layers
};

/// The call's arguments as the kernels take them.
struct DecoderCall {
  Decoder decoder;
  Half half;
};

/// Throws c10::ValueError, which names the argument.
DecoderCall make_decoder(const DecoderArguments& arguments);

/// A tensor without gaps, on the device of `first`.
void check_whole(const char* where, const char* name, const Tensor& tensor, const Tensor& first);

/// A weight [outputs, inputs], with scales and zeros where it is integer, on the device of `first`.
Matrix make_matrix(const char* where, const char* name, const Tensor& weight, const std::optional<Tensor>& scales,
                   const std::optional<Tensor>& zeros, const Tensor& first);

}  // namespace anyaccel::ops
