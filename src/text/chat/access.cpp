// Creates values, and accesses attributes, items, slices and elements.
#include <algorithm>

#include "text/chat/operations.h"
#include "text/chat/strings.h"
#include "text/chat/vocabulary.h"

namespace anyaccel::llm::chat {

namespace {

using Integer = std::int64_t;
constexpr std::size_t kValueBytes = 64;  // overhead per string

void check_data(const Context& context, const Value& value) {
  if (!value.is_data())
    outside_subset(context.line,
                   std::string("a list or dict that contains a value of type ") + value.type());
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto count = static_cast<Integer>(loop.items.size()),
             index = static_cast<Integer>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "depth") return Integer{1};
  if (name == "depth0") return Integer{0};
  if (name == "previtem" && index > 0) return loop.items[loop.index - 1];
  if (name == "nextitem" && index + 1 < count) return loop.items[loop.index + 1];
  return Value::undefined("loop." + name);
}

Value method(const std::string& name) {
  return Function{.kind = Function::Kind::method, .name = name};
}

[[noreturn]] void undefined_object(const Context& context, const Value& object) {
  render_error(context.line, quoted(*object.as<Undefined>()->name) + " is undefined");
}

/// Like Python's slice.indices().
struct Range {
  Integer start, stop, step;
};

Range slice_range(const Context& context, Integer count, const Value& start, const Value& stop,
                  const Value& step) {
  const auto part = [&](const Value& value, Integer otherwise) {
    if (value.is_none()) return otherwise;
    if (!value.is_integer())
      render_error(context.line,
                   std::string("slice indices must be integers, got ") + value.type());
    return value.integer();
  };
  Range range{0, 0, part(step, 1)};
  if (range.step == 0) render_error(context.line, "the step of a slice must not be 0");
  const Integer low = range.step > 0 ? 0 : -1, high = range.step > 0 ? count : count - 1;
  const auto place = [&](Integer value) {
    return std::clamp(value < 0 ? std::max(value, -count - 1) + count : value, low, high);
  };
  range.start = start.is_none() ? (range.step > 0 ? low : high) : place(part(start, 0));
  range.stop = stop.is_none() ? (range.step > 0 ? high : low) : place(part(stop, 0));
  range.step = std::clamp(range.step, -count - 1, count + 1);
  return range;
}

template <typename T, typename F>
void take_slice(const std::vector<T>& from, const Range& range, F take) {
  for (Integer i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step)
    take(from[static_cast<std::size_t>(i)]);
}

}  // namespace

Value make_text(const Context& context, std::string text) {
  context.budget.make(text.size() + kValueBytes);
  return Value(std::move(text));
}

Value make_list(const Context& context, std::vector<Value> items, bool tuple) {
  context.budget.make(items.size() * sizeof(Value));
  for (const Value& one : items) check_data(context, one);
  return Value::list(std::move(items), tuple);
}

Value make_dict(const Context& context, std::vector<std::pair<std::string, Value>> items) {
  for (const auto& [key, one] : items) {
    context.budget.make(key.size() + sizeof(key) + sizeof(one));
    check_data(context, one);
  }
  return Value::dict(std::move(items));
}

Value attribute(const Context& context, const Value& object, const std::string& name) {
  if (object.is_undefined()) undefined_object(context, object);
  if (name.starts_with('_'))
    render_error(context.line, "the attribute " + quoted(name) + " is unsafe");
  if (has_method(object, name)) return method(name);
  if (const Loop* loop = object.loop()) return loop_attribute(*loop, name);
  if (const Namespace* space = object.name_space()) {
    const auto it = space->items.find(name);
    return it == space->items.end() ? Value::undefined(name) : it->second;
  }
  const Dict* dict = object.dict();
  if (dict) context.budget.read(8 * dict->items.size());
  const Value* found = dict ? dict->find(name) : nullptr;
  return found ? *found : Value::undefined(name);
}

Value item(const Context& context, const Value& object, const Value& index) {
  if (object.is_undefined()) undefined_object(context, object);
  if (const std::string* name = index.text()) {
    const Dict* dict = object.dict();
    if (dict) context.budget.read(8 * dict->items.size());
    const Value* found = dict ? dict->find(*name) : nullptr;
    return found ? *found : attribute(context, object, *name);
  }
  if (!index.is_integer()) return Value::undefined("item");
  Integer place = index.integer();
  const auto inside = [&](Integer count) {
    if (place < 0) place += count;
    return place >= 0 && place < count;
  };
  const Value missing = Value::undefined("item " + std::to_string(place));
  if (const List* list = object.list())
    return inside(static_cast<Integer>(list->items.size()))
               ? list->items[static_cast<std::size_t>(place)]
               : missing;
  if (const std::string* text = object.text()) {
    context.budget.make(text->size());
    const auto all = characters(*text);
    if (!inside(static_cast<Integer>(all.size()))) return missing;
    return Value(std::string(all[static_cast<std::size_t>(place)]));
  }
  return missing;
}

Value slice(const Context& context, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  if (const std::string* text = object.text()) {
    context.budget.make(text->size());
    const auto all = characters(*text);
    std::string out;
    take_slice(all, slice_range(context, static_cast<Integer>(all.size()), start, stop, step),
               [&](std::string_view one) { out += one; });
    return make_text(context, std::move(out));
  }
  const List* list = object.list();
  if (object.is_undefined()) undefined_object(context, object);
  if (!list) return Value::undefined("slice");
  std::vector<Value> out;
  take_slice(list->items,
             slice_range(context, static_cast<Integer>(list->items.size()), start, stop, step),
             [&](const Value& one) { out.push_back(one); });
  return make_list(context, std::move(out), list->tuple);
}

std::vector<Value> elements(const Context& context, const Value& value) {
  std::vector<Value> out;
  if (const List* list = value.list()) {
    context.budget.make(list->items.size() * sizeof(Value));
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    for (const auto& one : dict->items) out.push_back(make_text(context, one.first));
    return out;
  }
  if (const std::string* text = value.text()) {
    context.budget.make(text->size() * (sizeof(Value) + sizeof(std::string)));
    for (const std::string_view one : characters(*text)) out.push_back(Value(std::string(one)));
    return out;
  }
  if (!value.is_undefined())
    render_error(context.line, std::string("a value of type ") + value.type() + " has no elements");
  return out;
}

Integer length(const Context& context, const Value& value) {
  if (const List* list = value.list()) return static_cast<Integer>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<Integer>(dict->items.size());
  if (const std::string* text = value.text()) {
    context.budget.read(text->size());
    return character_count(*text);
  }
  if (!value.is_undefined())
    render_error(context.line, std::string("a value of type ") + value.type() + " has no length");
  return 0;
}

}  // namespace anyaccel::llm::chat
