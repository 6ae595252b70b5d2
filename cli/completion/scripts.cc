#include "cli/completion/scripts.h"

namespace harmonaize {

// The answer's first line says how to go on, and each further one is a candidate and, behind a tab,
// what it means. No candidate is given to anything that would expand it.
const char* BashCompletion() {
  return R"(# bash completion for harmonaize
_harmonaize() {
  local -a lines=()
  local line first current=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  mapfile -t lines < <("$1" complete --shell bash "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null)
  case ${lines[0]-} in
    program\ *)
      first=${lines[0]#program }
      if declare -F _command_offset >/dev/null; then
        _command_offset "$first"
      elif ((COMP_CWORD == first)); then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -A command -A file -- "$current")
      else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -A file -- "$current")
      fi
      ;;
    files)
      [[ $current == [=:] ]] && current=
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -A file -- "$current")
      ;;
    words)
      for line in "${lines[@]:1}"; do
        COMPREPLY+=("${line%%$'\t'*}")
      done
      ;;
  esac
}
complete -F _harmonaize harmonaize
)";
}

const char* ZshCompletion() {
  return R"(#compdef harmonaize
# zsh completion for harmonaize
_harmonaize() {
  local -a lines values shown
  local line first
  lines=("${(@f)$("${(Q)words[1]}" complete --shell zsh $((CURRENT - 1)) -- "${(@Q)words}" 2>/dev/null)}")
  case ${lines[1]} in
    program\ *)
      first=${lines[1]#program }
      shift $first words
      ((CURRENT -= first))
      _normal
      ;;
    files)
      compset -P '*='
      _files
      ;;
    words)
      for line in "${(@)lines[2,-1]}"; do
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
      done
      compadd -l -d shown -a values
      ;;
  esac
}
if [[ ${funcstack[1]} == _harmonaize ]]; then
  _harmonaize "$@"
else
  compdef _harmonaize harmonaize
fi
)";
}

}  // namespace harmonaize
