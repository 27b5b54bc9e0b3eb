// A correct backend with one defect, chosen by the variable MUTANT; mutants.md lists them.
#pragma once

#include <string>
#include <vector>

namespace anyaccel::test {

/// Registers the backend "mutant". It forwards to the backend that MUTANT_OF names (default: "cpu") and has the defect that
/// MUTANT names when it is chosen; none: it is as good as that backend.
void register_mutant();

/// All defects that it knows.
std::vector<std::string> mutant_defects();

}  // namespace anyaccel::test
