/* remove PATH...

Removes what is there, with all that is below it. No link is followed. */
#include <dirent.h>

#include "tree.h"

static int remove_at(int directory, const char *name)
{
    char block[2048]; /* for each directory that it is in */
    int why = sys(unlinkat, directory, name, 0), removed = 1;
    if (why != -EISDIR && why != -EPERM)
        return why == -ENOENT ? 0 : why;
    int inner = sys(openat, directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return inner;
    for (why = 0; removed && !why;) { /* names move while others go */
        removed = 0;
        sys(lseek, inner, 0, 0);
        for (long got; !why && (got = sys(getdents64, inner, block, sizeof block)) > 0;)
            for (long at = 0; at < got && !why;) {
                struct dirent *entry = (void *)(block + at);
                at += entry->d_reclen;
                if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
                    why = remove_at(inner, entry->d_name), removed = 1;
            }
    }
    sys(close, inner);
    return why ? why : sys(unlinkat, directory, name, AT_REMOVEDIR);
}

int remove_all(char **arguments)
{
    int failed = 0;
    for (; *arguments; arguments++) {
        int above = open_above(*arguments, 0), why = above < 0 ? above : remove_at(above, last_part(*arguments));
        if (above >= 0)
            sys(close, above);
        failed = failed || (why && why != -ENOENT);
    }
    return failed;
}
