/* end VARIABLE

Kills commands that were given the variable, and their children.

Commands are what has no parent in the container. A child that ignores SIGHUP (`nohup`) was made a daemon, and so was what
has outlived its parent. Each is stopped first, so that it starts no more. It ends nobody who resists: that is what the
first process is for.

signal INT|TERM GROUP

Sends a signal to a process group. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>

#include "sys.h"

enum { PIDS = 1 << 22, BLOCK = 1 << 16 };

static uint8_t ends[PIDS];

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
    if (!(parent = number(parent_digits)))
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

int end(char **arguments)
{
    int proc = must("/proc", 70, openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!*arguments)
        return 2;
    while (find(proc, *arguments))
        ;
    for (long pid = 2; pid < PIDS; pid++)
        if (ends[pid])
            sys(kill, pid, SIGKILL);
    return 0;
}

int signal_group(char **arguments)
{
    if (!arguments[0] || !arguments[1])
        return 2;
    return sys(kill, -number(arguments[1]), strcmp(arguments[0], "INT") ? SIGTERM : SIGINT) ? 1 : 0;
}
