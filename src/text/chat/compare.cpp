// Equality, ordering and membership.
#include <algorithm>
#include <cmath>

#include "text/chat/operations.h"

namespace anyaccel::llm::chat {

namespace {

[[noreturn]] void no_order(const Context& context, const Value& a, const Value& b) {
  render_error(context.line, std::string("cannot compare ") + a.type() + " with " + b.type());
}

bool equal_lists(const Context& context, const List& a, const List& b) {
  return a.tuple == b.tuple &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [&](const Value& x, const Value& y) { return equal(context, x, y); });
}

bool equal_dicts(const Context& context, const Dict& a, const Dict& b) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& one) {
           context.budget.read(8 * b.items.size());
           const Value* other = b.find(one.first);
           return other && equal(context, one.second, *other);
         });
}

bool contains(const Context& context, const Value& container, const Value& value) {
  if (const std::string* text = container.text()) {
    if (!value.text())
      render_error(context.line,
                   std::string("a string cannot contain a value of type ") + value.type());
    context.budget.read(text->size());
    return text->find(*value.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    context.budget.read(8 * dict->items.size());
    return value.text() && dict->find(*value.text());
  }
  if (container.is_undefined()) return false;
  const List* list = container.list();
  if (!list)
    render_error(context.line,
                 std::string("cannot use \"in\" with a value of type ") + container.type());
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& item) { return equal(context, item, value); });
}

}  // namespace

bool equal(const Context& context, const Value& a, const Value& b) {
  context.budget.step();
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.text() && b.text()) {
    context.budget.read(std::min(a.text()->size(), b.text()->size()));
    return *a.text() == *b.text();
  }
  if (a.list() && b.list()) return equal_lists(context, *a.list(), *b.list());
  if (a.dict() && b.dict()) return equal_dicts(context, *a.dict(), *b.dict());
  if (a.name_space() || b.name_space()) return a.name_space() == b.name_space();
  if (a.loop() || b.loop()) return a.loop() == b.loop();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Context& context, const Value& a, const Value& b) {
  context.budget.step();
  if (a.is_integer() && b.is_integer()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.text() && b.text()) {
    context.budget.read(std::min(a.text()->size(), b.text()->size()));
    return *a.text() < *b.text();
  }
  const List *left = a.list(), *right = b.list();
  if (!left || !right || left->tuple != right->tuple) no_order(context, a, b);
  for (std::size_t i = 0; i < std::min(left->items.size(), right->items.size()); ++i) {
    if (!equal(context, left->items[i], right->items[i]))
      return less(context, left->items[i], right->items[i]);
  }
  return left->items.size() < right->items.size();
}

bool compare(const Context& context, const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return equal(context, a, b);
  if (op == "!=") return !equal(context, a, b);
  if (op == "in") return contains(context, b, a);
  if (op == "not in") return !contains(context, b, a);
  const bool nan =
      a.is_number() && b.is_number() && (std::isnan(a.number()) || std::isnan(b.number()));
  if (nan) return false;
  if (op == "<") return less(context, a, b);
  if (op == ">") return less(context, b, a);
  return op == "<=" ? !less(context, b, a) : !less(context, a, b);
}

}  // namespace anyaccel::llm::chat
