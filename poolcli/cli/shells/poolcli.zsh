#compdef poolcli
# Asks poolcli how the word under the cursor may go on. What it answers, a word a line, is data and never evaluated.
_poolcli() {
    local line value
    local -a values shown folders
    for line in "${(@f)$(_POOLCLI_COMPLETE="${words[1,CURRENT]}" ${words[1]} 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        if [[ $value == */ ]]; then
            folders+=("$value")
        elif [[ -n $value ]]; then
            values+=("$value")
            shown+=("${(r:22:)value}  ${line#*$'\t'}")
            [[ $line == *$'\t'* ]] || shown[-1]=$value
        fi
    done
    if (( $#values + $#folders == 0 )); then
        [[ $PREFIX == [~\$]* ]] && _files
        return
    fi
    [[ $PREFIX == --*=* ]] && compset -P '*='
    (( $#values )) && compadd -l -d shown -a values
    (( $#folders )) && compadd -S '' -a folders
}
if [[ ${funcstack[1]} == _poolcli ]]; then _poolcli "$@"; else compdef _poolcli poolcli; fi
