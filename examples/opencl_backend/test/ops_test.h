// Declarations that the files of ops_test share.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Add =
    std::function<void(std::string, Tensors, std::function<Tensors(const Tensors&)>, double)>;

/// A reproducible tensor on the host with values from -2 to 2.
Tensor values(at::IntArrayRef sizes, at::ScalarType type = at::kFloat);
Tensor labels(std::int64_t count, std::int64_t classes);

/// Adds ops whose `out=` has another size, which torch resizes, and arguments that do not fit.
void add_out_tests(const Add& add);
