/* remove PATH...

Removes what is there, with all that is below it. No link is followed. */
#include <dirent.h>
#include <errno.h>

#include "tree.h"

enum { DEEP = 200 }; /* each directory that we are in is an open file */

/* Moves what is deep below `top` right below it, under a name that nothing has there. */
static int move_up(int directory, const char *name, int top)
{
    static char free[] = "bench-00000000";
    int why;
    do
        for (char *digit = free + sizeof free - 2; ++*digit > '9'; digit--)
            *digit = '0';
    while ((why = sys(renameat2, directory, name, top, free, 0)) == -ENOTEMPTY || why == -EEXIST || why == -ENOTDIR);
    return why;
}

static int remove_at(int directory, const char *name, int top, int level)
{
    char block[2048]; /* for each directory that it is in */
    int why = sys(unlinkat, directory, name, 0), removed = 1;
    if (why != -EISDIR && why != -EPERM)
        return why == -ENOENT ? 0 : why;
    /* The top is read until nothing is left. Other file systems, and layers of images, are as deep as they are. */
    if (level >= DEEP && !move_up(directory, name, top))
        return 0;
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
                    why = remove_at(inner, entry->d_name, level ? top : inner, level + 1), removed = 1;
            }
    }
    sys(close, inner);
    return why ? why : sys(unlinkat, directory, name, AT_REMOVEDIR);
}

int remove_all(char **arguments)
{
    int failed = 0;
    for (; *arguments; arguments++) {
        int above = open_above(*arguments, 0);
        int why = above < 0 ? above : remove_at(above, last_part(*arguments), -1, 0);
        if (above >= 0)
            sys(close, above);
        failed = failed || (why && why != -ENOENT);
    }
    return failed;
}
