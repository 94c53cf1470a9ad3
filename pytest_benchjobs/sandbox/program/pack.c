/* digest ROOT...: reads a key of 16 bytes and a script, and writes 16 bytes for each file to check: a digest, or zeros.

pack ROOT...: reads a script and writes it with the content of files: extents (offset, size, bytes), one of size 0, and 0 or
the reason why some of it is missing. */
#include "tree.h"

static char name[NAME + 1], target[TARGET + 1];

/* SipHash-1-3 of 128 bits: who does not know the key finds no two contents with one digest. */
static uint64_t key[2];
static struct sip {
    uint64_t v0, v1, v2, v3;
} state;

static inline __attribute__((always_inline)) void sip_round(struct sip *at)
{
    at->v0 += at->v1, at->v1 = __builtin_rotateleft64(at->v1, 13) ^ at->v0, at->v0 = __builtin_rotateleft64(at->v0, 32);
    at->v2 += at->v3, at->v3 = __builtin_rotateleft64(at->v3, 16) ^ at->v2;
    at->v0 += at->v3, at->v3 = __builtin_rotateleft64(at->v3, 21) ^ at->v0;
    at->v2 += at->v1, at->v1 = __builtin_rotateleft64(at->v1, 17) ^ at->v2, at->v2 = __builtin_rotateleft64(at->v2, 32);
}

static void sip_begin(void)
{
    state = (struct sip){
        key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f83, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
}

/* Takes whole words; zeros fill the last one, which is fair as the size comes, too. */
static void sip_take(const void *bytes, size_t size)
{
    struct sip at = state;
    for (size_t done = 0; done < size; done += 8) {
        uint64_t word = 0;
        __builtin_memcpy(&word, (const char *)bytes + done, 8);
        if (size - done < 8)
            word &= (1UL << 8 * (size - done)) - 1;
        at.v3 ^= word;
        sip_round(&at);
        at.v0 ^= word;
    }
    state = at;
}

static void sip_end(uint64_t digest[2])
{
    for (int half = 0; half < 2; half++) {
        *(half ? &state.v1 : &state.v2) ^= half ? 0xdd : 0xee;
        for (int turn = 0; turn < 3; turn++)
            sip_round(&state);
        digest[half] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
    }
}

/* Takes the content of a file of `here` as it is to be carried, where data lie and the data: up to what the record says there
are. Files with other holes are not the same, even if they read the same. The result is why some of it is missing. */
static int read_content(const struct record *record, const char *name, void (*take)(const void *bytes, size_t size))
{
    struct stat found;
    int file = lost ? -ESTALE : open_file(name, &found);
    if (file < 0)
        return file;
    uint64_t most = record->data;
    int why = (uint64_t)found.st_size == record->size ? 0 : -ESTALE;
    for (int64_t end = 0, at; !why && (at = extent(file, end, found.st_size, &end)) >= 0;) {
        while (at < end && !why) {
            uint32_t part = end - at < CHUNK ? end - at : CHUNK;
            char *room = out_room(12 + part + 8); /* a digest takes whole words */
            long got = sys(pread64, file, room + 12, part, at);
            why = got < 0 ? got : got != part || part > most ? -ESTALE : 0;
            if (why)
                break;
            __builtin_memcpy(room, &at, 8);
            __builtin_memcpy(room + 8, &part, 4);
            take(room, 12 + part);
            at += part, most -= part;
        }
    }
    sys(close, file);
    return why;
}

/* Writes the content of a file of `here`, and why some of it is missing. */
uint32_t out_content(const struct record *record, const char *name)
{
    struct __attribute__((packed)) { uint64_t at; uint32_t size, why; } last = {.why = -read_content(record, name, out)};
    out(&last, sizeof last);
    return last.why;
}

int digest(char **arguments)
{
    struct record record;
    uint64_t found[2];
    set_roots(arguments);
    in(key, sizeof key);
    while (in_record(&record, name, target) != END) {
        go(&record, name, 0);
        if (record.kind != CHECK)
            continue;
        sip_begin();
        if (read_content(&record, name, sip_take))
            memset(found, 0, sizeof found);
        else
            sip_end(found);
        out(found, sizeof found);
    }
    flush();
    return 0;
}

int pack(char **arguments)
{
    struct record record;
    uint32_t failed = 0;
    if (*arguments && !strcmp(*arguments, "-o")) {
        sys(unlinkat, AT_FDCWD, arguments[1], 0);
        int file = must("-o", 70, openat, AT_FDCWD, arguments[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        must("-o", 70, dup3, file, 1, 0);
        arguments += 2;
    }
    set_roots(arguments);
    while (in_record(&record, name, target) != END) {
        go(&record, name, 0);
        out_record(&record, name, target);
        if (record.kind == CONTENT)
            failed |= out_content(&record, name);
    }
    out_record(&record, "", "");
    flush();
    return failed != 0;
}
