// Makes untrusted text (from files, checkpoints, environment variables or other programs) safe to
// print in messages. bindings/python/anyaccel/_untrusted_text.py implements the same rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel {

/// Returns `text` in double quotes, for an error message or a log line. Quotes, backslashes,
/// control characters, invalid UTF-8, bidirectional controls and other invisible format characters
/// become escapes such as `\n`, `\x1b` and `\u202e`. Text beyond `limit` printed characters is
/// replaced by the total length: `"aaaa..." (5000 bytes)`. Truncation never splits a character or
/// an escape. The time depends on `limit`, not on the length of the text.
ANYACCEL_API std::string quoted_text(std::string_view text, std::size_t limit = 200);

/// Escapes `text` without adding quotes, for output of other programs and for whole messages.
/// Escapes everything that quoted_text() escapes, except newlines, tabs, quotes and backslashes. If
/// `text` is longer than `limit` bytes, its middle is omitted: `the beginning ... (5000 bytes left
/// out) ... the end`.
ANYACCEL_API std::string printable_text(std::string_view text, std::size_t limit = 8000);

/// Returns `text` for a terminal: escapes control characters except newlines, tabs and carriage
/// returns. Unlike printable_text(), it keeps format characters, which Arabic, Indic scripts and
/// emoji need, and does not truncate.
ANYACCEL_API std::string terminal_text(std::string_view text);

/// Formats a list whose length is untrusted, such as a shape: `[2, 3]`, `[1, 1, 1, ... (100000
/// numbers)]`.
ANYACCEL_API std::string shortened_list(std::span<const std::int64_t> numbers,
                                        std::size_t limit = 16);

}  // namespace anyaccel
