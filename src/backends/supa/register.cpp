#include "backends/supa/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::supa {

void register_backend();

void register_backend() {
  sdk::register_vendor_backend(traits(), {"ANYACCEL_SUPA_LIBRARY", "libtorch_supa.so"});
}

}  // namespace anyaccel::backends::supa
