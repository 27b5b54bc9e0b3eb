// The klxpu backend: Kunlun chips, whose PyTorch port uses torch's CUDA device type.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::klxpu {

/// README.md describes the differences from the generic backend.
class KlxpuBackend final : public sdk::TorchBackend {
 public:
  KlxpuBackend();
};

}  // namespace anyaccel::backends::klxpu
