#include "backends/mlu/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::mlu {

void register_backend();

void register_backend() {
  sdk::register_vendor_backend(traits(), {"ANYACCEL_MLU_LIBRARY", "libtorch_mlu.so", "torch.mlu"});
}

}  // namespace anyaccel::backends::mlu
