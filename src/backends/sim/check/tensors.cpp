#include "backends/sim/check/tensors.h"

#include <vector>

namespace anyaccel::backends::sim::checking {

namespace {

/// Names as in Python, such as "float32". They are never freed.
const char* type_name(c10::ScalarType type) {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>;
    for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
      const auto each = static_cast<c10::ScalarType>(i);
      all->emplace_back(each == c10::ScalarType::Undefined ? "undefined"
                                                           : c10::getDtypeNames(each).first);
    }
    return all;
  }();
  return (*names)[static_cast<std::size_t>(type)].c_str();
}

}  // namespace

Region region_of(const c10::TensorImpl& tensor) {
  Region region;
  region.item = static_cast<std::uint32_t>(tensor.itemsize());
  region.type = type_name(c10::typeMetaToScalarType(tensor.dtype()));
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  const auto offset = static_cast<std::uintptr_t>(tensor.storage_offset()) * region.item;
  region.low = reinterpret_cast<std::uintptr_t>(tensor.unsafe_storage().data()) + offset;
  region.high = tensor.numel() == 0
                    ? region.low
                    : region.low + static_cast<std::uintptr_t>(last + 1) * region.item;
  region.dims = 0;
  if (sizes.size() <= Region::kMaxDims) {
    region.dims = static_cast<std::uint8_t>(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      region.sizes[i] = sizes[i];
      region.strides[i] = strides[i];
    }
    region.dense = tensor.is_non_overlapping_and_dense();
  }
  return region;
}

}  // namespace anyaccel::backends::sim::checking
