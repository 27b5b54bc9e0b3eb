// String functions with Python's semantics: they count characters, not bytes. All strings are
// UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::llm::chat {

bool is_space(char32_t c);      ///< str.isspace, for one character
bool is_printable(char32_t c);  ///< str.isprintable

/// Remove whitespace, or the characters in `set`, at one end.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
std::string_view strip_left(std::string_view text, std::string_view set);
std::string_view strip_right(std::string_view text, std::string_view set);

std::int64_t character_count(std::string_view text);
/// Returns the text's characters as views into it.
std::vector<std::string_view> characters(std::string_view text);

/// Like Python's str.split or, from the right, str.rsplit. Without a separator, splits at
/// whitespace. `limit` < 0: unlimited.
std::vector<std::string_view> split(std::string_view text,
                                    const std::optional<std::string>& separator, std::int64_t limit,
                                    bool from_right = false);
/// Like Python's str.replace. `limit` < 0: unlimited.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t limit);
/// Upper bound for the size of the result of replace().
std::size_t replaced_size(std::string_view text, std::string_view from, std::string_view to,
                          std::int64_t limit);

std::string upper(const std::string& text);
std::string lower(const std::string& text);
std::string capitalize(const std::string& text);
std::string title(const std::string& text);         ///< str.title
std::string title_filter(const std::string& text);  ///< Jinja's filter `title`
bool is_upper(const std::string& text);             ///< str.isupper
bool is_lower(const std::string& text);             ///< str.islower

}  // namespace anyaccel::llm::chat
