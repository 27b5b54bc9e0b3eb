// anyaccel chat: a conversation with a model.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/chat.h"
#include "anyaccel/llm/stop_signal.h"
#include "cli/commands/adapter.h"
#include "cli/commands/commands.h"
#include "cli/commands/generation_options.h"
#include "cli/commands/input_lines.h"
#include "cli/commands/speculation_options.h"

namespace anyaccel::cli {

namespace {

struct ChatArguments {
  GenerationOptions options;
  SpeculationOptions speculation;
  std::string system, render;
};

llm::ChatTemplate load_template(const std::string& folder) {
  if (auto chat = llm::ChatTemplate::load(folder)) return std::move(*chat);
  throw Error(ErrorCode::unsupported, "chat",
              {.what = "the model in " + folder + " has no chat template",
               .want = "chat_template.jinja, or \"chat_template\" in tokenizer_config.json",
               .hint = "use `anyaccel generate` instead"});
}

/// Returns the template variables for a line of the --render file. If the line is a JSON list, it
/// becomes the value of `messages`.
std::string variables_of(const std::string& line) {
  return line.find_first_not_of(" \t") != line.npos && line[line.find_first_not_of(" \t")] == '['
             ? "{\"messages\": " + line + ", \"add_generation_prompt\": true}"
             : line;
}

/// Prints the rendered text of each line as a JSON string.
void render_lines(const ChatArguments& arguments) {
  const llm::ChatTemplate chat = load_template(arguments.options.model);
  for_each_input("chat", "", arguments.render, [&](const std::string& line) {
    std::cout << nlohmann::json(chat.apply_json(variables_of(line))).dump() << '\n';
  });
  std::cout << std::flush;
}

/// A conversation. The model is loaded once. Each turn reuses the KV cache of earlier turns, up to
/// the first position where the template renders those turns differently.
class Conversation {
 public:
  explicit Conversation(const ChatArguments& arguments)
      : arguments_(arguments),
        options_(ready_options(arguments.options)),
        template_(load_template(arguments.options.model)),
        tokenizer_(llm::Tokenizer::load(arguments.options.model)),
        model_(load_with_adapter(arguments.options)),
        generator_(model_, &tokenizer_) {
    options_.speculation = ready_speculation(arguments.speculation, model_, &tokenizer_);
    reset();
  }

  void reset() {
    messages_.clear();
    if (!arguments_.system.empty())
      messages_.push_back({.role = "system", .content = arguments_.system});
  }

  /// Prints the answer as it is generated. On success, adds the question and the answer to the
  /// conversation.
  void answer(const std::string& question, const llm::StopCondition& stop) {
    auto messages = messages_;
    messages.push_back({.role = "user", .content = question});
    const auto prompt = tokenizer_.encode(template_.apply(messages), /*add_special_tokens=*/false);
    const auto result = generator_.generate(
        prompt, options_,
        [](std::string_view piece) { std::cout << for_output(piece) << std::flush; }, stop);
    std::cout << std::endl;
    if (result.finish == llm::FinishReason::context) {
      std::cerr << "anyaccel: the model's " << model_.config().context_length()
                << "-token context is full; /reset clears the conversation\n";
    }
    messages.push_back({.role = "assistant", .content = result.text});
    messages_ = std::move(messages);
  }

 private:
  const ChatArguments& arguments_;
  llm::GenerateOptions options_;
  const llm::ChatTemplate template_;
  const llm::Tokenizer tokenizer_;
  const llm::Model model_;
  llm::Generator generator_;
  std::vector<llm::Message> messages_;
};

void run_chat(ChatArguments& arguments, Context& context) {
  find_base_model(arguments.options);
  if (!arguments.render.empty()) return render_lines(arguments);
  Conversation conversation(arguments);
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal)
    std::cerr << "/exit or Ctrl-D: exit, /reset: clear the conversation, Ctrl-C: stop generating\n";
  // On a terminal, Ctrl-C stops the current answer and is ignored at the prompt. There is no time
  // limit: only a second Ctrl-C terminates the program.
  std::optional<llm::StopSignal> stop;
  const auto watch = llm::StopSignal::Watch::interrupt;
  if (terminal) stop.emplace(watch);
  for (std::string line;;) {
    if (terminal) std::cerr << "> " << std::flush;
    if (!std::getline(std::cin, line) || line == "/exit") return;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (line == "/reset") {
      conversation.reset();
      continue;
    }
    terminal ? stop->again() : void(stop.emplace(watch, llm::StopSignal::kShort));
    try {
      conversation.answer(line, stop->flag());
    } catch (const Error& error) {
      // Drop this turn and continue with the next one.
      if (error.code() != ErrorCode::invalid_argument) throw;
      std::cerr << "anyaccel: error: " << error.what() << '\n';
      context.exit_code = 1;
    }
    terminal ? stop->again() : stop.reset();
  }
}

}  // namespace

void add_chat(CLI::App& command, Context& context) {
  auto arguments = std::make_shared<ChatArguments>();
  ChatArguments& a = *arguments;
  a.options.generate.max_new_tokens = 1024;
  add_generation_options(command, a.options);
  add_speculation_options(command, a.speculation);
  command.add_option("--system", a.system, "System prompt");
  command
      .add_option("--render", a.render,
                  "Render the chat template for each line of this file (-: standard input), print "
                  "the results and exit; each line is a JSON list of messages, or a JSON object of "
                  "template variables")
      ->type_name("FILE");
  command.callback([arguments, &context] { run_chat(*arguments, context); });
}

}  // namespace anyaccel::cli
