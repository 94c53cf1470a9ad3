/* walk [-c] [-r] [-s TIME] LIMIT ROOT...: lists all that is below each root, sorted by name, a directory before what it holds.

With -c, the content of each file follows it, as pack writes it, and is not counted. With -s, a directory on overlayfs that
was not changed since then is not entered: nothing below it was, as that would have made a copy of it. With -r, links on the
way to a root are followed; what came of it is the target of the root's record. Nothing else is ever followed. A directory
that cannot be read, or for which LIMIT bytes of output do not suffice, says so at its end.

measure SINCE: the bytes on disk, and not in name, of what was changed or made since then in nanoseconds, on the disk of /. */
#include <dirent.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tree.h"

enum { DEVICES = 256, OVERLAYFS = 0x794c7630, NAMES = 64 << 20, DIRECTORIES = 1 << 17 };

/* The kernel's own views are no files of anybody: proc, sysfs, cgroup, cgroup2, devpts, mqueue. */
static const uint32_t views[] = {0x9fa0, 0x62656572, 0x27e0eb, 0x63677270, 0x1cd1, 0x19800202};

static struct directory {
    uint32_t names, numbers, count, next; /* where its names begin, and the places of these, sorted */
    dev_t device;
    int why;
    uint8_t overlay;
} directories[DIRECTORIES];
static char *names;        /* of all directories that we are in */
static uint32_t *numbers;  /* places of names */
static uint32_t names_used, numbers_used;
static uint64_t left;
static int contents;
static long since;
static int64_t measured_since; /* of measure; 0: the files are listed */
static uint64_t measured;
static dev_t disk;
static int incomplete;

static uint16_t number_of(dev_t device)
{
    static dev_t devices[DEVICES];
    static uint16_t known;
    for (uint16_t at = 0; at < known; at++)
        if (devices[at] == device)
            return at;
    if (known < DEVICES)
        devices[known++] = device;
    return known - 1;
}

/* Sorts places of names: makes a heap of them, and takes the last one from it until it is empty. */
static void sort(uint32_t *heap, uint32_t count)
{
    for (uint32_t begin = count / 2; begin || count > 1;) {
        if (begin) {
            begin--;
        } else {
            uint32_t last = heap[0];
            heap[0] = heap[--count], heap[count] = last;
        }
        for (uint32_t at = begin, child; (child = 2 * at + 1) < count; at = child) {
            uint32_t above = heap[at];
            if (child + 1 < count && strcmp(names + heap[child], names + heap[child + 1]) < 0)
                child++;
            if (strcmp(names + above, names + heap[child]) >= 0)
                break;
            heap[at] = heap[child], heap[child] = above;
        }
    }
}

static int read_names(struct directory *directory)
{
    static char block[CHUNK];
    long got;
    while ((got = sys(getdents64, here, block, sizeof block)) > 0) {
        if (names_used + got > NAMES)
            return -ENOMEM;
        for (long at = 0; at < got;) {
            struct dirent *entry = (void *)(block + at);
            at += entry->d_reclen;
            if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
                continue;
            size_t size = strlen(entry->d_name) + 1;
            memcpy(names + names_used, entry->d_name, size);
            numbers[numbers_used++] = names_used;
            names_used += size;
        }
    }
    directory->count = numbers_used - directory->numbers;
    sort(numbers + directory->numbers, directory->count);
    return got;
}

/* Bytes of a file that are no holes. */
static uint64_t data_of(const char *name, const struct stat *found)
{
    struct stat opened;
    if (found->st_blocks * 512 >= found->st_size)
        return found->st_size;
    int file = open_file(name, &opened);
    if (file < 0)
        return found->st_size;
    uint64_t data = 0;
    for (int64_t end = 0, start; (start = extent(file, end, opened.st_size, &end)) >= 0;)
        data += end - start;
    sys(close, file);
    return data;
}

static struct record described(const char *name, const struct stat *found)
{
    int special = S_ISCHR(found->st_mode) || S_ISBLK(found->st_mode);
    return (struct record){
        .kind = ENTRY,
        .flags = found->st_nlink > 1 && !S_ISDIR(found->st_mode) ? LINKED : 0,
        .name_size = strlen(name),
        .device = number_of(found->st_dev),
        .mode = found->st_mode,
        .uid = found->st_uid,
        .gid = found->st_gid,
        .mtime = found->st_mtim.tv_sec,
        .mtime_ns = found->st_mtim.tv_nsec,
        .ctime = found->st_ctim.tv_sec,
        .ctime_ns = found->st_ctim.tv_nsec,
        .inode = found->st_ino,
        .size = special ? found->st_rdev : S_ISDIR(found->st_mode) ? 0 : (uint64_t)found->st_size,
        .data = S_ISREG(found->st_mode) ? data_of(name, found) : 0,
    };
}

/* Enters a directory and reads its names. Of the kernel's views there are none. */
static int begin(struct directory *directory, const char *name, const struct stat *found)
{
    struct statfs system;
    *directory = (struct directory){.names = names_used, .numbers = numbers_used, .device = found->st_dev};
    int why = enter(name);
    if (why)
        return why;
    if (directory > directories && directory[-1].device == found->st_dev) {
        directory->overlay = directory[-1].overlay;
    } else {
        if ((why = sys(fstatfs, here, &system)))
            return why;
        directory->overlay = (uint32_t)system.f_type == OVERLAYFS ? OVERLAY : 0;
        for (size_t view = 0; view < sizeof views / sizeof *views; view++)
            if ((uint32_t)system.f_type == views[view])
                return 0;
    }
    return read_names(directory);
}

static void tell(const struct record *record, const char *name, const char *target)
{
    if (!measured_since)
        out_record(record, name, target);
}

static void end(int why)
{
    incomplete |= why;
    tell(&(struct record){.kind = LEAVE, .data = -why}, "", "");
}

/* Lists `name` of `here`, where `overlay` holds. A directory is entered, and becomes number `used`. */
static int list(const char *name, uint32_t *used, uint8_t overlay)
{
    static char target[TARGET];
    struct stat found;
    int why = sys(newfstatat, here, name, &found, AT_SYMLINK_NOFOLLOW);
    if (why)
        return why == -ENOENT ? 0 : why;
    if (measured_since && found.st_dev != disk)
        return 0;
    if (measured_since && found.st_ctim.tv_sec * 1000000000 + found.st_ctim.tv_nsec >= measured_since)
        measured += found.st_blocks * 512 / (S_ISDIR(found.st_mode) ? 1 : found.st_nlink); /* by each of its names */
    if (measured_since && !S_ISDIR(found.st_mode))
        return 0;
    struct record record = described(name, &found);
    record.flags |= overlay;
    if (S_ISLNK(found.st_mode)) {
        long size = sys(readlinkat, here, name, target, TARGET);
        if (size < 0)
            return size == -ENOENT ? 0 : size;
        record.target_size = size;
    }
    uint64_t size = sizeof record + record.name_size + record.target_size;
    if (size > left || *used == DIRECTORIES)
        return size > left ? -EFBIG : -ENAMETOOLONG;
    left -= size;
    if (S_ISDIR(found.st_mode) && overlay && found.st_ctim.tv_sec < since && found.st_dev == directories[*used - 1].device) {
        record.flags |= UNSEEN;
        out_record(&record, name, target);
        end(0);
    } else if (S_ISDIR(found.st_mode)) {
        size_t above = depth;
        struct directory *directory = &directories[*used];
        directory->why = begin(directory, name, &found);
        record.flags |= directory->overlay;
        tell(&record, name, target);
        if (depth > above)
            ++*used;
        else
            end(directory->why);
    } else {
        tell(&record, name, target);
        if (contents && S_ISREG(found.st_mode))
            out_content(&record, name);
    }
    return 0;
}

static void walk_root(const char *path)
{
    uint32_t used = 0;
    int why = list(last_part(path), &used, 0);
    while (used) {
        struct directory *directory = &directories[used - 1];
        if (!directory->why && directory->next < directory->count) {
            const char *name = names + numbers[directory->numbers + directory->next++];
            int failed = list(name, &used, directory->overlay);
            directory->why = failed ? failed : directory->why;
            continue;
        }
        end(directory->why);
        names_used = directory->names, numbers_used = directory->numbers;
        leave();
        used--;
    }
    end(why);
}

/* Follows links in what there is of a path; the rest stays as it is. */
static const char *resolved(const char *path)
{
    static char found[2 * (TARGET + 1)], way[TARGET + 1];
    size_t size = strlen(path);
    if (size > TARGET)
        return path;
    memcpy(way, path, size + 1);
    for (size_t cut = size; cut > 0; way[cut] = 0) {
        int there = sys(openat, AT_FDCWD, way, O_PATH | O_CLOEXEC);
        if (there >= 0) {
            long length = path_of(there, found);
            sys(close, there);
            if (length <= 0)
                return path;
            length -= length == 1 && path[cut] ? 1 : 0; /* / itself */
            memcpy(found + length, path + cut, size - cut + 1);
            return found;
        }
        while (cut > 0 && way[--cut] != '/')
            ;
    }
    return path;
}

static void make_room(void)
{
    names = (char *)must("memory", 70, mmap, 0, 3L * NAMES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    numbers = (uint32_t *)(names + NAMES); /* of 4 bytes, for names that have 2 at least */
}

int walk(char **arguments)
{
    int follow = 0;
    for (; *arguments && **arguments == '-'; arguments++) {
        char option = arguments[0][1];
        contents |= option == 'c', follow |= option == 'r';
        if (option == 's' && arguments[1])
            since = number(*++arguments);
    }
    if (!*arguments)
        die("walk [-c] [-r] [-s TIME] LIMIT ROOT...");
    left = number(*arguments++);
    make_room();
    for (uint64_t root = 0; arguments[root]; root++) {
        const char *path = follow ? resolved(arguments[root]) : arguments[root];
        int why = begin_root(open_above(path, 0));
        out_record(&(struct record){.kind = ROOT, .size = root, .target_size = strlen(path), .data = -why}, "", path);
        if (why)
            end(0);
        else
            walk_root(path);
    }
    out_record(&(struct record){.kind = END}, "", "");
    flush();
    return 0;
}

int measure(char **arguments)
{
    struct stat top;
    measured_since = number(*arguments), left = -1;
    must("/", 70, newfstatat, AT_FDCWD, "/", &top, 0);
    disk = top.st_dev;
    make_room();
    begin_root(open_above("/", 0));
    walk_root("/");
    out(&measured, sizeof measured);
    flush();
    return incomplete != 0;
}
