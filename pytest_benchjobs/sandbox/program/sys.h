/* Calls of the kernel, for a program without a libc: it runs in images that have none. Structures are in Linux's headers. */
#ifndef SYS_H
#define SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* sys(write, 1, text, size): the result, or an error number below 0. */
#define sys(name, ...) SYS_CALL(SYS_##name, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define SYS_CALL(number, a, b, c, d, e, f, ...) \
    system_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
long system_call(long number, long a, long b, long c, long d, long e, long f);

/* The result of a call that has to work: else the program says `bench: WHAT: errno 111 of connect`, and ends. */
#define must(what, status, name, ...) checked(sys(name, __VA_ARGS__), "bench: " what, #name, status)
long checked(long result, const char *what, const char *call, int status);

/* As in a libc. */
void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
size_t strlen(const char *text);
int strcmp(const char *one, const char *other);

/* From now on nobody traces this process, and no signal that it does not wait for reaches it. */
void be_out_of_reach(void);

/* Kills all processes but the first and this one, as often as there are some. */
void kill_all_others(long tries);

/* The decimal number that a text begins with. */
long number(const char *digits);

/* The number of bytes that both texts begin with. */
size_t common(const char *one, const char *other);

/* The part of a path behind its last slash. */
const char *last_part(const char *path);

/* The value of a variable, if `name` is its name, or another variable of that name; else NULL. */
const char *value_of(const char *variable, const char *name);

extern char **environment;

#endif
