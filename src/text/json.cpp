#include "text/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/untrusted_text.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kWhere = "read_json";

template <typename J>
std::string excerpt(const J& value) {
  return printable_text(value.dump(-1, ' ', false, J::error_handler_t::replace), 200);
}

/// Rejects input that the parser accepts: deep nesting, and duplicate keys, of which the parser
/// silently keeps the last. A parser callback could check the same, but it visits all siblings for
/// each object.
template <typename J>
class Check final : public nlohmann::json_sax<J> {
 public:
  Check(const std::string& source, const JsonLimits& limits) : source_(source), limits_(limits) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename J::number_integer_t) override { return true; }
  bool number_unsigned(typename J::number_unsigned_t) override { return true; }
  bool number_float(typename J::number_float_t, const typename J::string_t&) override {
    return true;
  }
  bool string(typename J::string_t&) override { return true; }
  bool binary(typename J::binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return enter();
  }
  bool key(typename J::string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    throw Error(ErrorCode::corrupt, kWhere,
                {.what = source_ + " has the key " + quoted_text(name) + " twice"});
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  /// J::parse() reports the error.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool enter() {
    if (++depth_ <= limits_.max_depth) return true;
    throw Error(ErrorCode::corrupt, kWhere,
                {.what = "the JSON in " + source_ + " is nested too deeply",
                 .want = "at most " + std::to_string(limits_.max_depth) + " levels"});
  }
  const std::string& source_;
  const JsonLimits& limits_;
  std::vector<std::set<std::string>> keys_;
  int depth_ = 0;
};

template <typename J>
J parse(std::string_view text, const std::string& source, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw Error(ErrorCode::corrupt, kWhere,
                {.what = "the JSON in " + source + " is too large",
                 .got = std::to_string(text.size()) + " bytes",
                 .want = "at most " + std::to_string(limits.max_bytes) + " bytes"});
  }
  try {
    Check<J> check(source, limits);
    J::sax_parse(text.begin(), text.end(), &check);
    return J::parse(text.begin(), text.end());
  } catch (const typename J::exception& error) {
    throw Error(ErrorCode::corrupt, kWhere,
                {.what = source + " is not valid JSON: " + printable_text(error.what(), 300)});
  }
}

template <typename J>
J object_only(J value, const std::string& source) {
  if (!value.is_object()) {
    throw Error(ErrorCode::corrupt, kWhere,
                {.what = source + " is not a JSON object", .got = excerpt(value)});
  }
  return value;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source, const JsonLimits& limits) {
  return parse<Json>(text, source, limits);
}

Json read_json_object(const std::filesystem::path& path, const JsonLimits& limits) {
  return object_only(parse<Json>(read_file(path, limits.max_bytes), path.string(), limits),
                     path.string());
}

SortedJson read_sorted_json_object(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_sorted_json_object(read_file(path, limits.max_bytes), path.string(), limits);
}

SortedJson parse_sorted_json_object(std::string_view text, const std::string& source,
                                    const JsonLimits& limits) {
  return object_only(parse<SortedJson>(text, source, limits), source);
}

template <typename J>
const J* BasicJsonReader<J>::find(const std::string& key) const {
  auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

template <typename J>
void BasicJsonReader<J>::fail(const std::string& key, const J& value, const char* want) const {
  throw Error(ErrorCode::corrupt, kWhere,
              {.what = source_ + ": wrong value for " + quoted_text(key),
               .got = excerpt(value),
               .want = want});
}

template <typename J>
bool BasicJsonReader<J>::has(const std::string& key) const {
  return find(key) != nullptr;
}

template <typename J>
std::optional<std::int64_t> BasicJsonReader<J>::integer(const std::string& key, std::int64_t low,
                                                        std::int64_t high) const {
  const J* value = find(key);
  if (!value) return std::nullopt;
  const std::string want = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  const bool fits = value->is_number_unsigned() ? value->template get<std::uint64_t>() <=
                                                      static_cast<std::uint64_t>(INT64_MAX)
                                                : value->is_number_integer();
  if (!fits) fail(key, *value, want.c_str());
  const auto number = value->template get<std::int64_t>();
  if (number < low || number > high) fail(key, *value, want.c_str());
  return number;
}

template <typename J>
std::optional<double> BasicJsonReader<J>::number(const std::string& key) const {
  const J* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->template get<double>()))
    fail(key, *value, "a number");
  return value->template get<double>();
}

template <typename J>
std::optional<bool> BasicJsonReader<J>::boolean(const std::string& key) const {
  const J* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fail(key, *value, "true or false");
  return value->template get<bool>();
}

template <typename J>
std::optional<std::string> BasicJsonReader<J>::string(const std::string& key) const {
  const J* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(key, *value, "a string");
  return value->template get<std::string>();
}

template <typename J>
const J* BasicJsonReader<J>::object(const std::string& key) const {
  const J* value = find(key);
  if (value && !value->is_object()) fail(key, *value, "an object");
  return value;
}

template <typename J>
const J* BasicJsonReader<J>::array(const std::string& key) const {
  const J* value = find(key);
  if (value && !value->is_array()) fail(key, *value, "an array");
  return value;
}

template <typename J>
std::int64_t BasicJsonReader<J>::required_integer(const std::string& key, std::int64_t low,
                                                  std::int64_t high) const {
  if (auto value = integer(key, low, high)) return *value;
  throw Error(ErrorCode::corrupt, kWhere, {.what = source_ + " lacks " + quoted_text(key)});
}

template class BasicJsonReader<Json>;
template class BasicJsonReader<SortedJson>;

}  // namespace anyaccel::llm
