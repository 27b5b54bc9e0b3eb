// What the mutant puts around the handles of the backend below: events, graphs, generators, builders, kernels.
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <string>

#include "anyaccel/sdk/backend.h"

namespace anyaccel::test {

std::shared_ptr<sdk::EventImpl> mutant_event(std::shared_ptr<sdk::EventImpl> inner, const std::string& defect);
std::shared_ptr<sdk::GraphImpl> mutant_graph(std::shared_ptr<sdk::GraphImpl> inner, const std::string& defect);
at::Generator mutant_generator(at::Generator inner, const std::string& defect);
/// Null when the defect is not about builders.
std::shared_ptr<sdk::OpBuilder> mutant_builder(const std::string& class_name, const std::string& defect);
/// Puts a wrong kernel in the place of one of the CPU's.
void break_kernel(const std::string& defect);

}  // namespace anyaccel::test
