#include "anyaccel/dtype.h"

#include <array>
#include <string_view>
#include <utility>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "base/untrusted_text.h"

namespace anyaccel {

namespace {

using c10::ScalarType;

constexpr std::array kTypes{
    std::pair{ScalarType::Double, "float64"},
    std::pair{ScalarType::Float, "float32"},
    std::pair{ScalarType::Half, "float16"},
    std::pair{ScalarType::BFloat16, "bfloat16"},
    std::pair{ScalarType::Float8_e4m3fn, "float8_e4m3fn"},
    std::pair{ScalarType::Float8_e5m2, "float8_e5m2"},
    std::pair{ScalarType::Float8_e4m3fnuz, "float8_e4m3fnuz"},
    std::pair{ScalarType::Float8_e5m2fnuz, "float8_e5m2fnuz"},
    std::pair{ScalarType::Float8_e8m0fnu, "float8_e8m0fnu"},
    std::pair{ScalarType::Long, "int64"},
    std::pair{ScalarType::Int, "int32"},
    std::pair{ScalarType::Short, "int16"},
    std::pair{ScalarType::Char, "int8"},
    std::pair{ScalarType::Byte, "uint8"},
    std::pair{ScalarType::UInt16, "uint16"},
    std::pair{ScalarType::UInt32, "uint32"},
    std::pair{ScalarType::UInt64, "uint64"},
    std::pair{ScalarType::Bool, "bool"},
    std::pair{ScalarType::ComplexFloat, "complex64"},
    std::pair{ScalarType::ComplexDouble, "complex128"},
};

constexpr std::array<std::pair<std::string_view, ScalarType>, 10> kTrainingNames{{
    {"fp32", ScalarType::Float},
    {"float32", ScalarType::Float},
    {"float", ScalarType::Float},
    {"bf16", ScalarType::BFloat16},
    {"bfloat16", ScalarType::BFloat16},
    {"fp16", ScalarType::Half},
    {"float16", ScalarType::Half},
    {"half", ScalarType::Half},
    {"fp64", ScalarType::Double},
    {"float64", ScalarType::Double},
}};

/// Returns the backend's dtype support, except that double precision is unsupported if the
/// backend's traits say so.
DtypeSupport truth(const sdk::Backend& backend, DeviceIndex index, ScalarType dtype) {
  auto support = backend.dtype_support(index, dtype);
  if (dtype == ScalarType::Double && !backend.traits().fp64)
    support.computable = support.fast = false;
  return support;
}

}  // namespace

const char* dtype_name(ScalarType dtype) noexcept {
  for (const auto& [type, name] : kTypes)
    if (type == dtype) return name;
  return c10::toString(dtype);
}

ScalarType parse_dtype(const std::string& text) {
  if (text == "double") return ScalarType::Double;
  for (const auto& [name, type] : kTrainingNames)
    if (name == text) return type;
  throw Error(ErrorCode::invalid_argument, "dtype",
              {.what = "unknown dtype",
               .got = quoted_text(text),
               .want = "fp32, bf16, fp16 or fp64 (or float32, bfloat16, float16, float64)"});
}

DtypeSupport Accelerator::dtype_support(ScalarType dtype,
                                        std::optional<DeviceIndex> device_index) const {
  return truth(*backend_, checked(device_index, "dtype_support"), dtype);
}

std::vector<DtypeRow> Accelerator::dtype_table(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "dtype_table");
  std::vector<DtypeRow> table;
  for (const auto& [type, unused] : kTypes) table.push_back({type, truth(*backend_, index, type)});
  return table;
}

bool Accelerator::is_bf16_supported() const {
  return dtype_support(ScalarType::BFloat16).computable;
}

// Half precision without hardware support is too slow to count as supported. DeepSpeed's checks do
// the same.
bool Accelerator::is_fp16_supported() const { return dtype_support(ScalarType::Half).fast; }

bool Accelerator::is_fp64_supported() const { return backend_->traits().fp64; }

std::vector<ScalarType> Accelerator::supported_dtypes() const {
  std::vector<ScalarType> types{ScalarType::Float};
  if (is_fp16_supported()) types.push_back(ScalarType::Half);
  if (is_bf16_supported()) types.push_back(ScalarType::BFloat16);
  return types;
}

}  // namespace anyaccel
