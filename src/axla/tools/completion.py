"""axla completion: prints what a shell needs to complete the words of `axla`.

source <(axla completion bash)                                   bash, in ~/.bashrc
source <(axla completion zsh)                                    zsh, in ~/.zshrc, after compinit
axla completion fish > ~/.config/fish/completions/axla.fish      fish
"""

from __future__ import annotations

import argparse

SCRIPTS = {
    "bash": """_axla() {
  local IFS=$'\\n'
  COMPREPLY=($(axla completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o bashdefault -o default -F _axla axla
""",
    "zsh": """_axla() {
  local -a found
  found=("${(@f)$(axla completion --words "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -- $found; else _files; fi
}
compdef _axla axla
""",
    "fish": """function __axla_words
  set -l words (commandline -opc) (commandline -ct)
  axla completion --words $words[2..-1] 2>/dev/null
end
complete -c axla -a '(__axla_words)'
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla completion`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("shell", nargs="?", choices=list(SCRIPTS), help="print the script of a shell")
    what.add_argument(
        "--words", metavar="WORD", nargs=argparse.REMAINDER, help="print the completions of the last word"
    )


def execute(options: argparse.Namespace) -> int:
    """Runs `axla completion`; returns its exit status."""
    if options.words is None:
        print(SCRIPTS[options.shell], end="")
    else:
        print("".join(f"{word}\n" for word in candidates(options.words)), end="")
    return 0


def candidates(words: list[str]) -> list[str]:
    """The completions of the last of the `words` of a command line: verbs, options, or values of an option;
    none if the word is a file.
    """
    from axla.tools.main import VERBS, parser

    words = [word for word in words if word != "="] + [""] * (words[-1:] == ["="])  # bash splits --a=b
    *before, last = words or [""]
    verb = next((word for word in before if not word.startswith("-")), "")
    if not verb:
        known = [*VERBS, "--help", "--version"] if last.startswith("-") else list(VERBS)
        return [word for word in known if word.startswith(last)]
    if verb not in VERBS:
        return []
    if verb == "help":
        return [word for word in VERBS if word.startswith(last)]
    whole = parser(verb)
    [verbs] = [action for action in whole._actions if isinstance(action, argparse._SubParsersAction)]
    actions = verbs.choices[verb]._actions
    option, equals, value = last.partition("=")
    name = option if equals else (before[-1] if before else "")
    for action in actions:
        if name in action.option_strings and action.nargs != 0:
            prefix = f"{option}=" if equals else ""
            wanted = value if equals else last
            return [f"{prefix}{v}" for v in values(action) if v.startswith(wanted)]
    if last.startswith("-"):
        return [s for a in actions for s in a.option_strings if s.startswith(last)]
    return [v for a in actions if not a.option_strings for v in values(a) if v.startswith(last)]


def values(action: argparse.Action) -> list[str]:
    """The values that the argument `action` may have, as far as they can be listed."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.metavar == "BACKEND":
        from axla import backends

        return list(backends.names())
    if action.metavar == "KIND,...":
        from axla.comparison import KINDS

        return list(KINDS)
    if action.metavar == "ALIAS":
        from axla.target.names import TARGETS

        return ["native", *TARGETS]
    return []
