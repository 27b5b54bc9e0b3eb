// Values in a template: the Python types that templates use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace anyaccel::llm::chat {

class Value;
struct Statement;
struct Scope;

/// A missing value. It is false, and empty as text. Arithmetic and attribute access throw.
struct Undefined {
  std::shared_ptr<const std::string> name;  ///< name of the missing value; never null
};
struct None {};

/// Lists and dicts are immutable, as in the sandbox that transformers uses. No value can contain
/// itself.
struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
};
struct Dict {
  std::vector<std::pair<std::string, Value>> items;  ///< in insertion order
  int depth = 1;
  const Value* find(std::string_view key) const;
};
/// The only value that a template can mutate. It cannot contain namespaces, loops or functions, so
/// there are no cycles.
struct Namespace {
  std::map<std::string, Value, std::less<>> items;
};
struct Loop {
  std::vector<Value> items;
  std::size_t index = 0;
};
struct Function {
  enum class Kind {
    range,
    make_namespace,
    make_dict,
    raise_exception,
    strftime_now,
    macro,
    method
  };
  Kind kind;
  std::string name;
  const Statement* macro = nullptr;
  Scope* scope = nullptr;  ///< scope in which the macro is defined; it outlives the macro's name
};

using Text = std::shared_ptr<const std::string>;

template <typename T, typename Variant>
inline constexpr bool kIsOneOf = false;
template <typename T, typename... Kinds>
inline constexpr bool kIsOneOf<T, std::variant<Kinds...>> = (std::is_same_v<T, Kinds> || ...);

class Value {
 public:
  using Any =
      std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const List>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
                   std::shared_ptr<const Function>>;

  Value() : any_(None{}) {}
  template <typename T>
  requires(kIsOneOf<T, Any>) Value(T value) : any_(std::in_place_type<T>, std::move(value)) {}
  explicit Value(std::string text) : any_(std::make_shared<const std::string>(std::move(text))) {}
  Value(Function function) : any_(std::make_shared<const Function>(std::move(function))) {}
  explicit Value(const char* text) : Value(std::string(text)) {}
  /// Throws `unsupported` if the nesting is too deep.
  static Value list(std::vector<Value> items, bool tuple = false);
  static Value dict(std::vector<std::pair<std::string, Value>> items);
  static Value undefined(std::string_view name) {
    return Undefined{std::make_shared<const std::string>(name)};
  }

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&any_);
  }
  const std::string* text() const;
  const List* list() const;
  const Dict* dict() const;
  Namespace* name_space() const;
  Loop* loop() const;
  const Function* function() const;
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  /// bool counts as a number, as in Python.
  bool is_number() const { return as<double>() || is_integer(); }
  bool is_integer() const { return as<std::int64_t>() || as<bool>(); }
  std::int64_t integer() const;  ///< requires is_integer()
  double number() const;         ///< requires is_number()
  bool truth() const;
  /// Nesting depth of lists and dicts; 0 for other values.
  int depth() const;
  /// Returns whether lists, dicts and namespaces may contain this value.
  bool is_data() const;
  /// Type name for messages, such as "str" or "list".
  const char* type() const;

 private:
  Any any_;
};

}  // namespace anyaccel::llm::chat
