// Norms, activations, biases and dropout for rows, in float and double.
#if defined(ANYACCEL_TRANSFORMER_ROWS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRANSFORMER_ROWS_ISA_H)
#undef ANYACCEL_TRANSFORMER_ROWS_ISA_H
#else
#define ANYACCEL_TRANSFORMER_ROWS_ISA_H
#endif

#include "kernels/simd/gelu_isa.h"
#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/transformer/dropout.h"
#include "kernels/transformer/rows.h"

ANYACCEL_ISA_BEGIN
namespace {

/// Applies dropout to a row. values[i] is the element in column i.
template <typename Value>
inline void drop_row(const Dropout& dropout, std::int64_t row, std::int64_t columns,
                     Value* values) {
  const std::uint64_t key = draws::row_key(dropout, row);
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t threshold = dropout.threshold;
  const auto scale = static_cast<Value>(dropout.scale);
  for (std::int64_t i = 0; i < columns; ++i) {
    const Value factor =
        draws::drawn(low, high, static_cast<std::uint32_t>(i)) >= threshold ? scale : 0;
    const Value value = values[i] * scale;
    values[i] = factor != 0 ? value : 0;
  }
}

/// Returns `a` with all elements after the first n set to 0.
inline Vec first_of(Vec a, std::int64_t n) {
  if (n >= Vec::width) return a;
  Real parts[Vec::width];
  a.store(parts);
  for (std::int64_t i = n; i < Vec::width; ++i) parts[i] = 0;
  return Vec::load(parts);
}

inline void add_to(Real* to, Vec a, std::int64_t n) { store_some(load_some(to, n) + a, to, n); }

inline Real inverse_root(Real x) {
#if ANYACCEL_DOUBLE
  return 1 / __builtin_sqrt(x);
#else
  return 1 / __builtin_sqrtf(x);
#endif
}

}  // namespace

template <typename S>
void add_norm(const AddNorm<S>& pass, std::int64_t begin, std::int64_t end, Real* row_of) {
  const std::int64_t columns = pass.columns;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * columns;
    Vec sum = Vec::of(0);
    if (pass.product && pass.dropout.threshold) {
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        store_some(load_some(pass.product + at + i, n) + load_some(pass.bias + i, n), row_of + i,
                   n);
      });
      drop_row(pass.dropout, row, columns, row_of);
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        const Vec r = load_some(row_of + i, n) + load_some(pass.residual + at + i, n);
        sum = sum + r;
        store_some(r, row_of + i, n);
      });
    } else {
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        Vec r = load_some(pass.residual + at + i, n);
        if (pass.product)
          r = r + (load_some(pass.product + at + i, n) + load_some(pass.bias + i, n));
        sum = sum + r;
        store_some(r, row_of + i, n);
      });
    }
    if (pass.sum)
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        store_some(load_some(row_of + i, n), pass.sum + at + i, n);
      });
    if (!pass.out) continue;
    const Real mean = total(sum) / static_cast<Real>(columns);
    const Vec shift = Vec::of(-mean);
    Vec squares = Vec::of(0);
    each_vector(columns, [&](std::int64_t i, std::int64_t n) {
      const Vec away = first_of(load_some(row_of + i, n) + shift, n);
      squares = Vec::fma(away, away, squares);
    });
    const Real rstd = inverse_root(total(squares) / static_cast<Real>(columns) + pass.eps);
    each_vector(columns, [&](std::int64_t i, std::int64_t n) {
      const Vec normal = (load_some(row_of + i, n) + shift) * Vec::of(rstd);
      store_some(Vec::fma(normal, load_some(pass.weight + i, n), load_some(pass.shift + i, n)),
                 pass.out + at + i, n);
    });
    if (pass.stats) {
      pass.stats[2 * row] = mean;
      pass.stats[2 * row + 1] = rstd;
    }
  }
}

template <typename S>
void norm_grad(const NormGrad<S>& pass, std::int64_t begin, std::int64_t end, Real* sums,
               Real* row_of) {
  const std::int64_t columns = pass.columns;
  const Real share = columns ? 1 / static_cast<Real>(columns) : 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * columns;
    if (!pass.weight) {
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        store_some(load_some(pass.grad + at + i, n), row_of + i, n);
      });
    } else {
      const Vec mean = Vec::of(-pass.stats[2 * row]);
      const Vec rstd = Vec::of(pass.stats[2 * row + 1]);
      const auto normal_at = [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        if (pass.sum) return first_of((load_some(pass.sum + at + i, n) + mean) * rstd, n);
        const Vec from =
            load_some(pass.out + at + i, n) + load_some(pass.shift + i, n) * Vec::of(-1);
        return first_of(from / load_some(pass.weight + i, n), n);
      };
      Vec straight = Vec::of(0), along = Vec::of(0);
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        const Vec grad = load_some(pass.grad + at + i, n);
        const Vec normal = normal_at(i, n);
        const Vec scaled = grad * load_some(pass.weight + i, n);
        straight = straight + scaled;
        along = Vec::fma(scaled, normal, along);
        add_to(sums + i, grad * normal, n);
        add_to(sums + columns + i, grad, n);
      });
      const Vec level = Vec::of(-total(straight) * share);
      const Vec tilt = Vec::of(-total(along) * share);
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        const Vec scaled = load_some(pass.grad + at + i, n) * load_some(pass.weight + i, n);
        Vec grad = Vec::fma(normal_at(i, n), tilt, scaled + level) * rstd;
        if (pass.plus) grad = grad + load_some(pass.plus + at + i, n);
        store_some(grad, row_of + i, n);
      });
    }
    if (pass.grad_sum)
      each_vector(columns, [&](std::int64_t i, std::int64_t n) {
        store_some(load_some(row_of + i, n), pass.grad_sum + at + i, n);
      });
    if (pass.dropout.threshold) drop_row(pass.dropout, row, columns, row_of);
    each_vector(columns, [&](std::int64_t i, std::int64_t n) {
      const Vec grad = load_some(row_of + i, n);
      if (pass.grad_product) store_some(grad, pass.grad_product + at + i, n);
      add_to(sums + 2 * columns + i, grad, n);
    });
  }
}

template <typename S>
void gelu(const Gelu<S>& pass, std::int64_t begin, std::int64_t end) {
  const bool tanh = pass.tanh;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * pass.columns;
    each_vector(pass.columns, [&](std::int64_t i, std::int64_t n) {
      store_some(gelu_of(load_some(pass.from + at + i, n) + load_some(pass.bias + i, n), tanh),
                 pass.to + at + i, n);
    });
  }
}

template <typename S>
void gelu_grad(const Gelu<S>& pass, S* grad, std::int64_t begin, std::int64_t end, Real* sums) {
  const bool tanh = pass.tanh;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * pass.columns;
    each_vector(pass.columns, [&](std::int64_t i, std::int64_t n) {
      Vec value, slope;
      gelu_of(load_some(pass.from + at + i, n) + load_some(pass.bias + i, n), tanh, &value, &slope);
      const Vec out = load_some(grad + at + i, n) * slope;
      store_some(out, grad + at + i, n);
      add_to(sums + i, out, n);
    });
  }
}

template <typename S>
void add_bias(S* rows, const S* bias, std::int64_t columns, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row)
    each_vector(columns, [&](std::int64_t i, std::int64_t n) {
      S* const at = rows + row * columns + i;
      store_some(load_some(at, n) + load_some(bias + i, n), at, n);
    });
}

template <typename S>
void column_sums(const S* rows, std::int64_t columns, std::int64_t begin, std::int64_t end,
                 Real* sums) {
  for (std::int64_t row = begin; row < end; ++row)
    each_vector(columns, [&](std::int64_t i, std::int64_t n) {
      add_to(sums + i, load_some(rows + row * columns + i, n), n);
    });
}

template <typename S>
void widen(const S* from, std::int64_t count, Real* to) {
  each_vector(count, [&](std::int64_t i, std::int64_t n) {
    store_some(load_some(from + i, n), to + i, n);
  });
}

template <typename S>
void narrow(const Real* from, std::int64_t count, S* to) {
  each_vector(count, [&](std::int64_t i, std::int64_t n) {
    store_some(load_some(from + i, n), to + i, n);
  });
}

ANYACCEL_ISA_END
#endif
