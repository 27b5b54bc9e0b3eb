// `anyaccel port`: runs the Python package anyaccel_port, which does not need torch.
#include "cli/front/front.h"
#include "cli/front/python_package.h"

namespace anyaccel::cli {

int run_port(std::span<const char* const> arguments) {
  // `--verify` runs this program again.
  run_python_package("port", "anyaccel_port", "ANYACCEL_PORT_PROGRAM", arguments);
}

}  // namespace anyaccel::cli
