#include "backends/supa/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::supa {

void register_backend();

void register_backend() {
  sdk::register_vendor_backend(traits(),
                               {.variable = "ANYACCEL_SUPA_LIBRARY",
                                .file_name = "libtorch_supa.so",
                                .python_module = "torch.supa",
                                // SUPAGuardImpl::getDefaultStream returns the current stream.
                                .default_stream = false});
}

}  // namespace anyaccel::backends::supa
