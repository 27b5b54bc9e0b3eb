#include "text/chat/value.h"

#include <algorithm>
#include <array>

#include "anyaccel/error.h"

namespace anyaccel::llm::chat {

namespace {

constexpr int kMaxDepth = 96;  // more than parse_json() accepts

int checked_depth(int inner) {
  if (inner < kMaxDepth) return inner + 1;
  throw Error(ErrorCode::unsupported, "ChatTemplate",
              {.what = "lists and dicts are nested too deeply",
               .want = "at most " + std::to_string(kMaxDepth) + " levels"});
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
  const auto it =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
  return it == items.end() ? nullptr : &it->second;
}

Value Value::list(std::vector<Value> items, bool tuple) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return std::make_shared<const List>(List{std::move(items), tuple, checked_depth(depth)});
}

Value Value::dict(std::vector<std::pair<std::string, Value>> items) {
  int depth = 0;
  for (const auto& [key, item] : items) depth = std::max(depth, item.depth());
  return std::make_shared<const Dict>(Dict{std::move(items), checked_depth(depth)});
}

const std::string* Value::text() const {
  const Text* text = as<Text>();
  return text ? text->get() : nullptr;
}

const List* Value::list() const {
  const auto* list = as<std::shared_ptr<const List>>();
  return list ? list->get() : nullptr;
}

const Dict* Value::dict() const {
  const auto* dict = as<std::shared_ptr<const Dict>>();
  return dict ? dict->get() : nullptr;
}

Namespace* Value::name_space() const {
  const auto* found = as<std::shared_ptr<Namespace>>();
  return found ? found->get() : nullptr;
}

Loop* Value::loop() const {
  const auto* loop = as<std::shared_ptr<Loop>>();
  return loop ? loop->get() : nullptr;
}

const Function* Value::function() const {
  const auto* found = as<std::shared_ptr<const Function>>();
  return found ? found->get() : nullptr;
}

std::int64_t Value::integer() const {
  const bool* boolean = as<bool>();
  return boolean ? std::int64_t{*boolean} : *as<std::int64_t>();
}

double Value::number() const {
  const double* number = as<double>();
  return number ? *number : static_cast<double>(integer());
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (const std::string* found = text()) return !found->empty();
  if (const List* found = list()) return !found->items.empty();
  if (const Dict* found = dict()) return !found->items.empty();
  return true;
}

int Value::depth() const {
  if (const List* found = list()) return found->depth;
  if (const Dict* found = dict()) return found->depth;
  return 0;
}

bool Value::is_data() const { return !name_space() && !loop() && !function(); }

const char* Value::type() const {
  constexpr std::array kNames{"undefined", "None", "bool",      "int",  "float",   "str",
                              "list",      "dict", "namespace", "loop", "function"};
  static_assert(kNames.size() == std::variant_size_v<Any>);
  return list() && list()->tuple ? "tuple" : kNames[any_.index()];
}

}  // namespace anyaccel::llm::chat
