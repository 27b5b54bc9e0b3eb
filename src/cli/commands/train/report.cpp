#include "cli/commands/train/report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>

#include "anyaccel/dtype.h"
#include "base/untrusted_text.h"
#include "cli/commands/train/append.h"
#include "cli/commands/train/duration.h"
#include "cli/commands/train/summary.h"
#include "cli/commands/train/tensorboard.h"

namespace anyaccel::cli {

namespace {

using nlohmann::ordered_json;

double millions(std::int64_t count) { return static_cast<double>(count) / 1e6; }

std::string progress_text(const llm::FineTuneStep& s, double loss) {
  char text[200];
  std::snprintf(
      text, sizeof text,
      "step %lld  epoch %.2f  loss %.3f  %.0f tokens/s  MFU %.0f%%  memory %.1f MB  left %s",
      static_cast<long long>(s.step), s.epoch, loss, s.tokens_per_second, 100 * s.mfu,
      millions(s.memory_allocated), duration(s.seconds_left).c_str());
  return text;
}

ordered_json number_or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

void print_json(const ordered_json& line) {
  // A path may contain invalid UTF-8, which is replaced.
  std::cout << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
}

std::string training_text(const llm::FineTuneOptions& o) {
  std::string text = o.adapter ? "LoRA rank " + std::to_string(o.adapter->r) : "all weights";
  if (o.bits > 0) text += " over int" + std::to_string(o.bits) + " weights";
  return text + (o.from_scratch ? ", from random weights" : "");
}

const char* state_place(llm::OffloadDevice device) {
  switch (device) {
    case llm::OffloadDevice::host: return "in host memory";
    case llm::OffloadDevice::nvme: return "in a file";
    case llm::OffloadDevice::none: break;
  }
  return "on the device";
}

}  // namespace

void print_info(const llm::FineTuneInfo& info) {
  const llm::FineTuneOptions& o = info.options;
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  std::fprintf(stderr, "accelerator  %s (%s): %s\n", info.accelerator.c_str(), info.device.c_str(),
               info.reason.c_str());
  std::fprintf(stderr, "model        %s, %.2f million parameters, training %.2f million: %s, %s\n",
               printable_text(info.model_type, 60).c_str(), millions(info.parameters),
               millions(info.trained_parameters), training_text(o).c_str(), dtype_name(o.dtype));
  std::fprintf(stderr,
               "data         %lld files, %lld texts, %lld conversations, %lld tokens, %lld of "
               "them trained on\n",
               number(info.files), number(info.texts), number(info.conversations),
               number(info.tokens), number(info.learned_tokens));
  if (info.truncated > 0)
    std::fprintf(stderr, "             %lld conversations cut off at %lld tokens\n",
                 number(info.truncated), number(o.context));
  if (info.left_out > 0)
    std::fprintf(stderr, "             %lld examples left out: no token to train on\n",
                 number(info.left_out));
  if (info.bad_lines > 0) {
    std::fprintf(stderr, "             %lld malformed lines skipped\n", number(info.bad_lines));
    for (const std::string& reason : info.bad_reasons)
      std::fprintf(stderr, "             %s\n", printable_text(reason, 500).c_str());
  }
  std::fprintf(stderr, "rows         %lld of up to %lld tokens%s; %lld for validation\n",
               number(info.rows), number(o.context), o.packing ? ", packed" : "",
               number(info.validation_rows));
  std::fprintf(stderr, "steps        %lld, each of %lld x %lld rows\n", number(info.steps),
               number(o.accumulation), number(o.batch_size));
  std::fprintf(stderr, "peak         %.1f GFLOP/s in %s matrix products\n", info.peak_flops / 1e9,
               dtype_name(o.dtype));
  if (info.world_size > 1)
    std::fprintf(stderr, "ranks        %d, sharing each batch\n", info.world_size);
  if (o.zero_stage.value_or(0) > 0)
    std::fprintf(stderr, "optimizer    ZeRO stage %d, state %s\n", *o.zero_stage,
                 state_place(o.offload_optimizer.value_or(llm::OffloadDevice::none)));
  if (info.first_step > 0)
    std::fprintf(stderr, "resumed      after step %lld\n", number(info.first_step));
}

ordered_json json_of(const llm::FineTuneStep& s) {
  return {{"step", s.step},
          {"epoch", s.epoch},
          {"loss", s.loss},
          {"lr", s.lr},
          {"gradient_norm", s.gradient_norm},
          {"tokens", s.tokens},
          {"tokens_per_second", s.tokens_per_second},
          {"mfu", s.mfu},
          {"memory_allocated", s.memory_allocated},
          {"seconds", s.seconds}};
}

ordered_json json_of(const llm::FineTuneEvaluation& e) {
  return {{"step", e.step},
          {"validation_loss", e.loss},
          {"best", e.best},
          {"evaluation_seconds", e.seconds}};
}

void print_result(const llm::FineTuneResult& r, const llm::FineTuneInfo& info, bool json) {
  const std::string out = info.options.out.string();
  if (json) {
    print_json({{"accelerator", info.accelerator},
                {"losses", r.losses},
                {"final_loss", r.losses.empty() ? ordered_json() : ordered_json(r.final_loss)},
                {"tokens_per_second", r.tokens_per_second},
                {"steps", r.steps},
                {"seconds", r.seconds},
                {"validation_loss", number_or_null(r.validation_loss)},
                {"best_validation_loss", number_or_null(r.best_validation_loss)},
                {"best_step", r.best_validation_loss ? ordered_json(r.best_step) : ordered_json()},
                {"interrupted", r.interrupted},
                {"dtype", dtype_name(info.options.dtype)},
                {"parameters", info.parameters},
                {"trained_parameters", info.trained_parameters},
                {"bad_lines", info.bad_lines},
                {"world_size", info.world_size},
                {"same_weights", r.same_weights},
                {"out", out}});
    return;
  }
  print_training_summary(r);
  if (r.validation_loss) std::printf("validation loss %.3f nats per token\n", *r.validation_loss);
  if (r.best_validation_loss)
    std::printf("best validation loss %.3f after step %lld, in %s/best\n", *r.best_validation_loss,
                static_cast<long long>(r.best_step), out.c_str());
  std::printf("%s in %s\n", info.options.adapter ? "adapter" : "model", out.c_str());
  if (r.interrupted) print_resume_command(out);
}

struct FineTuneReport::Impl {
  bool json;
  std::filesystem::path log_path;
  int log = -1;
  std::optional<EventFile> events;
  bool log_failed = false, events_failed = false;
  bool terminal = isatty(STDERR_FILENO) != 0;
  double last = 0, loss = 0;
  std::int64_t steps = 0;
  std::optional<llm::FineTuneStep> latest;

  static void warn(const std::filesystem::path& path) {
    std::fprintf(stderr, "anyaccel: warning: cannot write %s: %s; training continues\n",
                 path.c_str(), std::strerror(errno));
  }

  void record(const ordered_json& line, std::int64_t step, const Scalars& scalars) {
    if (json) print_json(line);
    if (log >= 0 && !log_failed && !append_bytes(log, line.dump() + "\n")) {
      log_failed = true;
      warn(log_path);
    }
    if (events && !events_failed && !events->write(step, scalars)) {
      events_failed = true;
      warn(events->path());
    }
  }

  void clear_line() const {
    if (terminal) std::fputs("\r\x1b[K", stderr);
  }
};

FineTuneReport::FineTuneReport(const std::filesystem::path& log,
                               const std::filesystem::path& tensorboard, bool json,
                               std::int64_t first_step)
    : impl_(std::make_unique<Impl>()) {
  impl_->json = json;
  impl_->log_path = log;
  if (!log.empty()) impl_->log = open_for_appending(log, "log");
  if (!tensorboard.empty()) impl_->events.emplace(tensorboard, first_step);
}

FineTuneReport::~FineTuneReport() {
  if (impl_->log >= 0) ::close(impl_->log);
}

void FineTuneReport::step(const llm::FineTuneStep& s) {
  Impl& my = *impl_;
  my.record(json_of(s), s.step,
            {{"train/loss", s.loss},
             {"train/learning_rate", s.lr},
             {"train/gradient_norm", s.gradient_norm},
             {"train/epoch", s.epoch},
             {"train/tokens_per_second", s.tokens_per_second},
             {"train/mfu", s.mfu},
             {"train/memory_allocated", static_cast<double>(s.memory_allocated)}});
  ++my.steps;
  // An average over recent steps, because the loss of one batch is noisy.
  my.loss += (s.loss - my.loss) / static_cast<double>(std::min<std::int64_t>(my.steps, 20));
  my.latest = s;
  if (my.json) return;
  const double pause = my.terminal ? 0.1 : 5.0;
  if (my.last > 0 && s.seconds - my.last < pause) return;
  if (my.terminal)
    std::fprintf(stderr, "\r%s\x1b[K", progress_text(s, my.loss).c_str());
  else
    std::fprintf(stderr, "%s\n", progress_text(s, my.loss).c_str());
  my.last = s.seconds;
}

void FineTuneReport::evaluation(const llm::FineTuneEvaluation& e) {
  impl_->record(json_of(e), e.step, {{"validation/loss", e.loss}});
  if (impl_->json) return;
  impl_->clear_line();
  std::fprintf(stderr, "step %lld  validation loss %.3f%s\n", static_cast<long long>(e.step),
               e.loss, e.best ? ", the best so far" : "");
}

void FineTuneReport::finish() {
  if (!impl_->json && impl_->terminal && impl_->latest)
    std::fprintf(stderr, "\r%s\x1b[K\n", progress_text(*impl_->latest, impl_->loss).c_str());
}

}  // namespace anyaccel::cli
