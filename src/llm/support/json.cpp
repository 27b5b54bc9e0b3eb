#include "llm/support/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "anyaccel/error.h"
#include "base/file.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kWhere = "read_json";

std::string excerpt(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw Error(ErrorCode::corrupt, kWhere,
                {.what = "JSON of " + source + " is too large",
                 .got = std::to_string(text.size()) + " bytes",
                 .want = "at most " + std::to_string(limits.max_bytes)});
  }
  // The parser keeps the last of two equal keys without a word; a checkpoint that has both is ambiguous.
  std::vector<std::set<std::string>> keys;
  auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > limits.max_depth) {
      throw Error(ErrorCode::corrupt, kWhere,
                  {.what = "JSON of " + source + " is nested too deep",
                   .want = "at most " + std::to_string(limits.max_depth) + " levels"});
    }
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Error(ErrorCode::corrupt, kWhere,
                  {.what = source + " has the key \"" + parsed.get<std::string>() + "\" twice"});
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt, kWhere, {.what = source + " is not valid JSON: " + error.what()});
  }
}

Json read_json_object(const std::filesystem::path& path, const JsonLimits& limits) {
  Json value = parse_json(read_file(path), path.string(), limits);
  if (!value.is_object()) {
    throw Error(ErrorCode::corrupt, kWhere, {.what = path.string() + " holds no JSON object", .got = excerpt(value)});
  }
  return value;
}

const Json* JsonReader::find(const char* key) const {
  auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void JsonReader::fail(const char* key, const Json& value, const char* want) const {
  throw Error(ErrorCode::corrupt, kWhere,
              {.what = source_ + ": wrong value of \"" + key + "\"", .got = excerpt(value), .want = want});
}

bool JsonReader::has(const char* key) const { return find(key) != nullptr; }

std::optional<std::int64_t> JsonReader::integer(const char* key, std::int64_t low, std::int64_t high) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  const std::string want = "a whole number in " + std::to_string(low) + ".." + std::to_string(high);
  const bool fits = value->is_number_unsigned() ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                                                : value->is_number_integer();
  if (!fits) fail(key, *value, want.c_str());
  const auto number = value->get<std::int64_t>();
  if (number < low || number > high) fail(key, *value, want.c_str());
  return number;
}

std::optional<double> JsonReader::number(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) fail(key, *value, "a number");
  return value->get<double>();
}

std::optional<bool> JsonReader::boolean(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fail(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonReader::string(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(key, *value, "a string");
  return value->get<std::string>();
}

const Json* JsonReader::object(const char* key) const {
  const Json* value = find(key);
  if (value && !value->is_object()) fail(key, *value, "an object");
  return value;
}

std::int64_t JsonReader::required_integer(const char* key, std::int64_t low, std::int64_t high) const {
  if (auto value = integer(key, low, high)) return *value;
  throw Error(ErrorCode::corrupt, kWhere, {.what = source_ + " lacks \"" + key + "\""});
}

}  // namespace anyaccel::llm
