// Python's strings: what a template asks of them counts characters, not bytes. All texts are UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::llm::chat {

bool is_space(char32_t c);      ///< str.isspace of one character
bool is_printable(char32_t c);  ///< str.isprintable

/// Without white space, or without characters of `set`, at an end.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
std::string_view strip_left(std::string_view text, std::string_view set);
std::string_view strip_right(std::string_view text, std::string_view set);

std::int64_t character_count(std::string_view text);
/// The text's characters, views into it.
std::vector<std::string_view> characters(std::string_view text);

/// str.split and, from the right, str.rsplit; without a separator at white space. `limit` < 0:
/// everywhere.
std::vector<std::string_view> split(std::string_view text,
                                    const std::optional<std::string>& separator, std::int64_t limit,
                                    bool from_right = false);
/// str.replace; `limit` < 0: everywhere.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t limit);
/// At least the bytes of what `replace` gives.
std::size_t replaced_size(std::string_view text, std::string_view from, std::string_view to,
                          std::int64_t limit);

std::string upper(const std::string& text);
std::string lower(const std::string& text);
std::string capitalize(const std::string& text);
std::string title(const std::string& text);         ///< str.title
std::string title_filter(const std::string& text);  ///< Jinja's filter of that name
bool is_upper(const std::string& text);             ///< str.isupper
bool is_lower(const std::string& text);             ///< str.islower

}  // namespace anyaccel::llm::chat
