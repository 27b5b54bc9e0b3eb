// The operator of reductions between ranks.
#pragma once

namespace anyaccel {

/// As torch.distributed.ReduceOp. `avg` requires a floating-point dtype.
enum class ReduceOp { sum, avg, product, min, max };

}  // namespace anyaccel
