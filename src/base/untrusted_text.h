// Text that somebody else wrote (files, checkpoints, variables, output of other programs), made safe to print in a message.
// bindings/python/anyaccel/_untrusted_text.py has the same rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace anyaccel {

/// `text` in double quotes, for an error message or a log line. Quotes, backslashes, control characters, invalid UTF-8,
/// bidirectional controls and other invisible format characters become escapes such as `\n`, `\x1b` and `\u202e`.
/// After `limit` printed characters the text is cut, never within a character or an escape, and its length follows:
/// `"aaaa..." (5000 bytes)`. The time depends on `limit`, not on the text's length.
std::string quoted_text(std::string_view text, std::size_t limit = 200);

/// `text` without quotes, for output of other programs and for whole messages: newlines, tabs, quotes and backslashes stay,
/// and everything else that quoted_text() escapes becomes an escape. A text with more than `limit` bytes loses its
/// middle: `the beginning ... (5000 bytes left out) ... the end`.
std::string printable_text(std::string_view text, std::size_t limit = 8000);

/// `text` for a terminal: control characters but newlines, tabs and carriage returns become escapes. Unlike
/// printable_text(), it keeps format characters, which Arabic, Indic scripts and emoji need, and cuts nothing.
std::string terminal_text(std::string_view text);

/// Numbers of a list whose length somebody else chose, such as a shape: `[2, 3]`, `[1, 1, 1, ... (100000 numbers)]`.
std::string shortened_list(std::span<const std::int64_t> numbers, std::size_t limit = 16);

}  // namespace anyaccel
