/* unpack [-i FILE] ROOT...: does what a script of pack says, and goes on where something failed. Prints a record for each such.

With -i, the script is in a file, which is removed if nothing failed. */
#include <unistd.h>

#include "frames.h"
#include "tree.h"

#include <linux/openat2.h>

enum { PLAIN = 01777, SET_ID = 06000 };

static char name[NAME + 1], target[TARGET + 1];

static int set_time(int at, const char *of, const struct record *record)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {record->mtime, record->mtime_ns}};
    return sys(utimensat, at, of, times, of ? AT_SYMLINK_NOFOLLOW : 0);
}

/* Sets owner, mode and time. Nobody gets rights of another: set-id bits may stay, and are not carried. */
static int settle(int file, const struct record *record)
{
    struct stat now;
    int why = sys(fstat, file, &now);
    int same_owner = now.st_uid == record->uid && now.st_gid == record->gid;
    int kept = same_owner ? now.st_mode & record->mode & SET_ID : 0;
    if (!why && !same_owner)
        why = sys(fchown, file, record->uid, record->gid);
    if (!why && (now.st_mode & (PLAIN | SET_ID)) != ((record->mode & PLAIN) | kept))
        why = sys(fchmod, file, (record->mode & PLAIN) | kept);
    return why ? why : set_time(file, 0, record);
}

static int settle_link(const struct record *record)
{
    int why = sys(fchownat, here, name, record->uid, record->gid, AT_SYMLINK_NOFOLLOW);
    return why ? why : set_time(here, name, record);
}

static int settle_file(const struct record *record)
{
    struct stat found;
    int file = open_file(name, &found);
    if (file < 0)
        return file;
    int why = settle(file, record);
    sys(close, file);
    return why;
}

/* Makes something; what is in the way, if it is no directory or an empty one, is removed first. */
#define made(call, ...) ({ \
    int result = sys(call, __VA_ARGS__); \
    int is_gone = result == -EEXIST && (!sys(unlinkat, here, name, 0) || !sys(unlinkat, here, name, AT_REMOVEDIR)); \
    is_gone ? (int)sys(call, __VA_ARGS__) : result; \
})

static int link_to(const struct record *record)
{
    int above = open_target(record->size, target);
    if (above < 0)
        return above;
    int why = made(linkat, above, last_part(target), here, name, 0);
    sys(close, above);
    return why;
}

/* Makes a file. Its content is read to its end whatever happens; `theirs`: some of it is missing. */
static int fill(const struct record *record, uint8_t *theirs)
{
    int why = lost ? -ENOENT : 0;
    int file = why ? why : made(openat, here, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, record->mode & PLAIN);
    uint64_t end = 0;
    why = file < 0 ? file : 0;
    for (;;) {
        struct __attribute__((packed)) { uint64_t at; uint32_t size; } part;
        uint32_t missing;
        in(&part, sizeof part);
        if (!part.size) {
            in(&missing, sizeof missing);
            *theirs = missing != 0;
            why = missing ? -(int)missing : why;
            break;
        }
        if (!why)
            sys(lseek, file, part.at, SEEK_SET);
        end = part.at;
        while (part.size) {
            const char *bytes;
            size_t size = peek(&bytes, part.size);
            why = why ? why : write_all(file, bytes, size);
            end += size, part.size -= size;
        }
    }
    if (!why && end != record->size)
        why = sys(ftruncate, file, record->size);
    if (!why)
        why = settle(file, record);
    if (file >= 0)
        sys(close, file);
    if (file >= 0 && why)
        sys(unlinkat, here, name, 0);
    return why;
}

static int has(const char *text, const char *part)
{
    for (; *text; text++)
        if (!part[common(text, part)])
            return 1;
    return 0;
}

/* Whether what was opened is below a root or, where it may be elsewhere, a file of the image; never anything of a process. */
static int is_lasting(int found, int may_be_elsewhere)
{
    static char path[TARGET + 1];
    long about[15] = {0}; /* third, the number of blocks: a file system of the kernel's own has none */
    struct stat now;
    if (sys(fstatfs, found, about) || !about[2] || sys(fstat, found, &now))
        return 0;
    path_of(found, path);
    return is_in_root(path) || (may_be_elsewhere && S_ISREG(now.st_mode));
}

/* What a link leads to may come there later, as files of scorers do, or be another for each process: why it is not LASTING. */
static int check_target(int may_be_elsewhere)
{
    struct { uint64_t flags, mode, resolve; } how = {O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS};
    int found = sys(openat2, here, target, &how, sizeof how), why;
    if (found == -ENOSYS || found == -EPERM) /* before Linux 5.6, or forbidden: what a process has of its own is called so */
        found = has(target, "proc/") || has(target, "dev/") ? -ELOOP : sys(openat, here, target, O_PATH | O_CLOEXEC);
    why = found < 0 ? found : is_lasting(found, may_be_elsewhere) ? 0 : -EXDEV;
    if (found >= 0)
        sys(close, found);
    return why;
}

static int make_link(const struct record *record, uint8_t *theirs)
{
    int why = record->flags & LASTING ? check_target(record->flags & ELSEWHERE) : 0;
    if ((*theirs = why != 0))
        return why;
    why = made(symlinkat, target, here, name);
    return why ? why : settle_link(record);
}

/* Makes a directory. One that is there and cannot go, as it is not empty or a mount, is taken. */
static int make_directory(void)
{
    struct stat found;
    int why = made(mkdirat, here, name, 0700);
    return why == -EEXIST && !sys(newfstatat, here, name, &found, AT_SYMLINK_NOFOLLOW) && S_ISDIR(found.st_mode) ? 0 : why;
}

static int apply(const struct record *record, uint8_t *theirs)
{
    if (record->kind == CONTENT)
        return fill(record, theirs);
    if (lost)
        return 0;
    switch (record->kind) {
    case MAKE:
        return make_directory();
    case SYMLINK:
        return make_link(record, theirs);
    case HARDLINK:
        return link_to(record);
    case META:
        return S_ISLNK(record->mode) ? settle_link(record) : settle_file(record);
    case REMOVE:
        return sys(unlinkat, here, name, S_ISDIR(record->mode) ? AT_REMOVEDIR : 0);
    case LEAVE:
        return record->mode ? settle(here, record) : 0;
    default:
        return 0;
    }
}

int unpack(char **arguments)
{
    struct record record;
    const char *from = *arguments && !strcmp(*arguments, "-i") ? arguments[1] : 0;
    int failed = 0;
    if (from) {
        int file = must("-i", 70, openat, AT_FDCWD, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        must("-i", 70, dup3, file, 0, 0);
        arguments += 2;
    }
    sys(umask, 0);
    set_roots(arguments);
    for (uint64_t count = 0; in_record(&record, name, target) != END; count++) {
        uint8_t theirs = 0;
        int why = apply(&record, &theirs), gone = go(&record, name, 1);
        why = why ? why : gone;
        failed |= why;
        if (why)
            out_record(&(struct record){.kind = FAILED, .flags = theirs, .size = -why, .data = count}, "", "");
    }
    out_record(&record, "", "");
    flush();
    if (from && !failed)
        sys(unlinkat, AT_FDCWD, from, 0);
    return from && failed;
}
