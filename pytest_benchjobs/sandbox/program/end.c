/* end VARIABLE [PROCESS...]

Kills commands that were given the variable, and their children.

Commands are what has no parent in the container, and processes that are named: children of the first process. A child that ignores SIGHUP (`nohup`) was made a daemon, and so was what
has outlived its parent. Each is stopped first, so that it starts no more. It ends nobody who resists: that is what the
first process is for.

signal INT|TERM GROUP

Sends a signal to a process group.

processes

Prints everything but the first process and itself: its number, its parent's, its time of the processors in ticks, and its
command line: 12 1 0 sleep 5, and a zero. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "frames.h"

enum { PIDS = 1 << 22, BLOCK = 1 << 16 };

static uint8_t ends[PIDS], commands[PIDS];

/* Opens a file of a directory of /proc. */
static int open_of(int proc, const char *pid, const char *name)
{
    int directory = sys(openat, proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int file = directory < 0 ? directory : sys(openat, directory, name, O_RDONLY | O_CLOEXEC);
    if (directory >= 0)
        sys(close, directory);
    return file;
}

/* Finds the value of a line that begins so. The kernel escapes names with line ends. */
static const char *line_of(const char *status, const char *key)
{
    for (; *status; status++)
        if (*status == '\n' && !key[common(status + 1, key)])
            return status + 1 + strlen(key);
    return NULL;
}

static int was_given(int proc, const char *pid, const char *variable)
{
    static char block[BLOCK];
    int file = open_of(proc, pid, "environ"), found = 0;
    size_t at = 0; /* in the name; `size` once it is another */
    size_t size = strlen(variable) + 1;
    for (long got; file >= 0 && !found && (got = sys(read, file, block, sizeof block)) > 0;)
        for (long next = 0; next < got && !found; next++) {
            if (!block[next])
                at = 0;
            else if (at < size)
                at = block[next] == (at + 1 < size ? variable[at] : '=') ? at + 1 : size + 1;
            found = at == size;
        }
    if (file >= 0)
        sys(close, file);
    return found;
}

static int has_to_end(int proc, const char *pid, const char *variable)
{
    static char status[8192];
    const char *parent_digits, *ignored;
    long parent, got;
    int file = open_of(proc, pid, "status");
    if (file < 0)
        return 0;
    got = sys(read, file, status, sizeof status - 1);
    sys(close, file);
    status[got < 0 ? 0 : got] = 0;
    if (!(parent_digits = line_of(status, "PPid:\t")) || !(ignored = line_of(status, "SigIgn:\t")))
        return 0;
    parent = number(parent_digits);
    if (!parent || (parent == 1 && commands[number(pid)]))
        return was_given(proc, pid, variable);
    while (ignored[1] && ignored[1] != '\n')
        ignored++;
    int digit = *ignored <= '9' ? *ignored - '0' : *ignored - 'a' + 10;
    return parent < PIDS && ends[parent] && !(digit & 1);
}

/* Stops whatever is found to have to end; returns how many there are. */
static int find(int proc, const char *variable)
{
    static char block[BLOCK];
    int found = 0;
    long got, self = sys(getpid, 0);
    sys(lseek, proc, 0, 0);
    while ((got = sys(getdents64, proc, block, sizeof block)) > 0)
        for (long at = 0; at < got;) {
            struct dirent *entry = (void *)(block + at);
            at += entry->d_reclen;
            long pid = number(entry->d_name);
            if (pid > 1 && pid < PIDS && pid != self && !ends[pid] && has_to_end(proc, entry->d_name, variable)) {
                sys(kill, pid, SIGSTOP);
                ends[pid] = 1, found++;
            }
        }
    return found;
}

/* Adds a number and a blank to a line. */
static size_t add_number(char *line, uint64_t number)
{
    char digits[20];
    size_t count = 0, size = 0;
    do
        digits[count++] = '0' + number % 10;
    while (number /= 10);
    while (count)
        line[size++] = digits[--count];
    line[size++] = ' ';
    return size;
}

/* Whether a process that was killed is still there: one that has ended has no command line. */
static int lives(int proc, long pid)
{
    char name[24], byte;
    name[add_number(name, pid) - 1] = 0;
    int file = open_of(proc, name, "cmdline"), found = file >= 0 && sys(read, file, &byte, 1) > 0;
    if (file >= 0)
        sys(close, file);
    return found;
}

int end(char **arguments)
{
    int proc = must("/proc", 70, openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!*arguments)
        return 2;
    for (char **at = arguments + 1; *at; at++)
        commands[number(*at) % PIDS] = 1;
    while (find(proc, *arguments))
        ;
    for (long pid = 2; pid < PIDS; pid++)
        if (ends[pid])
            sys(kill, pid, SIGKILL);
    /* Whoever asks next what runs is to see none of them. */
    struct timespec pause = {0, 1000000};
    int tries = 1000;
    for (long pid = 2; pid < PIDS; pid++)
        while (ends[pid] && tries && lives(proc, pid))
            tries--, sys(nanosleep, &pause, 0);
    return 0;
}

int signal_group(char **arguments)
{
    if (!arguments[0] || !arguments[1])
        return 2;
    return sys(kill, -number(arguments[1]), strcmp(arguments[0], "INT") ? SIGTERM : SIGINT) ? 1 : 0;
}

/* Prints a process; one that has ended says nothing of itself. */
static int print_process(int proc, const char *pid)
{
    enum { PARENT = 2, USER = 12, SYSTEM = 13 }; /* fields behind the name, which is in brackets */
    static char line[BLOCK], stat[4096];
    int file = open_of(proc, pid, "stat"), fields = 0;
    long got = file < 0 ? 0 : sys(read, file, stat, sizeof stat - 1);
    uint64_t parent = 0, ticks = 0;
    if (file >= 0)
        sys(close, file);
    stat[got < 0 ? 0 : got] = 0;
    const char *at = stat + strlen(stat);
    while (at > stat && *at != ')')
        at--;
    for (; *at; at++)
        if (*at == ' ' && ++fields == PARENT)
            parent = number(at + 1);
        else if (*at == ' ' && (fields == USER || fields == SYSTEM))
            ticks += number(at + 1);
    size_t size = add_number(line, number(pid));
    size += add_number(line + size, parent);
    size += add_number(line + size, ticks);
    file = open_of(proc, pid, "cmdline");
    got = file < 0 ? 0 : sys(read, file, line + size, sizeof line - size - 1);
    if (file >= 0)
        sys(close, file);
    if (got <= 0)
        return 0;
    while (got > 1 && !line[size + got - 1])
        got--;
    for (long byte = 0; byte < got; byte++)
        if (!line[size + byte])
            line[size + byte] = ' ';
    line[size + got] = 0;
    return write_all(1, line, size + got + 1);
}

int processes(char **arguments)
{
    static char block[BLOCK];
    int proc = must("/proc", 70, openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got, self = sys(getpid, 0);
    (void)arguments;
    while ((got = sys(getdents64, proc, block, sizeof block)) > 0)
        for (long at = 0; at < got;) {
            struct dirent *entry = (void *)(block + at);
            at += entry->d_reclen;
            long pid = number(entry->d_name);
            if (pid > 1 && pid != self && print_process(proc, entry->d_name))
                return 1;
        }
    return 0;
}
