/* Directories entered name by name, and the records that walk, digest, pack and unpack read and write. */
#ifndef TREE_H
#define TREE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#include "sys.h"

enum { NAME = 255, TARGET = 4095, CHUNK = 1 << 18 };

/* Kinds. A listing has R, E and L; a script has R, D, N, L, C, F, S, H, M and X; both end with Z. */
enum kind {
    ROOT = 'R',     /* the directory that holds root number `size`; `data`: why it cannot be entered */
    ENTRY = 'E',    /* what walk found; after a directory come its entries and L */
    ENTER = 'D',    /* a directory that is there */
    MAKE = 'N',     /* a new directory, and enter it */
    LEAVE = 'L',    /* the end of a directory, which gets its mode, owner and time; in a listing, `data`: why it ended early */
    CHECK = 'C',    /* a file to be digested */
    CONTENT = 'F',  /* a file, whose content pack adds */
    SYMLINK = 'S',  /* a link; if it is to be LASTING, it is made only if what it leads to is there to stay */
    HARDLINK = 'H', /* a name of `target`, which is below the directory that holds root number `size` */
    META = 'M',     /* only mode, owner and time */
    REMOVE = 'X',
    FAILED = '!',   /* of unpack: record number `data` failed, for the reason `size` */
    END = 'Z',
};

/* Flags. Of ENTRY: UNSEEN is a directory that was not entered. Of SYMLINK: ELSEWHERE may lead to a file that is below no root. */
enum { OVERLAY = 1, LINKED = 2, UNSEEN = 4, LASTING = 1, ELSEWHERE = 2 };

/* Little-endian, as both machines are; name and target follow. */
struct __attribute__((packed)) record {
    uint8_t kind, flags;
    uint16_t name_size, target_size, device;
    uint32_t mode, uid, gid, mtime_ns, ctime_ns;
    uint64_t inode, size, data; /* data: bytes that are no holes */
    int64_t mtime, ctime;
};

/* Results are those of the kernel: an error number below 0. */
char *out_room(size_t size);
void out(const void *bytes, size_t size);
void out_record(const struct record *record, const char *name, const char *target);
uint32_t out_content(const struct record *record, const char *name);
void flush(void);
size_t peek(const char **bytes, size_t most);
void in(void *bytes, size_t size);
enum kind in_record(struct record *record, char *name, char *target);
_Noreturn void die(const char *what);

/* The directory that we are in; how many were entered to get there; and how many more a script entered that are not there. */
extern int here;
extern size_t depth, lost;
int begin_root(int directory);
int enter(const char *name);
void leave(void);

void set_roots(char **paths);
int go(const struct record *record, const char *name, int make);
int open_above(const char *path, int make);
int open_target(uint64_t root, const char *path);
int is_in_root(const char *path);
long path_of(int file, char path[TARGET + 1]);

int open_file(const char *name, struct stat *found);
int64_t extent(int file, int64_t at, int64_t size, int64_t *end);

#endif
