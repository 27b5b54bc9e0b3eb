// Layout of the picture. Blocks are measured from the inside out and then placed next to each other
// in rows.
#include "launch/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

namespace anyaccel::launch {

namespace {

using topology::CpuList;
using topology::Machine;
using topology::NumaNode;

constexpr int kPad = 10;
constexpr int kCellWidth = 32;
constexpr int kCellHeight = 18;
constexpr int kCoreGap = 4;
constexpr int kTitle = 20;
constexpr int kMemoryHeight = 22;
constexpr int kWidest = 1400;  // maximum width of a row of blocks
constexpr Colour kReserved = 0xb8b8b8;
constexpr Colour kUnused = 0xffffff;

struct Size {
  int width = 0, height = 0;
};

/// Places blocks next to each other in rows of at most `widest`. Returns the total size.
Size flow(const std::vector<Size>& sizes, int widest, std::vector<Size>& places) {
  Size all;
  int x = 0, y = 0, row = 0;
  for (const auto& size : sizes) {
    if (x > 0 && x + size.width > widest) x = 0, y += row + kPad, row = 0;
    places.push_back({x, y});
    x += size.width + kPad;
    row = std::max(row, size.height);
    all.width = std::max(all.width, x - kPad);
    all.height = std::max(all.height, y + row);
  }
  return all;
}

std::string amount(std::int64_t bytes) {
  std::array<char, 32> text{};
  const double gib = static_cast<double>(bytes) / (1 << 30);
  std::snprintf(text.data(), text.size(), gib < 10 ? "%.1f GiB" : "%.0f GiB", gib);
  return text.data();
}

/// Formats a list of CPUs, truncated to fit on one line.
std::string short_list(const CpuList& cpus) {
  constexpr std::size_t kLongest = 90;
  auto text = topology::format_cpu_list(cpus);
  if (text.size() > kLongest) text = text.substr(0, text.rfind(',', kLongest)) + ", ...";
  return text;
}

/// Replaces all characters except printable ASCII, because the firmware's text may not be UTF-8.
std::string plain(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

/// The cores that a NUMA node and a package have in common, and the memory close to them.
struct Block {
  int node = -1;
  std::vector<const topology::Core*> cores;
  std::vector<int> memory;  ///< indices of nodes without cores that are close to this block
  int columns = 1;
  int threads = 1;
  Size size;

  int core_height() const { return threads * kCellHeight; }
  int text_width() const { return 230; }
  void measure() {
    for (const auto* core : cores) threads = std::max(threads, static_cast<int>(core->cpus.size()));
    const auto count = static_cast<double>(cores.size());
    const int fit = text_width() / (kCellWidth + kCoreGap);
    columns = std::max(fit, static_cast<int>(std::ceil(std::sqrt(count * (threads + 1) / 2))));
    const int rows = (static_cast<int>(cores.size()) + columns - 1) / columns;
    size.width = std::max(text_width(), columns * (kCellWidth + kCoreGap) - kCoreGap) + 2 * kPad;
    size.height = kTitle + rows * (core_height() + kCoreGap) + kPad +
                  static_cast<int>(memory.size()) * (kMemoryHeight + kCoreGap);
  }
};

class Drawing {
 public:
  Drawing(const Machine& machine, const HostPlan* plan) : machine_(machine), plan_(plan) {
    if (plan == nullptr) return;
    for (const int cpu : plan->reserved) colours_[cpu] = kReserved;
    for (const auto& rank : plan->ranks)
      for (const int cpu : rank.cores) colours_.emplace(cpu, rank_colour(rank.local_rank));
  }

  Picture draw() {
    box({0, 0, 0, 0, 0xffffff, 0xffffff, "machine"});
    const auto cores =
        std::to_string(machine_.cores.size()) + (machine_.cores.size() == 1 ? " core" : " cores");
    const auto cpus = machine_.cpus();
    label({kPad, 24, 15,
           machine_.cpu_model.empty() ? "Unknown processor" : plain(machine_.cpu_model), 0x202020,
           false, true});
    label({kPad, 42, 12, cores + ", CPUs " + short_list(cpus)});
    int y = 54;
    std::vector<Size> sizes, places;
    const auto packages = blocks();
    for (const auto& [package, members] : packages) sizes.push_back(package_size(members));
    const auto all = flow(sizes, kWidest, places);
    std::size_t i = 0;
    for (const auto& [package, members] : packages) {
      draw_package(package, members, {kPad + places[i].width, y + places[i].height}, sizes[i]);
      ++i;
    }
    y += all.height + kPad;
    width_ = std::max(all.width, 640);
    for (const int node : far_memory())
      draw_memory(node, kPad, y, width_), y += kMemoryHeight + kCoreGap;
    if (plan_ != nullptr) y = draw_legend(y + kPad);
    // The width of a letter is about 0.6 times the font size.
    for (const auto& one : picture_.labels)
      width_ = std::max(width_, one.x + static_cast<int>(one.text.size()) * one.size * 6 / 10);
    picture_.width = width_ + 2 * kPad;
    picture_.height = y + kPad;
    picture_.boxes.front().width = picture_.width;
    picture_.boxes.front().height = picture_.height;
    return std::move(picture_);
  }

 private:
  void box(Box box) { picture_.boxes.push_back(std::move(box)); }
  void label(Label label) { picture_.labels.push_back(std::move(label)); }

  const NumaNode& node(int index) const { return machine_.nodes[static_cast<std::size_t>(index)]; }

  /// True if `memory` is a node without cores that is close to at least one of these CPUs.
  bool beside(const NumaNode& memory, const CpuList& cpus) const {
    return memory.cpus.empty() && !topology::intersect(memory.near_cpus, cpus).empty();
  }

  /// Returns the blocks of each package; packages are in the machine's order.
  std::map<int, std::vector<Block>> blocks() {
    std::map<int, std::vector<Block>> packages;
    for (const auto& core : machine_.cores) {
      auto& members = packages[core.package];
      if (members.empty() || members.back().node != core.node)
        members.push_back({.node = core.node});
      members.back().cores.push_back(&core);
    }
    for (auto& [package, members] : packages)
      for (auto& block : members) {
        CpuList cpus;
        for (const auto* core : block.cores)
          cpus.insert(cpus.end(), core->cpus.begin(), core->cpus.end());
        std::sort(cpus.begin(), cpus.end());
        for (int i = 0; i < static_cast<int>(machine_.nodes.size()); ++i)
          // Memory near more than one node, such as CXL memory that the whole machine shares, is
          // drawn below all packages instead.
          if (beside(node(i), cpus) && block.node >= 0 &&
              node(i).near_cpus.size() <= node(block.node).near_cpus.size() && !drawn_[i]) {
            drawn_[i] = true;
            block.memory.push_back(i);
          }
        block.measure();
      }
    return packages;
  }

  /// Returns the indices of memory nodes that are not drawn next to cores.
  std::vector<int> far_memory() const {
    std::vector<int> found;
    for (int i = 0; i < static_cast<int>(machine_.nodes.size()); ++i)
      if (node(i).cpus.empty() && !drawn_.contains(i)) found.push_back(i);
    return found;
  }

  static Size package_size(const std::vector<Block>& members) {
    std::vector<Size> sizes, places;
    for (const auto& block : members) sizes.push_back(block.size);
    const auto inside = flow(sizes, kWidest / 2, places);
    return {inside.width + 2 * kPad, inside.height + kTitle + kPad};
  }

  void draw_package(int package, const std::vector<Block>& members, Size at, Size size) {
    box({at.width, at.height, size.width, size.height, 0xf4f4f0, 0x909090, "package"});
    label({at.width + kPad, at.height + 15, 12, "Package " + std::to_string(package), 0x202020,
           false, true});
    std::vector<Size> sizes, places;
    for (const auto& block : members) sizes.push_back(block.size);
    flow(sizes, kWidest / 2, places);
    for (std::size_t i = 0; i < members.size(); ++i)
      draw_block(members[i], at.width + kPad + places[i].width,
                 at.height + kTitle + places[i].height);
  }

  void draw_block(const Block& block, int x, int y) {
    box({x, y, block.size.width, block.size.height, 0xe6ecf2, 0x8090a0, "node"});
    const auto memory_text = [&](const NumaNode& n) {
      return std::string(topology::to_string(n.kind)) + " " +
             (n.memory > 0 ? amount(n.memory) : "no memory");
    };
    label({x + kPad, y + 15, 11,
           block.node < 0 ? "No NUMA node"
                          : "NUMA node " + std::to_string(node(block.node).os_index) + ", " +
                                memory_text(node(block.node)) + users(block.node)});
    int top = y + kTitle;
    for (const int memory : block.memory) {
      draw_memory(memory, x + kPad, top, block.size.width - 2 * kPad);
      top += kMemoryHeight + kCoreGap;
    }
    for (std::size_t i = 0; i < block.cores.size(); ++i) {
      const auto column = static_cast<int>(i) % block.columns,
                 row = static_cast<int>(i) / block.columns;
      draw_core(*block.cores[i], x + kPad + column * (kCellWidth + kCoreGap),
                top + row * (block.core_height() + kCoreGap));
    }
  }

  void draw_core(const topology::Core& core, int x, int y) {
    box({x, y, kCellWidth, static_cast<int>(core.cpus.size()) * kCellHeight, 0xffffff, 0x404040,
         "core"});
    for (const int cpu : core.cpus) {
      const auto found = colours_.find(cpu);
      box({x, y, kCellWidth, kCellHeight, found == colours_.end() ? kUnused : found->second,
           0x909090, "pu"});
      label({x + kCellWidth / 2, y + 13, 10, std::to_string(cpu), 0x202020, true});
      y += kCellHeight;
    }
  }

  void draw_memory(int index, int x, int y, int width) {
    const auto& memory = node(index);
    box({x, y, width, kMemoryHeight, 0xfff6d8, 0xb09850, "memory"});
    label({x + 6, y + 15, 11,
           "NUMA node " + std::to_string(memory.os_index) + ", " +
               topology::to_string(memory.kind) + " " +
               (memory.memory > 0 ? amount(memory.memory) : "no memory") + users(index)});
  }

  /// Returns a label that names the ranks whose memory is on a node.
  std::string users(int index) const {
    if (plan_ == nullptr) return "";
    CpuList ranks;
    for (const auto& rank : plan_->ranks)
      if (std::count(rank.memory_nodes.begin(), rank.memory_nodes.end(), node(index).os_index) > 0)
        ranks.push_back(rank.local_rank);
    if (ranks.empty()) return "";
    return (ranks.size() == 1 ? ", rank " : ", ranks ") + topology::format_cpu_list(ranks);
  }

  int draw_legend(int y) {
    for (const auto& rank : plan_->ranks) {
      box({kPad, y, kCellWidth, kCellHeight, rank_colour(rank.local_rank), 0x404040, "rank"});
      label({kPad + kCellWidth / 2, y + 13, 10, std::to_string(rank.local_rank), 0x202020, true,
             true});
      std::string text = "rank " + std::to_string(rank.local_rank) + ": CPUs " +
                         short_list(rank.cores) + ", " + std::to_string(rank.threads) +
                         (rank.threads == 1 ? " thread" : " threads");
      if (rank.policy != MemoryPolicy::none)
        text += std::string(", memory ") + (rank.policy == MemoryPolicy::bind ? "of" : "first of") +
                (rank.memory_nodes.size() == 1 ? " node " : " nodes ") +
                topology::format_cpu_list(rank.memory_nodes);
      label({2 * kPad + kCellWidth, y + 13, 11, text});
      y += kCellHeight + kCoreGap;
    }
    if (!plan_->reserved.empty()) {
      box({kPad, y, kCellWidth, kCellHeight, kReserved, 0x404040, "rank"});
      label({2 * kPad + kCellWidth, y + 13, 11, "reserved: CPUs " + short_list(plan_->reserved)});
      y += kCellHeight + kCoreGap;
    }
    for (const auto* sentences : {&plan_->notes, &plan_->warnings})
      for (const auto& sentence : *sentences) label({kPad, y + 13, 11, sentence}), y += kCellHeight;
    return y;
  }

  const Machine& machine_;
  const HostPlan* plan_;
  std::map<int, Colour> colours_;
  std::map<int, bool> drawn_;
  Picture picture_;
  int width_ = 0;
};

}  // namespace

Colour rank_colour(int rank) {
  // The golden angle gives consecutive ranks different hues. Colors are light, so that numbers on
  // them are readable.
  const double hue = std::fmod(205 + rank * 137.508, 360) / 60;
  const double most = 0.94, range = rank / 8 % 2 == 0 ? 0.42 : 0.26;
  const double middle = most - range + range * (1 - std::abs(std::fmod(hue, 2) - 1));
  const double least = most - range;
  constexpr std::array<std::array<int, 3>, 6> kOrders{
      {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}}};
  const std::array<double, 3> levels{most, middle, least};
  Colour colour = 0;
  for (const int channel : kOrders[static_cast<std::size_t>(hue) % 6])
    colour = colour << 8 |
             static_cast<Colour>(std::lround(levels[static_cast<std::size_t>(channel)] * 255));
  return colour;
}

Picture draw(const Machine& machine, const HostPlan* plan) { return Drawing(machine, plan).draw(); }

}  // namespace anyaccel::launch
