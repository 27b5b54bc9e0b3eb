#include "text/tokenizer/pattern.h"

#include <algorithm>

#include "base/untrusted_text.h"

namespace anyaccel::llm {

Pattern Pattern::read(const TokenizerNode& node) {
  const TokenizerNode pattern = node.child("pattern");
  if (const auto text = pattern.string("String")) return Pattern(*text);
  if (const auto regex = pattern.string("Regex")) return Pattern(Regex(*regex, pattern.source()));
  pattern.unsupported("a pattern that is neither String nor Regex");
}

std::vector<Stretch> Pattern::find(std::string_view text) const {
  std::vector<std::pair<std::size_t, std::size_t>> matches;
  if (regex_) {
    matches = regex_->find_all(text);
  } else if (!text_.empty()) {
    for (std::size_t at = text.find(text_); at != std::string_view::npos;
         at = text.find(text_, at + text_.size())) {
      matches.emplace_back(at, at + text_.size());
    }
  }
  std::vector<Stretch> out;
  std::size_t done = 0;
  for (const auto& [begin, end] : matches) {
    if (begin != done) out.push_back({done, begin, false});
    out.push_back({begin, end, true});
    done = end;
  }
  if (done != text.size()) out.push_back({done, text.size(), false});
  return out;
}

std::string Pattern::replace(std::string_view text, const std::vector<Stretch>& stretches,
                             const std::string& by, TextLimit limit) {
  std::size_t size = 0;
  for (const Stretch& stretch : stretches) {
    size += stretch.match ? by.size() : stretch.end - stretch.begin;
    limit.check(size);
  }
  std::string out;
  out.reserve(size);
  for (const Stretch& stretch : stretches) {
    if (stretch.match) {
      out += by;
    } else {
      out += text.substr(stretch.begin, stretch.end - stretch.begin);
    }
  }
  return out;
}

SplitBehavior read_behavior(const TokenizerNode& node, std::optional<SplitBehavior> otherwise) {
  if (!node.has("behavior") && otherwise) return *otherwise;
  const std::string name = node.required_string("behavior");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  node.unsupported("behavior " + quoted_text(name));
}

namespace {

/// Merges each match into the preceding span, in the order of `stretches`. Does not merge it if
/// that span is also a match.
std::vector<Stretch> merge_matches(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> out;
  bool after_match = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.match && !after_match && !out.empty()) {
      out.back().begin = std::min(out.back().begin, stretch.begin);
      out.back().end = std::max(out.back().end, stretch.end);
    } else {
      out.push_back(stretch);
    }
    after_match = stretch.match;
  }
  return out;
}

std::vector<Stretch> merge_runs(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> out;
  for (const Stretch& stretch : stretches) {
    if (!out.empty() && stretch.match == out.back().match) {
      out.back().end = stretch.end;
    } else {
      out.push_back(stretch);
    }
  }
  return out;
}

}  // namespace

void split_piece(const Piece& piece, std::vector<Stretch> stretches, SplitBehavior behavior,
                 Pieces& out) {
  switch (behavior) {
    case SplitBehavior::isolated: break;
    case SplitBehavior::removed:
      std::erase_if(stretches, [](const Stretch& s) { return s.match; });
      break;
    case SplitBehavior::contiguous: stretches = merge_runs(stretches); break;
    case SplitBehavior::merged_with_previous: stretches = merge_matches(stretches); break;
    case SplitBehavior::merged_with_next:
      std::reverse(stretches.begin(), stretches.end());
      stretches = merge_matches(stretches);
      std::reverse(stretches.begin(), stretches.end());
      break;
  }
  for (const Stretch& s : stretches) {
    if (s.begin == s.end) continue;
    out.add(
        {piece.text.substr(s.begin, s.end - s.begin), piece.lead - std::min(piece.lead, s.begin)});
  }
}

}  // namespace anyaccel::llm
