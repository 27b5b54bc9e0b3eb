#include "llm/checkpoint/safetensors.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

struct DtypeName {
  std::string_view name;
  c10::ScalarType dtype;
};

constexpr DtypeName kDtypes[] = {
    {"F64", c10::kDouble}, {"F32", c10::kFloat}, {"F16", c10::kHalf},  {"BF16", c10::kBFloat16},
    {"I64", c10::kLong},   {"I32", c10::kInt},   {"I16", c10::kShort}, {"I8", c10::kChar},
    {"U8", c10::kByte},    {"BOOL", c10::kBool},
};

constexpr std::size_t kMaxDimensions = 64;  // limit in torch's kernels

[[noreturn]] void corrupt(const std::filesystem::path& path, const std::string& what,
                          std::string got = {}, std::string want = {}) {
  throw Error(
      ErrorCode::corrupt, "load_safetensors",
      {.what = path.string() + ": " + what,
       .got = std::move(got),
       .want = std::move(want),
       .hint = "the file is truncated or not a safetensors file; download or save it again"});
}

std::uint64_t little_endian(const std::byte* bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<std::uint64_t>(bytes[i]);
  return value;
}

TensorEntry read_entry(const std::filesystem::path& path, const std::string& name,
                       const Json& json) {
  const std::string tensor = "tensor " + quoted_text(name);
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string() ||
      !json.contains("shape") || !json["shape"].is_array() || !json.contains("data_offsets") ||
      !json["data_offsets"].is_array() || json["data_offsets"].size() != 2) {
    corrupt(path, "the entry for tensor " + tensor + " is malformed");
  }
  TensorEntry entry{};
  const auto& dtype = json["dtype"].get_ref<const std::string&>();
  const auto* known = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](auto& d) { return d.name == dtype; });
  if (known == std::end(kDtypes))
    corrupt(path, tensor + " has an unknown dtype", quoted_text(dtype));
  entry.dtype = known->dtype;
  // The sizes are untrusted: check every product for overflow.
  std::uint64_t bytes = c10::elementSize(entry.dtype);
  if (json["shape"].size() > kMaxDimensions) {
    corrupt(path, tensor + " has too many dimensions", std::to_string(json["shape"].size()),
            "at most " + std::to_string(kMaxDimensions));
  }
  for (const Json& size : json["shape"]) {
    if (!size.is_number_unsigned() ||
        size.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
      corrupt(path, tensor + " has an invalid shape", printable_text(json["shape"].dump(), 200));
    }
    entry.shape.push_back(size.get<std::int64_t>());
    if (__builtin_mul_overflow(bytes, size.get<std::uint64_t>(), &bytes)) {
      corrupt(path, tensor + " has a shape whose size overflows",
              printable_text(json["shape"].dump(), 200));
    }
  }
  const Json& offsets = json["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    corrupt(path, tensor + " has invalid offsets");
  entry.begin = offsets[0].get<std::size_t>();
  entry.end = offsets[1].get<std::size_t>();
  if (entry.begin > entry.end || entry.end - entry.begin != bytes) {
    corrupt(path, tensor + ": offsets do not match shape and dtype", offsets.dump(),
            std::to_string(bytes) + " bytes");
  }
  return entry;
}

void check_layout(const std::filesystem::path& path,
                  const std::map<std::string, TensorEntry>& entries, std::size_t data_size) {
  std::vector<std::pair<std::size_t, const std::pair<const std::string, TensorEntry>*>> order;
  for (const auto& entry : entries) order.emplace_back(entry.second.begin, &entry);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->second.end) < std::pair(b.first, b.second->second.end);
  });
  std::size_t position = 0;
  for (const auto& [begin, entry] : order) {
    if (begin < position)
      corrupt(path, "tensor " + quoted_text(entry->first) + " overlaps another tensor");
    if (begin > position) corrupt(path, "unused bytes before tensor " + quoted_text(entry->first));
    position = entry->second.end;
  }
  if (position != data_size) {
    corrupt(path, "wrong length", std::to_string(data_size) + " bytes of values",
            std::to_string(position) + " bytes");
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(MappedFile::open(path)) {
  if (file_->size() < 8)
    corrupt(path, "too short for a header", std::to_string(file_->size()) + " bytes");
  const std::uint64_t header = little_endian(file_->data());
  if (header > kMaxHeader || header > file_->size() - 8) {
    corrupt(path, "header does not fit", std::to_string(header) + " bytes",
            "at most " + std::to_string(std::min(kMaxHeader, file_->size() - 8)) + " bytes");
  }
  const std::string_view text(reinterpret_cast<const char*>(file_->data()) + 8, header);
  const Json json =
      parse_json(text, path.string() + ", header", {.max_bytes = kMaxHeader, .max_depth = 8});
  if (!json.is_object()) corrupt(path, "header is not a JSON object");
  data_offset_ = 8 + header;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      entries_.emplace(name, read_entry(path, name, value));
    } else if (value.is_object()) {
      for (const auto& [key, text_value] : value.items()) {
        if (text_value.is_string()) metadata_.emplace(key, text_value.get<std::string>());
      }
    }
  }
  check_layout(path, entries_, file_->size() - data_offset_);
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) {
    throw Error(ErrorCode::not_found, "load_safetensors",
                {.what = path_.string() + " has no tensor " + quoted_text(name)});
  }
  const TensorEntry& entry = it->second;
  const std::byte* address = file_->data() + data_offset_ + entry.begin;
  const auto options = at::TensorOptions().dtype(entry.dtype);
  void* values = const_cast<std::byte*>(address);
  if (reinterpret_cast<std::uintptr_t>(address) % c10::elementSize(entry.dtype) != 0) {
    // Old writers did not pad the header, so the data may be misaligned. Copy it to aligned memory.
    return at::from_blob(values, {static_cast<std::int64_t>(entry.end - entry.begin)},
                         at::TensorOptions().dtype(c10::kByte))
        .clone()
        .view(entry.dtype)
        .view(entry.shape);
  }
  return at::from_blob(
      values, entry.shape, [keep = file_](void*) {}, options);
}

std::string_view safetensors_dtype(c10::ScalarType dtype) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return known.name;
  }
  throw Error(ErrorCode::unsupported, "write_safetensors",
              {.what = "this dtype cannot be stored", .got = c10::toString(dtype)});
}

}  // namespace anyaccel::llm
