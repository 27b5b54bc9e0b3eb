#include "backends/sdaa/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::sdaa {

void register_backend();

void register_backend() {
  sdk::register_vendor_backend(traits(),
                               {"ANYACCEL_SDAA_LIBRARY", "libtorch_sdaa.so", "torch.sdaa"});
}

}  // namespace anyaccel::backends::sdaa
