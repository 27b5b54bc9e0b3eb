// Wraps a correct backend and adds the defect that the environment variable MUTANT selects.
// mutants.md lists the defects.
#pragma once

#include <string>
#include <vector>

namespace anyaccel::test {

/// Registers the backend "mutant". It forwards to the backend that MUTANT_OF names (default:
/// "cpu"), with the defect that MUTANT names. If MUTANT is empty, it has no defect. MUTANT is read
/// when the backend is created.
void register_mutant();

/// Returns the names of all defects.
std::vector<std::string> mutant_defects();

}  // namespace anyaccel::test
