// Shared libraries opened at run time.
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
  /// `name` is a path, or a file name that the loader searches for. `global`: libraries opened
  /// later can use its symbols. Throws `unavailable` with the loader's reason, and
  /// `invalid_argument` for an empty name.
  explicit DynamicLibrary(const std::string& name, Unload unload = Unload::when_destroyed,
                          bool global = false);
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;

  /// Like the constructor, but on failure returns an empty object and stores the loader's reason in
  /// `reason` if given.
  static DynamicLibrary try_open(const std::string& name, std::string* reason = nullptr,
                                 Unload unload = Unload::when_destroyed) noexcept;

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  const std::string& name() const noexcept { return name_; }

  /// The address of a symbol; null if the library does not define it or is not open.
  void* find(const char* symbol) const noexcept;
  /// The same, cast to a pointer to a function or data: `library.find<int (*)(int)>("f")`.
  template <typename Pointer>
  Pointer find(const char* symbol) const noexcept {
    return reinterpret_cast<Pointer>(find(symbol));
  }
  /// The address of a symbol. Throws `unavailable`, naming the library and the symbol, if there is
  /// none.
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
