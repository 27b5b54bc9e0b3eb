// A correct backend with one defect, chosen by the variable MUTANT. mutants.md lists the defects.
#pragma once

#include <string>
#include <vector>

namespace anyaccel::test {

/// Registers the backend "mutant". It forwards to the backend that MUTANT_OF names (default: "cpu")
/// and has the defect that MUTANT names when the backend is chosen. Without a defect it is as
/// correct as that backend.
void register_mutant();

/// The names of all defects.
std::vector<std::string> mutant_defects();

}  // namespace anyaccel::test
