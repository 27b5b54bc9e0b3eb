// Replay routines for frequent ops that skip dispatch, boxing and shape checks.
#pragma once

#include <string>

#include "backends/cpu/graph/step.h"

namespace anyaccel::backends::cpu {

/// Makes the routine of one call: `args` as on the op's stack (an out= overload's outputs are
/// ignored), `outputs` what it writes, with their final geometry. Null when the call is not of the
/// plain kind that it handles.
using FastMaker = std::unique_ptr<Step> (*)(c10::ArrayRef<c10::IValue> args,
                                            c10::ArrayRef<at::Tensor> outputs);

/// Ops that share a routine: a functional op with its in-place and out= forms.
struct FastOp {
  const char* names;  ///< "name.overload" without "aten::", separated by spaces
  FastMaker make;
};

/// The maker for op `name` ("aten::add.Tensor"), or null. Whether a step gives the op's bits is the
/// caller's to find out by one run.
FastMaker find_fast_maker(const std::string& name);

/// @name The tables
/// @{
c10::ArrayRef<FastOp> unary_ops();
c10::ArrayRef<FastOp> binary_ops();
c10::ArrayRef<FastOp> reduction_ops();
c10::ArrayRef<FastOp> matrix_ops();
c10::ArrayRef<FastOp> memory_ops();
/// @}

}  // namespace anyaccel::backends::cpu
