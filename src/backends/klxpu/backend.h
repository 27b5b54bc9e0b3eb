// The klxpu backend: Kunlun chips, whose software runs torch's CUDA device type.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::klxpu {

/// README.md describes the differences from the generic backend.
class KlxpuBackend final : public sdk::TorchBackend {
 public:
  KlxpuBackend();
};

}  // namespace anyaccel::backends::klxpu
