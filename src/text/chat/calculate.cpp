// 64-bit arithmetic, and the operators + and * for strings and lists.
#include <cmath>

#include "text/chat/operations.h"

namespace anyaccel::llm::chat {

namespace {

using Integer = std::int64_t;

[[noreturn]] void overflow(const Context& context) {
  outside_subset(context.line, "an integer that exceeds 64 bits");
}

void check_divisor(const Context& context, bool zero) {
  if (zero) render_error(context.line, "division by zero");
}

Integer power(const Context& context, Integer base, Integer exponent) {
  Integer out = 1;
  for (;;) {
    if ((exponent & 1) && __builtin_mul_overflow(out, base, &out)) overflow(context);
    exponent >>= 1;
    if (exponent == 0) return out;
    if (__builtin_mul_overflow(base, base, &base)) overflow(context);
  }
}

Value whole(const Context& context, const std::string& op, Integer a, Integer b) {
  Integer out = 0;
  bool failed = false;
  if (op == "+") {
    failed = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    failed = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    failed = __builtin_mul_overflow(a, b, &out);
  } else if (op == "/") {
    check_divisor(context, b == 0);
    return static_cast<double>(a) / static_cast<double>(b);
  } else if (op == "**") {
    if (b >= 0) return power(context, a, b);
    check_divisor(context, a == 0);
    return std::pow(static_cast<double>(a), static_cast<double>(b));
  } else {
    check_divisor(context, b == 0);
    if (b == -1) {
      failed = op == "//" && __builtin_sub_overflow(Integer{0}, a, &out);
    } else {
      const bool rounds = a % b != 0 && (a < 0) != (b < 0);  // Python rounds toward minus infinity
      out = op == "//" ? a / b - rounds : a % b + (rounds ? b : 0);
    }
  }
  if (failed) overflow(context);
  return out;
}

Value real(const Context& context, const std::string& op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") {
    if (a < 0 && b != std::floor(b)) outside_subset(context.line, "a complex number");
    check_divisor(context, a == 0 && b < 0);
    return std::pow(a, b);
  }
  check_divisor(context, b == 0);
  if (op == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return op == "%" ? rest : std::floor((a - rest) / b + 0.5);
}

/// Repeats a string or list.
Value repeat(const Context& context, const Value& value, Integer times) {
  if (times < 0) times = 0;
  const std::size_t one =
      value.text() ? value.text()->size() : value.list()->items.size() * sizeof(Value);
  std::size_t all = 0;
  if (__builtin_mul_overflow(one, static_cast<std::size_t>(times), &all)) all = SIZE_MAX;
  context.budget.make(all);
  if (const std::string* text = value.text()) {
    std::string out;
    for (Integer i = 0; i < times && !text->empty(); ++i) out += *text;
    return Value(std::move(out));
  }
  std::vector<Value> items;
  const auto& source = value.list()->items;
  for (Integer i = 0; i < times && !source.empty(); ++i)
    items.insert(items.end(), source.begin(), source.end());
  return Value::list(std::move(items), value.list()->tuple);
}

}  // namespace

Value calculate(const Context& context, const std::string& op, const Value& a, const Value& b) {
  if (op == "~") return make_text(context, to_text(context, a) + to_text(context, b));
  if (a.is_integer() && b.is_integer()) return whole(context, op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return real(context, op, a.number(), b.number());
  const bool sequence = a.text() || a.list();
  if (op == "%" && a.text()) outside_subset(context.line, "formatting a string with %");
  if (op == "+" && a.text() && b.text()) return make_text(context, *a.text() + *b.text());
  if (op == "+" && a.list() && b.list() && a.list()->tuple == b.list()->tuple) {
    std::vector<Value> items = a.list()->items;
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    return make_list(context, std::move(items), a.list()->tuple);
  }
  if (op == "*" && sequence && b.is_integer()) return repeat(context, a, b.integer());
  if (op == "*" && a.is_integer() && (b.text() || b.list())) return repeat(context, b, a.integer());
  for (const Value* value : {&a, &b}) {
    if (const Undefined* missing = value->as<Undefined>())
      render_error(context.line, quoted(*missing->name) + " is undefined");
  }
  render_error(context.line,
               "cannot calculate " + std::string(a.type()) + " " + op + " " + b.type());
}

Value negative(const Context& context, const Value& a) {
  if (!a.is_number())
    render_error(context.line, std::string("cannot negate a value of type ") + a.type());
  return a.is_integer() ? whole(context, "-", 0, a.integer()) : Value(-a.number());
}

}  // namespace anyaccel::llm::chat
