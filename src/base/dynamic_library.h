// Shared libraries loaded at run time.
#pragma once

#include <string>
#include <utility>

#include "anyaccel/export.h"

namespace anyaccel {

/// An open shared library. The destructor closes it unless it was opened with `Unload::never`.
/// Move-only. As thread-safe as the system's loader.
class ANYACCEL_API DynamicLibrary {
 public:
  enum class Unload {
    when_destroyed,
    never,  ///< for libraries that register objects or start threads
  };

  DynamicLibrary() = default;
  /// `name` is a path, or a file name that the loader searches for. If `global` is true, libraries
  /// opened later can use its symbols. Throws `unavailable` with the loader's reason, and
  /// `invalid_argument` for an empty name.
  explicit DynamicLibrary(const std::string& name, Unload unload = Unload::when_destroyed,
                          bool global = false);
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;

  /// Like the constructor, but on failure returns an empty object and, if `reason` is given, stores
  /// the loader's reason there.
  static DynamicLibrary try_open(const std::string& name, std::string* reason = nullptr,
                                 Unload unload = Unload::when_destroyed) noexcept;

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  const std::string& name() const noexcept { return name_; }

  /// Returns the address of a symbol, or null if the library does not define it or is not open.
  void* find(const char* symbol) const noexcept;
  /// Like the overload above, but returns a pointer to a function or data: `library.find<int
  /// (*)(int)>("f")`.
  template <typename Pointer>
  Pointer find(const char* symbol) const noexcept {
    return reinterpret_cast<Pointer>(find(symbol));
  }
  /// Returns the address of a symbol. If it is not found, throws `unavailable`, naming the library
  /// and the symbol.
  void* get(const char* symbol) const;
  template <typename Pointer>
  Pointer get(const char* symbol) const {
    return reinterpret_cast<Pointer>(get(symbol));
  }

 private:
  void close() noexcept;
  void* handle_ = nullptr;
  bool stays_ = false;
  std::string name_;
};

}  // namespace anyaccel
