// Log messages on standard error, filtered by level.
#pragma once

#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel {

enum class LogLevel { error, warning, info, debug };

/// Returns the level from ANYACCEL_LOG_LEVEL ("error", "warning" (default), "info", "debug") or
/// set_log_level(). Thread-safe.
LogLevel log_level() noexcept;
ANYACCEL_API void set_log_level(LogLevel level) noexcept;
/// Parses the name of a level. Throws `invalid_argument`, listing the known names.
ANYACCEL_API LogLevel parse_log_level(std::string_view text);

/// Writes the line "anyaccel: <level>: <message>" to standard error if `level` is enabled.
/// Thread-safe.
ANYACCEL_API void log(LogLevel level, std::string_view message);
/// Like log(), but at most once per process for each `key`.
ANYACCEL_API void log_once(LogLevel level, std::string_view key, std::string_view message);

}  // namespace anyaccel
