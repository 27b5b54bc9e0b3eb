// Converts values to text like Python's str(), repr() and json.dumps().
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/chat/operations.h"
#include "text/chat/strings.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm::chat {

namespace {

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific)
          .ptr;
  const std::string text(buffer, end);
  const std::size_t mark = text.find('e');
  std::string digits = text.substr(0, mark);
  std::erase(digits, '.');
  const int exponent = std::stoi(text.substr(mark + 1));
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, 1, '.');
    const std::string power = std::to_string(std::abs(exponent));
    digits += std::string("e") + (exponent < 0 ? '-' : '+') + (power.size() < 2 ? "0" : "") + power;
  } else if (exponent < 0) {
    digits = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else if (exponent + 1 >= count) {
    digits += std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    digits.insert(static_cast<std::size_t>(exponent + 1), 1, '.');
  }
  return (std::signbit(value) ? "-" : "") + digits;
}

constexpr const char* kHex = "0123456789abcdef";

void add_hex(std::string& out, char mark, std::uint32_t value, int digits) {
  out += {'\\', mark};
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(value >> shift) & 15];
}

std::string repr(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += bytes;
    } else if (!is_printable(c)) {
      add_hex(out,
              c < 0x100     ? 'x'
              : c < 0x10000 ? 'u'
                            : 'U',
              c,
              c < 0x100     ? 2
              : c < 0x10000 ? 4
                            : 8);
    } else {
      out += bytes;
    }
  });
  return out + quote;
}

std::string json_text(std::string_view text, bool ascii) {
  std::string out = "\"";
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    constexpr std::string_view kShort = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const std::size_t known = c < 0x80 ? kShort.find(static_cast<char>(c)) : kShort.npos;
    if (known != kShort.npos) {
      out += {'\\', kLetters[known]};
    } else if (c < 0x20 || (ascii && c > 0x7e && c < 0x10000)) {
      add_hex(out, 'u', c, 4);
    } else if (ascii && c >= 0x10000) {
      add_hex(out, 'u', 0xd800 + ((c - 0x10000) >> 10), 4);
      add_hex(out, 'u', 0xdc00 + (c & 0x3ff), 4);
    } else {
      out += bytes;
    }
  });
  return out + '"';
}

class Printer {
 public:
  explicit Printer(const Context& context) : context_(context) {}
  std::string out;

  void python(const Value& value);
  void json(const Value& value, const JsonStyle& style, std::size_t level);

 private:
  void add(std::string_view text) {
    context_.budget.make(text.size());
    out += text;
  }
  void line(const JsonStyle& style, std::size_t level) {
    if (!style.indent) return;
    add("\n");
    for (std::size_t i = 0; i < level; ++i) add(*style.indent);
  }
  bool scalar(const Value& value, bool json);
  template <typename Items, typename F>
  void container(const Items& items, const char* brackets, const JsonStyle& style,
                 std::size_t level, F print);

  const Context& context_;
};

bool Printer::scalar(const Value& value, bool json) {
  if (value.is_none()) return add(json ? "null" : "None"), true;
  if (const bool* b = value.as<bool>())
    return add(json ? (*b ? "true" : "false") : *b ? "True" : "False"), true;
  if (value.is_integer()) return add(std::to_string(value.integer())), true;
  if (const double* d = value.as<double>()) {
    const bool plain = std::isfinite(*d) || !json;
    return add(plain            ? float_text(*d)
               : std::isnan(*d) ? "NaN"
               : *d < 0         ? "-Infinity"
                                : "Infinity"),
           true;
  }
  return false;
}

void Printer::python(const Value& value) {
  context_.budget.step();
  if (scalar(value, false)) return;
  if (const std::string* text = value.text()) return add(repr(*text));
  if (value.is_undefined()) return add("Undefined");
  if (const List* list = value.list()) {
    add(list->tuple ? "(" : "[");
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) add(", ");
      python(list->items[i]);
    }
    if (list->tuple && list->items.size() == 1) add(",");
    return add(list->tuple ? ")" : "]");
  }
  const Dict* dict = value.dict();
  if (!dict) outside_subset(context_.line, std::string("printing a ") + value.type());
  add("{");
  for (std::size_t i = 0; i < dict->items.size(); ++i) {
    if (i > 0) add(", ");
    add(repr(dict->items[i].first));
    add(": ");
    python(dict->items[i].second);
  }
  add("}");
}

template <typename Items, typename F>
void Printer::container(const Items& items, const char* brackets, const JsonStyle& style,
                        std::size_t level, F print) {
  add({brackets, 1});
  bool first = true;
  for (const auto& item : items) {
    if (!first) add(style.item_separator);
    first = false;
    line(style, level + 1);
    print(item);
  }
  if (!first) line(style, level);
  add({brackets + 1, 1});
}

void Printer::json(const Value& value, const JsonStyle& style, std::size_t level) {
  context_.budget.step();
  if (scalar(value, true)) return;
  if (const std::string* text = value.text()) return add(json_text(*text, style.ascii));
  if (const List* list = value.list())
    return container(list->items, "[]", style, level,
                     [&](const Value& one) { json(one, style, level + 1); });
  const Dict* dict = value.dict();
  if (!dict)
    render_error(context_.line,
                 std::string("tojson cannot serialize a value of type ") + value.type());
  std::vector<const std::pair<std::string, Value>*> items;
  for (const auto& one : dict->items) items.push_back(&one);
  if (style.sort_keys)
    std::sort(items.begin(), items.end(), [](auto* a, auto* b) { return a->first < b->first; });
  container(items, "{}", style, level, [&](const auto* one) {
    add(json_text(one->first, style.ascii));
    add(style.key_separator);
    json(one->second, style, level + 1);
  });
}

}  // namespace

std::string to_text(const Context& context, const Value& value) {
  if (const std::string* text = value.text()) return *text;
  if (value.is_undefined()) return "";
  Printer printer(context);
  printer.python(value);
  return std::move(printer.out);
}

std::string to_json(const Context& context, const Value& value, const JsonStyle& style) {
  Printer printer(context);
  printer.json(value, style, 0);
  return std::move(printer.out);
}

}  // namespace anyaccel::llm::chat
