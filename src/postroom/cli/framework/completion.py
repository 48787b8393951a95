"""Completion scripts for shells. Each script asks the program for candidates, so it never has to be renewed."""

from __future__ import annotations

from postroom.cli.framework.candidates import FILES
from postroom.cli.framework.runner import ASK
from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.spec import CommandTable

_BASH = r"""_PROGRAM() {
  local line current="${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = "FILES" ]; then
      compopt -o filenames 2>/dev/null || true
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    else
      printf -v line %q "${line%%$'\t'*}"
      COMPREPLY+=("$line")
    fi
  done < <("${COMP_WORDS[0]}" ASK "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _PROGRAM PROGRAM
"""

_ZSH = r"""(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_PROGRAM() {
  local line
  local -a values shown
  for line in "${(@f)$("${words[1]}" ASK "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case "$line" in
      'FILES') _files ;;
      ?*) values+=("${line%%$'\t'*}"); shown+=("${line/$'\t'/  -- }") ;;
    esac
  done
  (( $#values )) && compadd -l -d shown -a values
}
compdef _PROGRAM PROGRAM
"""

_FISH = r"""function __PROGRAM_candidates
  set -l typed (commandline -opc)
  set -l current (commandline -ct)
  for line in ($typed[1] ASK $typed[2..-1] "$current" 2>/dev/null)
    if test "$line" = 'FILES'
      __fish_complete_path "$current"
    else
      echo $line
    end
  end
end
complete -c PROGRAM -f -a '(__PROGRAM_candidates)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion_script(program: CommandTable | str, shell: str) -> str:
    """Return the completion script for `shell`: bash, zsh or fish. Refuses any other shell with `InvalidInput`.

    `program` is a table of commands, or the name of a program.
    """
    if shell not in _SCRIPTS:
        raise InvalidInput(f"there is no completion for {shell!r}", field="shell", hint=f"Choose one of: {', '.join(_SCRIPTS)}.")
    name = program if isinstance(program, str) else program.name
    return _SCRIPTS[shell].replace("PROGRAM", name).replace("ASK", ASK).replace("FILES", FILES)
