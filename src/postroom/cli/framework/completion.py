"""Completion scripts for shells, generated from a command table."""

from __future__ import annotations

from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.spec import Command, CommandTable, Flag


def completion_script(program: CommandTable, shell: str) -> str:
    """Return the completion script for `shell`: bash, zsh or fish. Refuses any other shell with `InvalidInput`."""
    if shell not in _SCRIPT_WRITERS:
        raise InvalidInput(f"there is no completion for {shell!r}", field="shell", hint=f"Choose one of: {', '.join(_SCRIPT_WRITERS)}.")
    return _SCRIPT_WRITERS[shell](program)


def _all_flags(program: CommandTable, command: Command) -> tuple[Flag, ...]:
    return (*command.flags, *program.flags)


def _is_path(flag: Flag) -> bool:
    return flag.metavar in ("PATH", "DIR")


def _flag_choices(flag: Flag) -> list[str]:
    """Return the values that a flag accepts if its metavar lists them, such as `low|normal|high`. Otherwise an empty list."""
    words = flag.metavar.replace("|", ",").split(",")
    return words if len(words) > 1 else []


def _first_words(program: CommandTable) -> list[str]:
    return list(dict.fromkeys(name.split()[0] for name in program.commands))


def _bash_script(program: CommandTable) -> str:
    cases = []
    for command in program.commands.values():
        names = " ".join(flag.name for flag in _all_flags(program, command))
        cases.append(f'    "{command.name}") words="{names} {" ".join(_word_choices(program, command))}" ;;')
    groups = _subcommands_by_group(program)
    for group, subcommands in groups.items():
        cases.append(f'    "{group}") words="{" ".join(subcommands)}" ;;')
    values = []
    for key, words in _choices_by_flag(program).items():
        values.append(f'    "{key}") COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current")); return ;;')
    group_names = "|".join(groups) or "-"
    global_flags = "|".join(flag.name for flag in program.flags if flag.metavar)
    all_flags = [flag for command in program.commands.values() for flag in _all_flags(program, command)]
    path_flags = "|".join(dict.fromkeys(flag.name for flag in all_flags if _is_path(flag)))
    return f"""_{program.name}() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    case "$word" in
      {global_flags}) ((i++)) ;;
      -*) ;;
      *) case "$command" in
           "") command="$word" ;;
           {group_names}) command="$command $word" ;;
         esac ;;
    esac
  done
  case "$previous" in
    {path_flags}) COMPREPLY=($(compgen -f -- "$current")); return ;;
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


def _zsh_script(program: CommandTable) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash_script(program)


def _fish_script(program: CommandTable) -> str:
    rows = [f"complete -c {program.name} -f"]
    first = " ".join(_first_words(program))
    for flag in program.flags:
        rows.append(_fish_flag(program, "", flag))
    for command in program.commands.values():
        head, _, second = command.name.partition(" ")
        unseen = f"not __fish_seen_subcommand_from {first}"
        if second:
            unseen = (
                f"__fish_seen_subcommand_from {head}; and not __fish_seen_subcommand_from {' '.join(_subcommands_by_group(program)[head])}"
            )
        rows.append(f"complete -c {program.name} -n '{unseen}' -a '{second or head}' -d '{_escape_quotes(command.summary)}'")
        seen = f"__fish_seen_subcommand_from {head}" + (f"; and __fish_seen_subcommand_from {second}" if second else "")
        rows += [_fish_flag(program, seen, flag) for flag in command.flags]
        if _word_choices(program, command):
            rows.append(f"complete -c {program.name} -n '{seen}' -a '{' '.join(_word_choices(program, command))}'")
    for group in _subcommands_by_group(program):
        rows.append(f"complete -c {program.name} -n 'not __fish_seen_subcommand_from {first}' -a '{group}'")
    return "\n".join(rows) + "\n"


def _fish_flag(program: CommandTable, condition: str, flag: Flag) -> str:
    when = f" -n '{condition}'" if condition else ""
    takes = " -r" if flag.metavar else ""
    files = " -F" if _is_path(flag) else ""
    words = f" -a '{' '.join(_flag_choices(flag))}'" if _flag_choices(flag) else ""
    return f"complete -c {program.name}{when} -l {flag.name[2:]}{takes}{files}{words} -d '{_escape_quotes(flag.help)}'"


def _escape_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _subcommands_by_group(program: CommandTable) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in program.commands:
        head, _, second = name.partition(" ")
        if second:
            groups.setdefault(head, []).append(second)
    return groups


def _choices_by_flag(program: CommandTable) -> dict[str, list[str]]:
    """Map each `command --flag` that has listed values to those values."""
    pairs = [(command, flag) for command in program.commands.values() for flag in command.flags]
    return {f"{command.name} {flag.name}": _flag_choices(flag) for command, flag in pairs if _flag_choices(flag)}


def _word_choices(program: CommandTable, command: Command) -> list[str]:
    """Return the words that a command accepts without a flag, if its spec lists them."""
    if command.name == "help":
        return _first_words(program)
    return [word for form in command.words if "|" in form for word in form.split("|")]


_SCRIPT_WRITERS = {"bash": _bash_script, "zsh": _zsh_script, "fish": _fish_script}
