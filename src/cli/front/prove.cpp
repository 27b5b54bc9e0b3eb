// `anyaccel prove`: runs the Python package anyaccel_prove, whose programs need torch.
#include "cli/front/front.h"
#include "cli/front/python_package.h"

namespace anyaccel::cli {

int run_prove(std::span<const char* const> arguments) {
  // The report runs the conformance kit, training and generation with this program.
  run_python_package("prove", "anyaccel_prove", "ANYACCEL_PROVE_PROGRAM", arguments);
}

}  // namespace anyaccel::cli
