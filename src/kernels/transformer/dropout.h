// Random numbers of dropouts: a 64-bit key for each row, two rounds of a 32-bit mixer for each element. Included by kernel files
// inside of an unnamed namespace, under a target, behind kernels/common/host_device.h; CUDA's kernels draw the same.

ANYACCEL_ON_BOTH std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

ANYACCEL_ON_BOTH std::uint64_t row_key(const Dropout& dropout, std::int64_t row) {
  return mixed(mixed(dropout.key + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(row) + 1)) + dropout.key);
}

ANYACCEL_ON_BOTH std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

/// The number drawn for a column of the row with this key.
ANYACCEL_ON_BOTH std::uint32_t drawn(std::uint32_t low, std::uint32_t high, std::uint32_t column) {
  return mixed(mixed(column + low) ^ high);
}

/// values[i] becomes dropout(values[i]), where i is a column.
template <typename Value>
inline void drop_row(const Dropout& dropout, std::int64_t row, std::int64_t columns, Value* values) {
  const std::uint64_t key = row_key(dropout, row);
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t threshold = dropout.threshold;
  const auto scale = static_cast<Value>(dropout.scale);
  for (std::int64_t i = 0; i < columns; ++i) {
    const Value factor = drawn(low, high, static_cast<std::uint32_t>(i)) >= threshold ? scale : 0;
    const Value value = values[i] * scale;
    values[i] = factor != 0 ? value : 0;
  }
}
