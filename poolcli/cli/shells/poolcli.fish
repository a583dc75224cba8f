# Asks poolcli how the word under the cursor may go on. What it answers, a word a line, is data and never evaluated.
function __poolcli_complete
    set -l word (commandline -ct)
    set -l line (commandline -cp)
    set -l found (env _POOLCLI_COMPLETE="$line" poolcli 2>/dev/null | string match -v '')
    if set -l flag (string match -r '^--[^=]+=' -- $word)
        set found $flag$found
    else if test (count $found) -eq 0; and string match -qr '^[~$]' -- $word
        complete -C "'' $word"
    end
    printf '%s\n' $found
end
complete --command poolcli --no-files --arguments '(__poolcli_complete)'
