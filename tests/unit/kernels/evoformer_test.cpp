// Compares attention with two biases, for all instruction sets and for double inputs, with a
// reference implementation in double precision, and checks for out-of-bounds writes.
#include "kernels/attention/evoformer.h"
#include "unit/kernels/evoformer_case.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;
using namespace op_tests::evoformer;

template <typename Head>
void place_head(Head& head, Case& c, std::int64_t b, std::int64_t n, std::int64_t h) {
  const int size = size_of(c.q.element());
  const auto at = [&](Array& array, std::int64_t i) {
    return static_cast<char*>(array.data()) + i * size;
  };
  head.q = at(c.q, c.row(b, n, c.queries, 0, h));
  head.k = at(c.k, c.row(b, n, c.keys, 0, h));
  head.v = at(c.v, c.row(b, n, c.keys, 0, h));
  head.bias1 = c.has1 ? at(c.bias1, c.place1(b, n)) : nullptr;
  head.bias2 = c.has2 ? at(c.bias2, c.place2(b, h)) : nullptr;
}

Outputs kernels(Isa isa, Case& c) {
  Outputs o(c);
  const Element element = c.q.element();
  const int size = size_of(element);
  const std::int64_t row = c.heads * c.dim;
  const auto at = [&](Array& array, std::int64_t i) {
    return static_cast<char*>(array.data()) + i * size;
  };
  Guarded<float> forward(evoformer_forward_scratch(c.keys, c.dim)),
      backward(evoformer_backward_scratch(c.keys, c.dim));
  Guarded<float> share(c.keys);
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t n = 0; n < c.entries; ++n)
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const std::int64_t q = c.row(b, n, c.queries, 0, h), k = c.row(b, n, c.keys, 0, h);
        EvoformerHead<float> head{};
        place_head(head, c, b, n, h);
        head.q_row = head.k_row = head.v_row = head.out_row = row;
        head.queries = c.queries;
        head.keys = c.keys;
        head.dim = c.dim;
        head.scale = static_cast<float>(c.scale);
        head.bias2_row = c.keys;
        head.out = at(o.out, q);
        head.lse = o.lse.data() + c.place_lse(b, n, h);
        // Computes the query tiles in reverse order.
        for (std::int64_t begin = (c.queries - 1) / evoformer_tile * evoformer_tile; begin >= 0;
             begin -= evoformer_tile)
          evoformer_forward(isa, element, head, begin, std::min(c.queries, begin + evoformer_tile),
                            forward.data());
        const EvoformerGrads<float> grads{
            .grad_out = at(c.grad, q),
            .grad_row = row,
            .dq = at(o.dq, q),
            .dk = at(o.dk, k),
            .dv = at(o.dv, k),
            .dq_row = row,
            .dk_row = row,
            .dv_row = row,
            .dbias1 = c.has1 ? share.data() : nullptr,
            .dbias2 = c.has2 ? o.dbias2.data() + c.place2(b, h) : nullptr};
        evoformer_backward(isa, element, head, grads, backward.data());
        for (std::int64_t i = 0; c.has1 && i < c.keys; ++i)
          o.shares.data()[c.place1(b, n) + i] += share.data()[i];
      }
  forward.expect_whole("forward's scratch");
  backward.expect_whole("backward's scratch");
  share.expect_whole("share");
  return o;
}

// Fails if a forward or backward result differs from the reference implementation. Detects skipped
// chunks, wrong biases, stale scratch memory, and rounding errors of a large log-sum-exp.
TEST(EvoformerAttention, KernelsAgreeWithPlainLoops) {
  Random random(71);
  for (int i = 0; i < 24; ++i) {
    Case c = random_case(random, static_cast<Element>(i % 3));
    for (const Isa isa : sets()) {
      if (isa == Isa::scalar && i % 4) continue;  // the scalar kernel is slow
      kernels(isa, c).compare(c, std::string(to_string(isa)) + " case " + std::to_string(i));
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

// Fails if doubles lose precision through conversion to float.
TEST(EvoformerAttention, DoublesKeepTheirPrecision) {
  Random random(73);
  WideCase wide(random);
  Case& c = wide.c;
  Guarded<double> scratch(std::max(evoformer_forward_scratch(c.keys, c.dim),
                                   evoformer_backward_scratch(c.keys, c.dim)));
  Guarded<double> share(c.keys);
  const std::int64_t row = c.heads * c.dim;
  for (std::int64_t head = 0; head < c.batch * c.entries * c.heads; ++head) {
    const std::int64_t b = head / (c.entries * c.heads), n = head / c.heads % c.entries,
                       h = head % c.heads;
    const std::int64_t at = c.row(b, n, c.queries, 0, h), key = c.row(b, n, c.keys, 0, h);
    const EvoformerHead<double> one{wide.q.data() + at,
                                    wide.k.data() + key,
                                    wide.v.data() + key,
                                    row,
                                    row,
                                    row,
                                    c.queries,
                                    c.keys,
                                    c.dim,
                                    c.scale,
                                    wide.bias1.data() + c.place1(b, n),
                                    wide.bias2.data() + c.place2(b, h),
                                    c.keys,
                                    wide.out.data() + at,
                                    row,
                                    wide.lse.data() + c.place_lse(b, n, h)};
    evoformer_forward(one, 0, c.queries, scratch.data());
    evoformer_backward(
        one,
        {wide.grad.data() + at, row, wide.dq.data() + at, wide.dk.data() + key,
         wide.dv.data() + key, row, row, row, share.data(), wide.dbias2.data() + c.place2(b, h)},
        scratch.data());
    for (std::int64_t i = 0; i < c.keys; ++i)
      wide.dbias1.data()[c.place1(b, n) + i] += share.data()[i];
  }
  wide.compare();
}

}  // namespace
