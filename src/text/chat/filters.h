// Filters, grouped by the type of their input. The table of filters is in filters.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/chat/operations.h"

namespace anyaccel::llm::chat {

struct FilterCall {
  const Context& context;
  const std::string& name;
  const Value& input;
  const Arguments& arguments;

  std::vector<std::optional<Value>> bind(const std::vector<std::string>& names) const {
    return chat::bind(context, name, arguments, names);
  }
};

Value dictsort(const FilterCall& call);
Value first(const FilterCall& call);
Value items(const FilterCall& call);
Value join(const FilterCall& call);
Value last(const FilterCall& call);
Value length_filter(const FilterCall& call);
Value list(const FilterCall& call);
Value map(const FilterCall& call);
Value reject(const FilterCall& call);
Value reject_attribute(const FilterCall& call);
Value reverse(const FilterCall& call);
Value select(const FilterCall& call);
Value select_attribute(const FilterCall& call);
Value unique(const FilterCall& call);

}  // namespace anyaccel::llm::chat
