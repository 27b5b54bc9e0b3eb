// Suite "dtypes": declared types work. Also covers mixed precision.
#include <ATen/autocast_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/real.h>

#include <cmath>
#include <limits>

#include "support.h"

namespace anyaccel::conformance {

namespace {

using c10::ScalarType;

std::string name_of(ScalarType type) { return dtype_name(type); }

/// Returns small integers, which every dtype represents exactly. For bool, they are 0 and 1.
at::Tensor small_numbers(ScalarType type) {
  const auto numbers = host_sequence(16).remainder(type == c10::kBool ? 2 : 3);
  // float8_e8m0fnu has neither zero nor a sign, so powers of two are used.
  if (type == ScalarType::Float8_e8m0fnu) return numbers.exp2();
  return numbers;
}

/// True for dtypes whose arithmetic results the cases can check.
bool complex_or_float_or_int(ScalarType type) {
  return c10::isFloatingType(type) || c10::isIntegralType(type, /*includeBool=*/false) ||
         c10::isComplexType(type);
}

void expect_same(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  const auto host = got.to(c10::kCPU);
  const auto plain = c10::isComplexType(host.scalar_type()) ? at::real(host) : host;
  expect(plain.to(c10::kFloat).equal(want.to(c10::kFloat)), what + " gives wrong values");
}

void expect_stored(const Accelerator& accelerator, ScalarType type) {
  const auto what = "storing " + name_of(type);
  const auto host = small_numbers(type);
  const auto there = to_device(accelerator, host.to(type));
  expect_equal(there.scalar_type(), type, what + " changes the type");
  expect_same(there.clone(), host, what);
  expect_same(to_device(accelerator, host).to(type), host, "converting to " + name_of(type));
}

void expect_computed(const Accelerator& accelerator, ScalarType type) {
  const auto what = "computing in " + name_of(type);
  const auto host = small_numbers(type);
  const auto x = to_device(accelerator, host.to(type));
  expect_same(x.add(x), host.add(host), what + ": add");
  expect_same(x.mul(x), host.mul(host), what + ": mul");
  const auto matrix = host.reshape({4, 4});
  expect_same(at::matmul(x.reshape({4, 4}), x.reshape({4, 4})), at::matmul(matrix, matrix),
              what + ": matmul");
}

/// Returns false if `body` throws.
bool works(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(dtypes, float32_works, required) {
  const auto support = accelerator.dtype_support(c10::kFloat);
  expect(support.storable && support.computable, "float32 is not computable");
  expect_equal(first(filled(accelerator, 1.5).mul(3)), 4.5, "1.5 * 3 in float32");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, table_is_consistent, required) {
  for (const auto& [type, support] : accelerator.dtype_table()) {
    expect(support.storable || !support.computable,
           name_of(type) + " is computable but not storable");
    expect(support.computable || !support.fast, name_of(type) + " is fast but not computable");
    expect(support.storable || !support.reducible,
           name_of(type) + " is reducible but not storable");
  }
}

ANYACCEL_CONFORMANCE_CASE(dtypes, table_is_stable, required) {
  const auto a = accelerator.dtype_table(), b = accelerator.dtype_table();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto &x = a[i].support, &y = b[i].support;
    expect(x.storable == y.storable && x.computable == y.computable && x.fast == y.fast &&
               x.reducible == y.reducible,
           "support for " + name_of(a[i].dtype) + " differs between two calls");
  }
}

ANYACCEL_CONFORMANCE_CASE(dtypes, every_device_answers, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i)
    expect(accelerator.dtype_support(c10::kFloat, i).computable,
           "float32 is not computable on device " + std::to_string(i));
}

ANYACCEL_CONFORMANCE_CASE(dtypes, storable_types_store, required) {
  for (const auto& [type, support] : accelerator.dtype_table()) {
    if (!support.storable) continue;
    try {
      expect_stored(accelerator, type);
    } catch (const c10::Error& error) {
      fail("storing " + name_of(type) +
           " is declared as supported but rejected: " + error.what_without_backtrace());
    }
  }
}

ANYACCEL_CONFORMANCE_CASE(dtypes, computable_types_compute, required) {
  for (const auto& [type, support] : accelerator.dtype_table()) {
    if (!support.computable) continue;
    expect(complex_or_float_or_int(type),
           name_of(type) + " is declared computable but is not an arithmetic type");
    try {
      expect_computed(accelerator, type);
    } catch (const c10::Error& error) {
      fail("computing in " + name_of(type) +
           " is declared as supported but rejected: " + error.what_without_backtrace());
    }
  }
}

// If a dtype works but is not declared, a program that consults dtype_support() selects a different
// dtype or refuses to run. Only bf16, int32 and int64 are checked, because a device may decline to
// support other dtypes although tensors of these dtypes can be created.
ANYACCEL_CONFORMANCE_CASE(dtypes, types_that_work_are_declared, required) {
  for (const auto type : {c10::kBFloat16, c10::kInt, c10::kLong}) {
    const auto support = accelerator.dtype_support(type);
    if (!support.storable && works([&] { expect_stored(accelerator, type); }))
      fail(name_of(type) + " is declared not storable, but storing it works");
    if (support.storable && !support.computable &&
        works([&] { expect_computed(accelerator, type); }))
      fail(name_of(type) + " is declared not computable, but add, mul and matmul work");
  }
}

ANYACCEL_CONFORMANCE_CASE(dtypes, supported_dtypes_are_computable, required) {
  bool has_float = false;
  for (const auto type : accelerator.supported_dtypes()) {
    expect(accelerator.dtype_support(type).computable,
           name_of(type) + " is supported but not computable");
    has_float = has_float || type == c10::kFloat;
  }
  expect(has_float, "supported_dtypes() lacks float32");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, half_precision_answers_agree_with_the_table, required) {
  expect_equal(accelerator.is_bf16_supported(),
               accelerator.dtype_support(c10::kBFloat16).computable, "is_bf16_supported()");
  if (accelerator.is_fp16_supported())
    expect(accelerator.dtype_support(c10::kHalf).computable,
           "is_fp16_supported() is true, but float16 is not computable");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, fp64_agrees_with_the_table, required) {
  const auto table =
      accelerator.backend().dtype_support(accelerator.current_device(), c10::kDouble);
  expect_equal(accelerator.is_fp64_supported(), table.computable,
               "is_fp64_supported() compared with the backend's own table");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, factories_make_the_type_they_name, required) {
  const auto check = [&](ScalarType type, const std::function<at::Tensor()>& make) {
    if (!accelerator.dtype_support(type).storable) return;
    const auto tensor = make();
    expect_equal(tensor.scalar_type(), type, "the dtype of a factory's tensor");
    expect(accelerator.on_accelerator(tensor),
           "the tensor created by the factory for " + name_of(type) + " is not on the accelerator");
    expect(tensor.dim() == 1 && tensor.numel() == 2 && values(tensor) == std::vector<double>{1, 2},
           "wrong values from the factory for " + name_of(type));
  };
  const std::vector<double> real{1, 2};
  const std::vector<std::int64_t> whole{1, 2};
  check(c10::kBFloat16, [&] { return accelerator.BFloat16Tensor(real); });
  check(c10::kByte, [&] { return accelerator.ByteTensor(whole); });
  check(c10::kFloat, [&] { return accelerator.FloatTensor(real); });
  check(c10::kHalf, [&] { return accelerator.HalfTensor(real); });
  check(c10::kInt, [&] { return accelerator.IntTensor(whole); });
  check(c10::kLong, [&] { return accelerator.LongTensor(whole); });
  if (accelerator.is_fp64_supported())
    check(c10::kDouble, [&] { return accelerator.DoubleTensor(real); });
  else
    expect_error(
        ErrorCode::unsupported, [&] { accelerator.DoubleTensor(real); },
        "DoubleTensor without double precision");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, conversions_round_as_the_hosts_do, required) {
  // These values include midpoints between adjacent bf16 and fp16 values, where the rounding mode
  // matters.
  const auto host = host_sequence(4096).mul(0.000244140625).add(1);
  for (const auto type : {c10::kBFloat16, c10::kHalf}) {
    if (!accelerator.dtype_support(type).storable) continue;
    const auto there = to_device(accelerator, host).to(type).to(c10::kCPU);
    expect(there.equal(host.to(type)),
           "float32 to " + name_of(type) + " rounds differently than on the host");
  }
}

ANYACCEL_CONFORMANCE_CASE(dtypes, infinities_and_nan_survive, required) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto type : {c10::kFloat, c10::kBFloat16, c10::kHalf, c10::kDouble}) {
    if (!accelerator.dtype_support(type).computable) continue;
    expect_equal(first(filled(accelerator, kInfinity, 1, type).add(1)), kInfinity,
                 "infinity + 1 in " + name_of(type));
    expect_equal(first(filled(accelerator, -kInfinity, 1, type)), -kInfinity,
                 "-infinity in " + name_of(type));
    expect(std::isnan(first(filled(accelerator, kInfinity, 1, type).sub(kInfinity))),
           "infinity - infinity in " + name_of(type) + " is not NaN");
  }
}

ANYACCEL_CONFORMANCE_CASE(dtypes, long_integers_are_whole, required) {
  if (!accelerator.dtype_support(c10::kLong).computable) skip("int64 is not computable");
  constexpr std::int64_t kNumber = (std::int64_t{1} << 53) + 1;
  const auto tensor = accelerator.LongTensor({kNumber}).add(2);
  expect_equal(tensor.item<std::int64_t>(), kNumber + 2, "2^53 + 1 + 2 in int64");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, autocast_casts_matrix_products, recommended) {
  bool any = false;
  for (const auto type : {c10::kBFloat16, c10::kHalf}) {
    if (!accelerator.dtype_support(type).computable) continue;
    any = true;
    const auto x = filled(accelerator, 1, 16).reshape({4, 4});
    const auto scope = accelerator.autocast(type);
    expect_equal(at::matmul(x, x).scalar_type(), type, "the type of a product under autocast");
  }
  if (!any) skip("neither bfloat16 nor float16 is computable");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, autocast_ends_with_its_scope, required) {
  const auto x = filled(accelerator, 1, 16).reshape({4, 4});
  if (accelerator.is_bf16_supported()) const auto scope = accelerator.autocast(c10::kBFloat16);
  expect(!at::autocast::is_autocast_enabled(accelerator.device_type()),
         "autocast is enabled after its scope");
  expect_equal(at::matmul(x, x).scalar_type(), c10::kFloat, "the type of a product after autocast");
}

ANYACCEL_CONFORMANCE_CASE(dtypes, autocast_to_a_type_that_cannot_compute_is_refused, required) {
  for (const auto type : {c10::kHalf, c10::kBFloat16, ScalarType::Float8_e4m3fn}) {
    if (accelerator.dtype_support(type).computable) continue;
    expect_error(
        ErrorCode::unsupported, [&] { static_cast<void>(accelerator.autocast(type)); },
        "autocast to " + name_of(type));
  }
}

ANYACCEL_CONFORMANCE_CASE(dtypes, loss_scaling_sees_overflow, required) {
  auto scaler = accelerator.amp().grad_scaler({.init_scale = 8});
  const auto loss = scaler.scale(filled(accelerator, 2));
  expect_equal(first(loss), 16.0, "a scaled loss");
  auto fine = filled(accelerator, 16, 10),
       broken = filled(accelerator, std::numeric_limits<double>::infinity(), 10);
  expect(scaler.unscale_({fine}), "finite gradients are reported as overflow");
  expect_equal(first(fine), 2.0, "an unscaled gradient");
  expect(!scaler.unscale_({fine, broken}), "an infinite gradient is not detected");
  scaler.update(false);
  expect_equal(scaler.get_scale(), 4.0, "the scale after an overflow");
}

}  // namespace anyaccel::conformance
