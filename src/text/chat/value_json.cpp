#include "text/chat/value_json.h"

#include "anyaccel/error.h"

namespace anyaccel::llm::chat {

Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::number_integer: return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
        throw Error(ErrorCode::unsupported, "ChatTemplate",
                    {.what = "a number in the variables is too large", .got = json.dump()});
      }
      return json.get<std::int64_t>();
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::string: return Value(json.get<std::string>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(value_of(item));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<std::string, Value>> items;
      for (const auto& [key, item] : json.items()) items.emplace_back(key, value_of(item));
      return Value::dict(std::move(items));
    }
    default: return None{};
  }
}

}  // namespace anyaccel::llm::chat
