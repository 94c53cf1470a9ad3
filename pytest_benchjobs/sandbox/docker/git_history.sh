# Ends the history of the repositories in an image: sh -c SCRIPT sh WORKDIR [COMMIT]
#
# The repository that the workdir is in ends at COMMIT, else at its HEAD; where it is in none, those below it do. Any
# other repository that shares commits with these, such as an alternate or a clone, ends at the last one that it shares.
# Branches and tags stay if they do not lead beyond. Everything else that may name or hold a later commit goes: other
# refs, remotes, logs, half-done merges, alternates, and every object that nothing reaches.
set -eu
umask 022
fail() { echo "benchjobs: $*"; exit 1; }
command -v git > /dev/null || fail "there is no git in it"
[ -d "$1" ] || fail "there is no directory $1 in it"
workdir=$(cd "$1" && pwd -P)
cd /
# Neither variables nor settings of the image decide what git does here.
unset XDG_CONFIG_HOME $(env | sed -n 's/^\(GIT_[A-Z0-9_]*\)=.*/\1/p')
HOME=$(mktemp -d) GIT_CONFIG_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1
export HOME GIT_CONFIG_NOSYSTEM GIT_NO_REPLACE_OBJECTS

commit() { git --git-dir="$1" rev-parse -q --verify "$2^{commit}" 2> /dev/null; }

# The git directories of all work trees of a repository.
trees() {
    echo "$1"
    for tree in "$1"/worktrees/*/HEAD; do [ ! -e "$tree" ] || dirname "$tree"; done
}

# The work tree of a git directory; nothing for one that has none.
work_tree() {
    case $1 in
        */worktrees/*) cd "$1" && cd "$(dirname "$(cat gitdir)")" ;;
        */.git) [ "$(git --git-dir="$1" config --bool core.bare)" != true ] && cd "$1/.." ;;
        *) other=$(git --git-dir="$1" config core.worktree) && cd "$1" && cd "$other" ;;
    esac && pwd -P
}

# The last commit of the history that is kept which a repository has, too.
shared() {
    git --git-dir="$1" cat-file --batch-check='%(objectname) %(objecttype)' < "$HOME/line" | sed -n 's/ commit$//p' | head -n 1
}

# Take a work tree back to the end of the history, if it is beyond, and note what it needs.
rewind() {
    head=$(commit "$1" HEAD) || return 0
    if git --git-dir="$git_dir" merge-base --is-ancestor "$head" "$end"; then
        echo "$head" >> "$new/roots"
    elif files=$(work_tree "$1" 2> /dev/null) && [ -n "$files" ]; then
        git --git-dir="$1" --work-tree="$files" -c core.hooksPath=/dev/null checkout -q -f --detach "$end"
    else
        git --git-dir="$1" update-ref --no-deref HEAD "$end"
    fi
    [ ! -e "$1/index" ] || git --git-dir="$1" ls-files -s | sed -n '/^160000 /!s/^[0-7]* \([0-9a-f]*\) .*/\1/p' >> "$new/indexed"
}

# Pack what stays of a repository, while all alternates are still there.
pack() {
    git_dir=$1 end=$2 new=$3
    rm -f "$git_dir/info/grafts"
    git --git-dir="$git_dir" for-each-ref --format='delete %(refname)' > "$new/refs"
    git --git-dir="$git_dir" for-each-ref --merged="$end" --format='delete %(refname)' refs/heads refs/tags > "$new/kept"
    git --git-dir="$git_dir" for-each-ref --merged="$end" --format='%(objectname)' refs/heads refs/tags > "$new/roots"
    echo "$end" >> "$new/roots"
    : > "$new/indexed"
    trees "$git_dir" > "$new/trees"
    while read -r tree; do rewind "$tree"; done < "$new/trees"
    git --git-dir="$git_dir" rev-list --objects --stdin < "$new/roots" > "$new/objects"
    mkdir -p "$new/store/pack" "$new/store/info"
    cat "$new/objects" "$new/indexed" | git --git-dir="$git_dir" pack-objects -q "$new/store/pack/pack" > /dev/null
}

# Put it in the place of what was there.
replace() {
    git_dir=$1 end=$2 new=$3
    sort "$new/refs" "$new/kept" | uniq -u | git --git-dir="$git_dir" update-ref --no-deref --stdin
    if [ -e "$git_dir/objects/info/alternates" ]; then
        while read -r store; do
            # One that is part of a repository is emptied with it.
            (cd "$git_dir/objects" && cd "$store" && [ ! -e ../HEAD ] && rm -rf "$(pwd -P)") || :
        done < "$git_dir/objects/info/alternates"
    fi
    rm -rf "$(cd "$git_dir/objects" && pwd -P)" "$git_dir/objects"
    mv "$new/store" "$git_dir/objects"
    while read -r tree; do
        for what in logs '*_HEAD' '*MSG' 'BISECT_*' AUTO_MERGE 'rebase-*' sequencer refs/bisect refs/rewritten refs/worktree; do
            rm -rf "$tree"/$what
        done
    done < "$new/trees"
    rm -rf "$git_dir/lost-found" "$git_dir/rr-cache" "$git_dir/remotes" "$git_dir/branches"
    git --git-dir="$git_dir" config --name-only --get-regexp '^(remote|branch)\.' | sed 's/\.[^.]*$//' | sort -u |
        while read -r section; do git --git-dir="$git_dir" config --remove-section "$section"; done
    if [ -e "$git_dir/shallow" ]; then
        cut -d ' ' -f 1 "$new/objects" | sort - "$git_dir/shallow" | uniq -d > "$new/shallow"
        cat "$new/shallow" > "$git_dir/shallow"
        [ -s "$git_dir/shallow" ] || rm "$git_dir/shallow"
    fi
    git --git-dir="$git_dir" rev-list --objects --all "$end" > /dev/null
    chown -R "$(stat -c %u:%g "$git_dir")" "$git_dir"
}

find / \( -path /proc -o -path /sys -o -path /dev -o -path "$HOME" \) -prune -o -name HEAD -print |
    while read -r head; do
        git_dir=${head%/HEAD}
        [ ! -d "$git_dir/objects" ] || [ ! -d "$git_dir/refs" ] || echo "$git_dir"
    done > "$HOME/all"
own=
top=${workdir%/}
until [ -e "$top/.git" ] || [ -z "$top" ]; do top=${top%/*}; done
if [ -e "$top/.git" ]; then
    [ -d "$top/.git" ] && own=.git || own=$(sed -n 's/^gitdir: //p' "$top/.git")
    own=$(cd "$top/" && cd "$own" && pwd -P)
    last=$(commit "$own" "${2:-HEAD}") || fail "the repository of $1 has no commit ${2:-HEAD}"
    git --git-dir="$own" rev-list "$last" > "$HOME/line"
else
    top=${workdir%/}
    : > "$HOME/line"
    while read -r git_dir; do
        case $git_dir in "$top"/*) ;; *) continue ;; esac
        ! last=$(commit "$git_dir" "${2:-HEAD}") || git --git-dir="$git_dir" rev-list "$last" >> "$HOME/line"
    done < "$HOME/all"
    [ -s "$HOME/line" ] || fail "no repository in $1 has a commit ${2:-HEAD}"
fi
number=0
while read -r git_dir; do
    end=$(shared "$git_dir")
    case $git_dir in
        # One of its own, such as a submodule.
        "$top"/*) [ -n "$own" ] && [ -n "$end" ] || end=$(commit "$git_dir" "${2:-HEAD}" || commit "$git_dir" HEAD) || continue ;;
    esac
    [ -n "$end" ] || continue
    number=$((number + 1))
    mkdir "$HOME/$number"
    pack "$git_dir" "$end" "$HOME/$number"
    echo "$git_dir" > "$HOME/$number/git_dir"
    echo "$end" > "$HOME/$number/end"
done < "$HOME/all"
while [ "$number" -gt 0 ]; do
    replace "$(cat "$HOME/$number/git_dir")" "$(cat "$HOME/$number/end")" "$HOME/$number"
    number=$((number - 1))
done
rm -rf "$HOME"
