// gex completion: completion scripts for shells.

#include <iostream>

#include "base/error.hpp"
#include "base/suggest.hpp"
#include "commands.hpp"

namespace gex::tool {
namespace {

constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

std::string options_of(const Command& command) {
  std::string text = "--help";
  for (const Option& option : command.options) text += " " + option.name;
  return text;
}

std::string names_of(const std::vector<Command>& commands) {
  std::string text = "help";
  for (const Command& command : commands) text += " " + command.name;
  return text;
}

void print_bash(const std::vector<Command>& commands) {
  std::cout << "# eval \"$(gex completion bash)\"\n_gex() {\n"
               "  local word=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
               "  if [ \"$COMP_CWORD\" -eq 1 ]; then words=\""
            << names_of(commands)
            << " --version --help\"\n"
               "  else case \"${COMP_WORDS[1]}\" in\n";
  for (const Command& command : commands)
    std::cout << "    " << command.name << ") words=\"" << options_of(command) << "\" ;;\n";
  std::cout << "    help) words=\"" << names_of(commands)
            << "\" ;;\n  esac; fi\n"
               "  case \"$word\" in\n"
               "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
               "    *) if [ \"$COMP_CWORD\" -eq 1 ] || [ \"${COMP_WORDS[1]}\" = help ]; then\n"
               "         COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
               "       else COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n"
               "  esac\n}\ncomplete -o filenames -F _gex gex\n";
}

// zsh reads bash's functions.
void print_zsh(const std::vector<Command>& commands) {
  std::cout << "# eval \"$(gex completion zsh)\"\nautoload -U +X bashcompinit && bashcompinit\n";
  print_bash(commands);
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\'");
  return "'" + text + "'";
}

void print_fish(const std::vector<Command>& commands) {
  std::cout << "# gex completion fish | source\n";
  for (const Command& command : commands) {
    std::cout << "complete -c gex -n __fish_use_subcommand -f -a " << command.name << " -d "
              << quoted(command.summary) << "\n";
    for (const Option& option : command.options) {
      const bool is_long = option.name.starts_with("--");
      std::cout << "complete -c gex -n '__fish_seen_subcommand_from " << command.name << "' "
                << (is_long ? "-l " + option.name.substr(2) : "-s " + option.name.substr(1))
                << (option.value.empty() ? "" : " -r") << " -d " << quoted(option.help) << "\n";
    }
  }
}

int run(const Arguments& arguments) {
  const std::string& shell = arguments.file();
  if (shell == kShells[0])
    print_bash(all_commands());
  else if (shell == kShells[1])
    print_zsh(all_commands());
  else if (shell == kShells[2])
    print_fish(all_commands());
  else
    fail(ErrorCode::invalid_argument, "gex completion supports bash, zsh and fish, got '", shell,
         "'", suggestion(shell, kShells));
  return 0;
}

}  // namespace

Command completion_command() {
  return {"completion",
          "bash|zsh|fish",
          "prints a script that makes a shell complete commands and options",
          "Put eval \"$(gex completion bash)\" into ~/.bashrc (zsh: ~/.zshrc), or\n"
          "gex completion fish | source into ~/.config/fish/config.fish.",
          {},
          1,
          run,
          nullptr,
          "the name of a shell"};
}

}  // namespace gex::tool
