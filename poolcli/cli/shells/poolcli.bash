# Asks poolcli how the word under the cursor may go on. What it answers, a word a line, is data and never evaluated.
_poolcli() {
    local line i=$COMP_CWORD colons=0 word=${COMP_WORDS[COMP_CWORD]} IFS=
    COMPREPLY=()
    [[ $word == *[!:]* ]] && i=$((i - 1)) # where bash splits words at colons, it replaces what follows the last one
    while ((i > 0)) && [[ ${COMP_WORDS[i]} =~ ^:+$ ]]; do
        colons=$((colons + ${#COMP_WORDS[i]})) i=$((i - 2))
    done
    while read -r line; do
        line=${line%%$'\t'*}
        for ((i = 0; i < colons; i++)); do line=${line#*:}; done
        [[ -n $line ]] && COMPREPLY+=("$line")
    done < <(_POOLCLI_COMPLETE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null)
    if ((${#COMPREPLY[@]} == 0)) && [[ $word == [~\$]* ]]; then
        compopt -o default
    elif [[ ${COMPREPLY[*]} == *[!A-Za-z0-9_-]* ]]; then
        compopt -o filenames # quotes what needs it, and leaves no space behind a folder
    fi
}
complete -F _poolcli poolcli
