// Tensors of a decoder as the kernels see them, checked: whatever is given, nothing outside of a tensor is read or written. All of them lie
// on one device, whatever that is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ATen/core/List.h"
#include "ATen/core/Tensor.h"
#include "ops/shared/host_tensors.h"
#include "kernels/decoder/decoder.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensors = c10::List<std::optional<Tensor>>;

/// What a decoder is made of; `decoder` looks into these tensors.
struct DecoderGiven {
  const Tensor& x;
  const OptionalTensors& weights;
  at::TensorList keys, values;  ///< of the first segment's layers, then of the second one's, ...
  at::TensorList angles;
  at::IntArrayRef past, rows;  ///< of each segment
  at::IntArrayRef sizes, windows;
  at::ArrayRef<double> numbers;
  const std::optional<Tensor>& logits;
  const std::optional<Tensor>& change;
  std::int64_t half;
  const std::string& sum_group;  ///< of `shm_comm_init`; empty: this rank's parts are all
  std::int64_t sums;
};

/// Throws c10::ValueError naming what does not fit.
Decoder make_decoder(const DecoderGiven& given);

/// A tensor without gaps, on the device of `first`.
void check_whole(const char* where, const char* name, const Tensor& tensor, const Tensor& first);

/// A weight [outputs, inputs], with scales and zeros where it is integer, on the device of `first`.
Matrix make_matrix(const char* where, const char* name, const Tensor& weight, const std::optional<Tensor>& scales,
                   const std::optional<Tensor>& zeros, const Tensor& first);

}  // namespace anyaccel::ops
