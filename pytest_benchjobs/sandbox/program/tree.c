/* No path is ever given to the kernel, only names: no link is followed, and a tree may be of any depth. */
#include "tree.h"

#include <unistd.h>

#include "frames.h"

enum { DEPTH = 1 << 17 };

static char outgoing[CHUNK + 4096], incoming[CHUNK];
static size_t out_used, in_used, in_there;

_Noreturn void die(const char *what)
{
    sys(write, 2, "bench: ", 7);
    sys(write, 2, what, strlen(what));
    sys(write, 2, "\n", 1);
    sys(exit_group, 70);
    __builtin_unreachable();
}

void flush(void)
{
    if (write_all(1, outgoing, out_used))
        die("standard output is closed");
    out_used = 0;
}

/* Room for the next bytes of output, which count as soon as they are passed to `out`. */
char *out_room(size_t size)
{
    if (sizeof outgoing - out_used < size)
        flush();
    return outgoing + out_used;
}

void out(const void *bytes, size_t size)
{
    char *to = out_room(size);
    if (to != bytes)
        memcpy(to, bytes, size);
    out_used += size;
}

void out_record(const struct record *record, const char *name, const char *target)
{
    out(record, sizeof *record);
    out(name, record->name_size);
    out(target, record->target_size);
}

/* Shows the next bytes of input, at least one. */
size_t peek(const char **bytes, size_t most)
{
    while (in_used == in_there) {
        long got = sys(read, 0, incoming, CHUNK);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            die("standard input ends early");
        in_used = 0, in_there = got;
    }
    size_t size = in_there - in_used < most ? in_there - in_used : most;
    *bytes = incoming + in_used;
    in_used += size;
    return size;
}

void in(void *bytes, size_t size)
{
    const char *from;
    for (size_t done = 0, part; done < size; done += part) {
        part = peek(&from, size - done);
        memcpy((char *)bytes + done, from, part);
    }
}

static char **roots;
static uint64_t root_count;
static const char *top; /* the name of the root that we are in */

void set_roots(char **paths)
{
    for (roots = paths; roots[root_count];)
        root_count++;
}

int is_in_root(const char *path)
{
    for (char **root = roots; *root; root++) {
        size_t same = common(*root, path);
        if (!(*root)[same] && (!path[same] || path[same] == '/' || (same && path[same - 1] == '/')))
            return 1;
    }
    return 0;
}

/* Reads where an open file is; returns the size of that. */
long path_of(int file, char path[TARGET + 1])
{
    char link[32] = "/proc/self/fd/", *end = link + strlen(link);
    int power = 1;
    while (file / power >= 10)
        power *= 10;
    for (; power; power /= 10)
        *end++ = '0' + file / power % 10;
    long size = sys(readlinkat, AT_FDCWD, link, path, TARGET);
    path[size < 0 ? 0 : size] = 0;
    return size;
}

static int is_name(const char *name)
{
    for (const char *at = name; *at; at++)
        if (*at == '/')
            return 0;
    return *name && strcmp(name, ".") && strcmp(name, "..");
}

/* Reads a record. Its name is one that a directory can hold; right below the directory of a root it is the root's. */
enum kind in_record(struct record *record, char *name, char *target)
{
    in(record, sizeof *record);
    if (record->name_size > NAME || record->target_size > TARGET)
        die("a name is too long");
    in(name, record->name_size);
    in(target, record->target_size);
    name[record->name_size] = target[record->target_size] = 0;
    if (strlen(name) != record->name_size || strlen(target) != record->target_size)
        die("a name has a 0");
    if (record->kind == ROOT ? record->size >= root_count : record->kind != END && depth + lost == 0)
        die("something is outside of the roots");
    if (record->kind != ROOT && record->kind != END && record->kind != LEAVE)
        if (depth + lost == 1 ? strcmp(name, top) : !is_name(name))
            die("a name is none");
    return record->kind;
}

static struct level {
    dev_t device;
    ino_t inode;
} levels[DEPTH];
int here = -1;
size_t depth, lost;

static int push(int directory)
{
    struct stat found;
    if (directory < 0)
        return directory;
    int why = depth == DEPTH ? -ENAMETOOLONG : sys(fstat, directory, &found);
    if (why) {
        sys(close, directory);
        return why;
    }
    levels[depth++] = (struct level){found.st_dev, found.st_ino};
    sys(close, here);
    here = directory;
    return 0;
}

int begin_root(int directory)
{
    depth = lost = 0;
    return push(directory);
}

int enter(const char *name)
{
    return push(sys(openat, here, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/* Goes to the directory above. That has to be the one we came from: somebody may move directories meanwhile. */
void leave(void)
{
    struct stat found;
    if (--depth == 0)
        return;
    int above = must("a directory above", 70, openat, here, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must("a directory above", 70, fstat, above, &found);
    if (found.st_dev != levels[depth - 1].device || found.st_ino != levels[depth - 1].inode)
        die("a directory was moved meanwhile");
    sys(close, here);
    here = above;
}

/* Opens the directory that holds what is at `path` below `at`, which is closed. With `make`, what is missing on the way is made. */
static int descend(int at, const char *path, int make)
{
    while (*path == '/')
        path++;
    while (at >= 0) {
        char name[NAME + 1];
        size_t size = 0;
        while (path[size] && path[size] != '/')
            size++;
        if (!path[size])
            return at;
        int next = size && size <= NAME ? 0 : -ENAMETOOLONG;
        memcpy(name, path, next ? 0 : size);
        name[next ? 0 : size] = 0;
        if (!strcmp(name, ".."))
            next = -EBADMSG;
        if (!next && make)
            sys(mkdirat, at, name, 0755);
        if (!next)
            next = sys(openat, at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        sys(close, at);
        at = next;
        path += size + 1;
    }
    return at;
}

int open_above(const char *path, int make)
{
    return descend(sys(openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path, make);
}

/* Opens the directory that holds `path`, whose first part has to be the name of a root. */
int open_target(uint64_t root, const char *path)
{
    if (root >= root_count)
        die("a link leads out of the roots");
    const char *name = last_part(roots[root]);
    size_t size = common(name, path);
    if (name[size] || (path[size] && path[size] != '/'))
        die("a link leads out of the roots");
    return descend(open_above(roots[root], 0), path, 0);
}

/* Goes where a record leads. What is not there is lost, with all that follows up to its end; the result is why. */
int go(const struct record *record, const char *name, int make)
{
    int why = 0;
    if (record->kind == ROOT) {
        top = last_part(roots[record->size]);
        why = begin_root(open_above(roots[record->size], make));
        lost = why ? 1 : 0;
    } else if (record->kind == ENTER || record->kind == MAKE) {
        if (lost || (why = enter(name)))
            lost++;
    } else if (record->kind == LEAVE) {
        if (lost)
            lost--;
        else
            leave();
    }
    return why;
}

/* Opens a regular file of `here` to read it. */
int open_file(const char *name, struct stat *found)
{
    int why = sys(newfstatat, here, name, found, AT_SYMLINK_NOFOLLOW);
    if (why || !S_ISREG(found->st_mode))
        return why ? why : -ESTALE;
    int file = sys(openat, here, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && (sys(fstat, file, found) || !S_ISREG(found->st_mode))) {
        sys(close, file);
        return -ESTALE;
    }
    return file;
}

/* Finds the next bytes at or after `at` that are no hole, up to `end`; -1: there are none. */
int64_t extent(int file, int64_t at, int64_t size, int64_t *end)
{
    int64_t start = at < size ? sys(lseek, file, at, SEEK_DATA) : -ENXIO;
    if (start == -EINVAL)
        start = at; /* a file system that knows no holes */
    if (start < 0 || start >= size)
        return -1;
    *end = sys(lseek, file, start, SEEK_HOLE);
    if (*end < 0 || *end > size)
        *end = size;
    return start;
}
