// Softmax cross-entropy of logits with its gradient, on plain arrays. Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

/// Rows of logits and their labels. Arithmetic is in `Real`; losses are summed in double.
template <typename S>
struct CrossEntropy {
  using Real = typename RealOf<S>::type;
  std::int64_t vocab;
  S* logits;                   ///< [row][vocab]
  const std::int64_t* labels;  ///< [row], in [0, vocab)
  Real softcap;                ///< replaces z by softcap * tanh(z / softcap); 0: no cap
  Real factor;                 ///< factor for the gradient
  bool gradient;               ///< replace the logits by the gradient
  double* losses;              ///< [row]: log(sum(exp(z))) - z[label]
};

/// Processes the rows [begin, end). May run concurrently on different rows.
template <typename S>
void cross_entropy_rows(Isa isa, const CrossEntropy<S>& pass, std::int64_t begin,
                        std::int64_t end) noexcept;

}  // namespace anyaccel::ops
