// The mutant's wrappers around events, graphs, generators, op builders and kernels.
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <string>

#include "anyaccel/sdk/backend.h"

namespace anyaccel::test {

std::shared_ptr<sdk::EventImpl> mutant_event(std::shared_ptr<sdk::EventImpl> inner,
                                             const std::string& defect);
std::shared_ptr<sdk::GraphImpl> mutant_graph(std::shared_ptr<sdk::GraphImpl> inner,
                                             const std::string& defect);
at::Generator mutant_generator(at::Generator inner, const std::string& defect);
/// Returns null if the defect does not affect op builders.
std::shared_ptr<sdk::OpBuilder> mutant_builder(const std::string& class_name,
                                               const std::string& defect);
/// Wraps a builder so that loading its op a second time in this process fails.
std::shared_ptr<sdk::OpBuilder> builder_that_loads_once(std::shared_ptr<sdk::OpBuilder> inner);
/// Applies a defect to code that torch calls directly: the device guard and the kernels of the
/// simulated device. No-op for other defects.
void break_device(const std::string& defect, c10::DeviceType type);
/// Replaces a CPU kernel with a defective one.
void break_kernel(const std::string& defect);

}  // namespace anyaccel::test
