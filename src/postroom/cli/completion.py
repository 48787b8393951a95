"""Completion scripts for shells, drawn from the table."""

from __future__ import annotations

from postroom.cli.table import COMMANDS, GLOBAL, Command, Flag
from postroom.core.errors import InvalidInput


def script(shell: str) -> str:
    """The script that a shell evaluates."""
    if shell not in _SHELLS:
        raise InvalidInput(f"there is no completion for {shell!r}", field="shell", hint=f"Choose one of: {', '.join(_SHELLS)}.")
    return _SHELLS[shell]()


def _flags(command: Command) -> tuple[Flag, ...]:
    return (*command.flags, *GLOBAL)


def _values(flag: Flag) -> list[str]:
    """The words that a flag takes, if they are few: `low|normal|high`."""
    words = flag.metavar.replace("|", ",").split(",")
    return words if len(words) > 1 else []


def _first_words() -> list[str]:
    return list(dict.fromkeys(name.split()[0] for name in COMMANDS))


def _bash() -> str:
    cases = []
    for command in COMMANDS.values():
        names = " ".join(flag.name for flag in _flags(command))
        cases.append(f'    "{command.name}") words="{names} {" ".join(_words(command))}" ;;')
    groups = _grouped()
    for group, seconds in groups.items():
        cases.append(f'    "{group}") words="{" ".join(seconds)}" ;;')
    values = []
    for key, words in _valued().items():
        values.append(f'    "{key}") COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current")); return ;;')
    grouping = "|".join(groups)
    return f"""_inbox() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    case "$word" in
      --db|--agent) ((i++)) ;;
      -*) ;;
      *) case "$command" in
           "") command="$word" ;;
           {grouping}) command="$command $word" ;;
         esac ;;
    esac
  done
  case "$previous" in
    --db|--body-file|--artifact|--install) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$command $previous" in
{chr(10).join(values)}
  esac
  case "$command" in
    "") words="{" ".join(_first_words())} {" ".join(flag.name for flag in GLOBAL)} --version" ;;
{chr(10).join(cases)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _inbox inbox
"""


def _zsh() -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash()


def _fish() -> str:
    rows = ["complete -c inbox -f"]
    first = " ".join(_first_words())
    for flag in GLOBAL:
        rows.append(_fish_flag("", flag))
    for command in COMMANDS.values():
        head, _, second = command.name.partition(" ")
        unseen = f"not __fish_seen_subcommand_from {first}"
        if second:
            unseen = f"__fish_seen_subcommand_from {head}; and not __fish_seen_subcommand_from {' '.join(_grouped()[head])}"
        rows.append(f"complete -c inbox -n '{unseen}' -a '{second or head}' -d '{_quote(command.summary)}'")
        seen = f"__fish_seen_subcommand_from {head}" + (f"; and __fish_seen_subcommand_from {second}" if second else "")
        rows += [_fish_flag(seen, flag) for flag in command.flags]
        if _words(command):
            rows.append(f"complete -c inbox -n '{seen}' -a '{' '.join(_words(command))}'")
    for group in _grouped():
        rows.append(f"complete -c inbox -n 'not __fish_seen_subcommand_from {first}' -a '{group}'")
    return "\n".join(rows) + "\n"


def _fish_flag(condition: str, flag: Flag) -> str:
    when = f" -n '{condition}'" if condition else ""
    takes = " -r" if flag.metavar else ""
    files = " -F" if flag.metavar in ("PATH", "DIR") else ""
    words = f" -a '{' '.join(_values(flag))}'" if _values(flag) else ""
    return f"complete -c inbox{when} -l {flag.name[2:]}{takes}{files}{words} -d '{_quote(flag.help)}'"


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _grouped() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in COMMANDS:
        head, _, second = name.partition(" ")
        if second:
            groups.setdefault(head, []).append(second)
    return groups


def _valued() -> dict[str, list[str]]:
    """For `command --flag`, the words that may follow."""
    return {f"{command.name} {flag.name}": _values(flag) for command in COMMANDS.values() for flag in command.flags if _values(flag)}


def _words(command: Command) -> list[str]:
    """The words that a command takes without a flag, if they are few."""
    if command.name == "help":
        return _first_words()
    return [word for form in command.words if "|" in form for word in form.split("|")]


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
