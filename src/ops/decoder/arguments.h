// Validates the arguments of inference_decode and converts them for the kernels. The checks ensure
// that the kernels cannot access memory outside of the tensors. All tensors must be on the same
// device, which may be of any type.
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

/// The op's arguments. A decoder created from them points into these tensors.
struct DecoderArguments {
  const Tensor& x;
  const OptionalTensors& weights;
  at::TensorList keys, values;  ///< one per segment and layer, grouped by segment
  at::TensorList angles;
  at::IntArrayRef past, rows;  ///< one per segment
  at::IntArrayRef config;      ///< result of pack_decoder_config()
  const std::optional<Tensor>& logits;
  const std::optional<Tensor>& change;
  const std::string& sum_group;  ///< name of a group from `shm_comm_init`; empty: no all-reduce
};

/// The arguments in the form that the kernels take.
struct DecoderCall {
  Decoder decoder;
  Half half;
};

/// Throws c10::ValueError, which names the argument, if an argument is invalid.
DecoderCall make_decoder(const DecoderArguments& arguments);

inline bool is_given(const std::optional<Tensor>& tensor) { return tensor && tensor->defined(); }

/// The format of a matrix with floating-point elements.
Format format_of(Element element);

/// Throws c10::ValueError unless the tensor is contiguous and on the device of `first`.
void check_whole(const char* where, const char* name, const Tensor& tensor, const Tensor& first);

/// Converts a weight [outputs, inputs], which must be on the device of `first`, to a Matrix.
/// Quantized weights have scales, and may have zero points.
Matrix make_matrix(const char* where, const char* name, const Tensor& weight,
                   const std::optional<Tensor>& scales, const std::optional<Tensor>& zeros,
                   const Tensor& first);

}  // namespace anyaccel::ops
