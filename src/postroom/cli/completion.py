"""Completion scripts for shells, drawn from the table."""

from __future__ import annotations

from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.grammar import Command, Flag, Program


def script(program: Program, shell: str) -> str:
    """The script that a shell evaluates."""
    if shell not in _SHELLS:
        raise InvalidInput(f"there is no completion for {shell!r}", field="shell", hint=f"Choose one of: {', '.join(_SHELLS)}.")
    return _SHELLS[shell](program)


def _flags(program: Program, command: Command) -> tuple[Flag, ...]:
    return (*command.flags, *program.flags)


def _is_path(flag: Flag) -> bool:
    return flag.metavar in ("PATH", "DIR")


def _values(flag: Flag) -> list[str]:
    """The words that a flag takes, if they are few: `low|normal|high`."""
    words = flag.metavar.replace("|", ",").split(",")
    return words if len(words) > 1 else []


def _first_words(program: Program) -> list[str]:
    return list(dict.fromkeys(name.split()[0] for name in program.commands))


def _bash(program: Program) -> str:
    cases = []
    for command in program.commands.values():
        names = " ".join(flag.name for flag in _flags(program, command))
        cases.append(f'    "{command.name}") words="{names} {" ".join(_words(program, command))}" ;;')
    groups = _grouped(program)
    for group, seconds in groups.items():
        cases.append(f'    "{group}") words="{" ".join(seconds)}" ;;')
    values = []
    for key, words in _valued(program).items():
        values.append(f'    "{key}") COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current")); return ;;')
    grouping = "|".join(groups) or "-"
    globals_ = "|".join(flag.name for flag in program.flags if flag.metavar)
    every = [flag for command in program.commands.values() for flag in _flags(program, command)]
    files = "|".join(dict.fromkeys(flag.name for flag in every if _is_path(flag)))
    return f"""_{program.name}() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    case "$word" in
      {globals_}) ((i++)) ;;
      -*) ;;
      *) case "$command" in
           "") command="$word" ;;
           {grouping}) command="$command $word" ;;
         esac ;;
    esac
  done
  case "$previous" in
    {files}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$command $previous" in
{chr(10).join(values)}
  esac
  case "$command" in
    "") words="{" ".join(_first_words(program))} {" ".join(flag.name for flag in program.flags)} --version" ;;
{chr(10).join(cases)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _{program.name} {program.name}
"""


def _zsh(program: Program) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(program)


def _fish(program: Program) -> str:
    rows = [f"complete -c {program.name} -f"]
    first = " ".join(_first_words(program))
    for flag in program.flags:
        rows.append(_fish_flag(program, "", flag))
    for command in program.commands.values():
        head, _, second = command.name.partition(" ")
        unseen = f"not __fish_seen_subcommand_from {first}"
        if second:
            unseen = f"__fish_seen_subcommand_from {head}; and not __fish_seen_subcommand_from {' '.join(_grouped(program)[head])}"
        rows.append(f"complete -c {program.name} -n '{unseen}' -a '{second or head}' -d '{_quote(command.summary)}'")
        seen = f"__fish_seen_subcommand_from {head}" + (f"; and __fish_seen_subcommand_from {second}" if second else "")
        rows += [_fish_flag(program, seen, flag) for flag in command.flags]
        if _words(program, command):
            rows.append(f"complete -c {program.name} -n '{seen}' -a '{' '.join(_words(program, command))}'")
    for group in _grouped(program):
        rows.append(f"complete -c {program.name} -n 'not __fish_seen_subcommand_from {first}' -a '{group}'")
    return "\n".join(rows) + "\n"


def _fish_flag(program: Program, condition: str, flag: Flag) -> str:
    when = f" -n '{condition}'" if condition else ""
    takes = " -r" if flag.metavar else ""
    files = " -F" if _is_path(flag) else ""
    words = f" -a '{' '.join(_values(flag))}'" if _values(flag) else ""
    return f"complete -c {program.name}{when} -l {flag.name[2:]}{takes}{files}{words} -d '{_quote(flag.help)}'"


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _grouped(program: Program) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in program.commands:
        head, _, second = name.partition(" ")
        if second:
            groups.setdefault(head, []).append(second)
    return groups


def _valued(program: Program) -> dict[str, list[str]]:
    """For `command --flag`, the words that may follow."""
    every = [(command, flag) for command in program.commands.values() for flag in command.flags]
    return {f"{command.name} {flag.name}": _values(flag) for command, flag in every if _values(flag)}


def _words(program: Program, command: Command) -> list[str]:
    """The words that a command takes without a flag, if they are few."""
    if command.name == "help":
        return _first_words(program)
    return [word for form in command.words if "|" in form for word in form.split("|")]


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
