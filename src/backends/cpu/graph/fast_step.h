// Replay routines for frequent ops. They skip dispatch, boxing and shape checks.
#pragma once

#include <string>

#include "backends/cpu/graph/step.h"

namespace anyaccel::backends::cpu {

/// Creates the replay routine for one call. `args` are the arguments on the op's stack (the outputs
/// of an out= overload are ignored); `outputs` are the tensors that the call writes, with their
/// final sizes and strides. Returns null if the routine does not support the call.
using FastMaker = std::unique_ptr<Step> (*)(c10::ArrayRef<c10::IValue> args,
                                            c10::ArrayRef<at::Tensor> outputs);

/// Ops that share a routine: a functional op with its in-place and out= forms.
struct FastOp {
  const char* names;  ///< space-separated list of "name.overload", without "aten::"
  FastMaker make;
};

/// The FastMaker for op `name` ("aten::add.Tensor"), or null. The caller must run the step once and
/// check that its results are bitwise equal to the op's.
FastMaker find_fast_maker(const std::string& name);

/// @name Tables of fast ops
/// @{
c10::ArrayRef<FastOp> unary_ops();
c10::ArrayRef<FastOp> binary_ops();
c10::ArrayRef<FastOp> reduction_ops();
c10::ArrayRef<FastOp> matrix_ops();
c10::ArrayRef<FastOp> memory_ops();
/// @}

}  // namespace anyaccel::backends::cpu
