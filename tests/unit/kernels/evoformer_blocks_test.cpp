// Runs the CUDA thread blocks of attention with two biases on the host, compares the results with a
// reference implementation in double precision, and checks for out-of-bounds writes.
#include "kernels/attention/evoformer_blocks.h"
#include "unit/kernels/device_elements.h"
#include "unit/kernels/evoformer_case.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;
using namespace op_tests::evoformer;

using Lanes = HostLanes<evoformer_lanes>;

template <typename Real>
EvoformerLaunch<Real> launch_of(Case& c) {
  EvoformerLaunch<Real> out{};
  const auto array = [&](Array& values, std::int64_t length) {
    return EvoformerArray<const void*>{values.data(), c.entries * length * c.heads * c.dim,
                                       length * c.heads * c.dim, c.heads * c.dim, c.dim};
  };
  out.q = array(c.q, c.queries);
  out.k = array(c.k, c.keys);
  out.v = array(c.v, c.keys);
  out.grad = array(c.grad, c.queries);
  if (c.has1) out.bias1 = {c.bias1.data(), c.entries * c.keys, c.keys, 0, 0};
  if (c.has2)
    out.bias2 = {c.bias2.data(), c.heads * c.queries * c.keys, 0, c.keys, c.queries * c.keys};
  out.batch = c.batch;
  out.entries = c.entries;
  out.queries = c.queries;
  out.keys = c.keys;
  out.heads = c.heads;
  out.dim = c.dim;
  out.scale = static_cast<Real>(c.scale);
  return out;
}

/// Runs the launches of evoformer.cu, starting with the last block.
template <typename T>
Outputs device(Case& c, bool backwards) {
  Outputs o(c);
  EvoformerLaunch<float> launch = launch_of<float>(c);
  const auto like = [](const EvoformerArray<const void*>& array, Array& to) {
    return EvoformerArray<void*>{to.data(), array.batch, array.entry, array.row, array.head};
  };
  launch.out = like(launch.q, o.out);
  launch.dq = like(launch.q, o.dq);
  launch.dk = like(launch.k, o.dk);
  launch.dv = like(launch.k, o.dv);
  launch.lse = {o.lse.data(), c.entries * c.heads * c.queries, c.heads * c.queries, 1, c.queries};
  launch.dbias1 = c.has1 ? o.shares.data() : nullptr;
  launch.dbias2 = c.has2 ? o.dbias2.data() : nullptr;
  Guarded<float> rows(3 * launch.all_heads() * c.queries), shared(evoformer_shared(c.dim));
  launch.rows = rows.data();
  const Lanes each{backwards};
  const auto run = [&](std::int64_t length, const auto& step) {
    const std::int64_t tiles = evoformer_tiles(length);
    for (std::int64_t task = launch.all_heads() * tiles; task-- > 0;)
      step(EvoformerBlock<T, float, Lanes>(launch, each, task, tiles, shared.data()));
  };
  run(c.queries, [](const auto& block) { block.forward(); });
  run(c.queries, [](const auto& block) { block.prepare(); });
  run(c.queries, [](const auto& block) { block.backward_queries(); });
  run(c.keys, [](const auto& block) { block.backward_keys(); });
  rows.expect_whole("rows");
  shared.expect_whole("shared memory");
  return o;
}

// Fails if a forward or backward result differs from the reference implementation. Detects skipped
// tiles, wrong biases, missing barriers and stale or insufficient shared memory.
TEST(EvoformerBlocks, AgreeWithPlainLoops) {
  Random random(72);
  for (int i = 0; i < 18; ++i) {
    Case c = random_case(random, static_cast<Element>(i % 3));
    with_device_type(c.q.element(), [&](auto t) {
      device<decltype(t)>(c, i % 2).compare(c, "device, case " + std::to_string(i));
    });
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Fails if doubles lose precision through conversion to float.
TEST(EvoformerBlocks, DoublesKeepTheirPrecision) {
  Random random(73);
  WideCase wide(random);
  Case& c = wide.c;
  EvoformerLaunch<double> launch = launch_of<double>(c);
  launch.q.at = wide.q.data();
  launch.k.at = wide.k.data();
  launch.v.at = wide.v.data();
  launch.grad.at = wide.grad.data();
  launch.bias1.at = wide.bias1.data();
  launch.bias2.at = wide.bias2.data();
  const auto like = [](const EvoformerArray<const void*>& array, double* to) {
    return EvoformerArray<void*>{to, array.batch, array.entry, array.row, array.head};
  };
  launch.out = like(launch.q, wide.out.data());
  launch.dq = like(launch.q, wide.dq.data());
  launch.dk = like(launch.k, wide.dk.data());
  launch.dv = like(launch.k, wide.dv.data());
  launch.lse = {wide.lse.data(), c.entries * c.heads * c.queries, c.heads * c.queries, 1,
                c.queries};
  launch.dbias1 = wide.dbias1.data();
  launch.dbias2 = wide.dbias2.data();
  Guarded<double> rows(3 * launch.all_heads() * c.queries), shared(evoformer_shared(c.dim));
  launch.rows = rows.data();
  const Lanes each{false};
  for (int step = 0; step < 4; ++step) {
    const std::int64_t tiles = evoformer_tiles(step == 3 ? c.keys : c.queries);
    for (std::int64_t task = 0; task < launch.all_heads() * tiles; ++task) {
      const EvoformerBlock<double, double, Lanes> block(launch, each, task, tiles, shared.data());
      if (step == 0) block.forward();
      if (step == 1) block.prepare();
      if (step == 2) block.backward_queries();
      if (step == 3) block.backward_keys();
    }
  }
  wide.compare();
}

}  // namespace
