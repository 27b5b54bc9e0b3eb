// Shared libraries opened while the program runs.
#pragma once

#include <string>
#include <utility>

#include "anyaccel/export.h"

namespace anyaccel {

/// An open shared library. Closed by the destructor unless made to stay. Move only.
/// Thread-safe as far as the system's loader is.
class ANYACCEL_API DynamicLibrary {
 public:
  enum class Unload {
    when_destroyed,
    never,  ///< libraries that register things, or start threads, must not go while the process
            ///< lives
  };

  DynamicLibrary() = default;
  /// `name` is a path, or a file name looked up as the loader does. `global`: its symbols serve
  /// libraries opened later. Throws `unavailable` with the loader's reason.
  explicit DynamicLibrary(const std::string& name, Unload unload = Unload::when_destroyed,
                          bool global = false);
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;

  /// The same without exceptions: on failure an empty object, and the loader's reason in `reason`
  /// if given.
  static DynamicLibrary try_open(const std::string& name, std::string* reason = nullptr,
                                 Unload unload = Unload::when_destroyed) noexcept;

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  const std::string& name() const noexcept { return name_; }

  /// The address of a symbol; null when the library has none of that name or is not open.
  void* find(const char* symbol) const noexcept;
  /// The same as a pointer to function or data: `library.find<int (*)(int)>("f")`.
  template <typename Pointer>
  Pointer find(const char* symbol) const noexcept {
    return reinterpret_cast<Pointer>(find(symbol));
  }
  /// The address of a symbol; throws `unavailable` naming library and symbol when there is none.
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
