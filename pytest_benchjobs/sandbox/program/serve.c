/* serve [alone | open | pod LIFETIME | scorer]

Runs commands for our side, which says which over standard input and takes what they print from standard output
(frames.h). It runs as root: nothing that a call started is left when the call has ended. `alone`: nobody else is there, so
whatever else runs then is ended, too. `open`: what outlives its call lives on, as after a command of the engine. `pod`: the
same, as the first process of a Pod, which hears our side over the link (link.h), ends all others for KILL of call 0, and itself for CLOSE.
`scorer`: it runs one command, call 0, without input, listens for `bench-run`, whose requests of the same user it passes on,
and ends when the command does, with all that it left. The command's script comes before it, as input; it is file 3 of the
command, under no name, so that nobody else can read it.

variables

Prints the directory it is in, and its variables, each with a zero behind it.

print PATH

Prints a file of the kernel, which does not say how large it is. */
#include <errno.h>
#include <fcntl.h>
#include <asm/ioctls.h>
#include <linux/memfd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "link.h"

enum { CALLS = 128, MOST_WORDS = 1 << 21, MASK_SIZE = 8, CANNOT = 126, MISSING = 127, SCRIPT = 3 };
#define call(name, ...) must("serve", 70, name, __VA_ARGS__)

/* A call: of ours, a process with its streams; asked for, a connection (`in`, `out` and `pid` are not used). */
static struct slot {
    int used, pid, in, out, err, born, ended, status, refused;
    uint16_t number;
} calls[CALLS];
#define for_each_call(at) for (struct slot *at = calls; at < calls + CALLS; at++) if (at->used)

static char buffer[MOST], incoming[MOST];
static struct pollfd files[2 * CALLS + 4 + LINK_FILES];
static struct slot *fed; /* the call that the last input is for, of which it has not taken the rest */
static char *rest;
static uint32_t pending;
static int alone, opens, pod, scores, listener = -1, script = -1, unborn = -1;

static void close_file(int *file)
{
    if (*file >= 0)
        sys(close, *file);
    *file = -1;
}

/* Kills all children of this process, until there is none that it may kill; they are ours whatever they forked. */
static void end_children(void)
{
    static char listed[4096]; /* the last number may be cut off */
    int killed = 1, refused = 0;
    while ((killed || !refused) && sys(wait4, -1, 0, WNOHANG, 0) != -ECHILD) {
        int file = sys(openat, AT_FDCWD, "/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
        long got = file < 0 ? 0 : sys(read, file, listed, sizeof listed - 1);
        if (file >= 0)
            sys(close, file);
        long pid = 0;
        killed = refused = 0;
        for (long at = 0; at < got; at++) {
            if (listed[at] >= '0' && listed[at] <= '9') {
                pid = 10 * pid + listed[at] - '0';
            } else if (pid) {
                *(sys(kill, pid, SIGKILL) == -EPERM ? &refused : &killed) = 1;
                pid = 0;
            }
        }
        struct timespec pause = {0, 200000};
        sys(nanosleep, &pause, 0);
    }
}

/* Ends, with all that calls have started: whoever is graded here goes on here. */
_Noreturn static void leave(int status)
{
    end_children();
    sys(exit_group, status);
    __builtin_unreachable();
}

static void tell(enum frame_kind kind, uint16_t number, const void *bytes, uint32_t size)
{
    if (pod)
        link_write(kind, number, bytes, size);
    else if (write_frame(1, kind, number, bytes, size) < 0)
        leave(0); /* our side is gone */
}

static int status_of(int waited)
{
    return WIFSIGNALED(waited) ? 128 + WTERMSIG(waited) : WEXITSTATUS(waited);
}

static size_t count_of(char **texts)
{
    size_t count = 0;
    while (texts[count])
        count++;
    return count;
}

/* Runs a command by its path, or looks for it as a shell does. */
static long execute(char **command, char **variables)
{
    static char path[4096];
    const char *name = last_part(command[0]), *at = NULL;
    long failed = -ENOENT;
    for (char **one = variables; *one && !at; one++)
        at = value_of(*one, "PATH");
    if (!pod || name != command[0] || !at)
        return sys(execve, command[0], command, variables);
    for (size_t rest = strlen(name) + 2; *at; at += *at == ':') {
        size_t size = 0;
        for (; *at && *at != ':'; at++)
            if (size < sizeof path - rest)
                path[size++] = *at;
        path[size] = '/';
        memcpy(path + size + 1, name, rest - 1);
        long why = sys(execve, path, command, variables);
        failed = why == -ENOENT || why == -ENOTDIR ? failed : why;
    }
    return failed;
}

/* Takes the ids of a user, and of its groups, the first one before others: 1000,27,100. */
static void become_user(const char *uid, const char *gids)
{
    int groups[64] = {0}, count = 0;
    for (const char *at = gids; *at && count < 64; at += *at == ',') {
        groups[count++] = number(at);
        while (*at && *at != ',')
            at++;
    }
    sys(setgroups, count ? count - 1 : 0, groups + 1);
    sys(setresgid, groups[0], groups[0], groups[0]);
    sys(setresuid, number(uid), number(uid), number(uid));
}

/* Adds the processes of all calls to what `end` of our program is told: here they are no commands without a parent. */
static char **with_calls(char **command)
{
    static char *longer[CALLS + 4], numbers[CALLS][12];
    size_t count = 0;
    for (; command[count] && count < 3; count++)
        longer[count] = command[count];
    if (count != 3 || strcmp(last_part(command[0]), "program") || strcmp(command[1], "end"))
        return command;
    for_each_call (at) {
        char *digit = numbers[at - calls] + sizeof *numbers - 1;
        for (int pid = at->pid; pid > 0; pid /= 10)
            *--digit = '0' + pid % 10;
        longer[count++] = digit;
    }
    longer[count] = NULL;
    return longer;
}

/* Becomes the command: UID, GIDS, directory, variables, an empty text, command. It has ours as well, but for a scorer. */
_Noreturn static void become(char **texts)
{
    static const char of_cluster[] = "KUBERNETES_"; /* what a cluster says of itself is not the image's */
    char **command = texts + 3, *variables[count_of(texts) + count_of(environment)];
    size_t count = 0, given;
    while (**command)
        variables[count++] = *command++;
    *command++ = NULL;
    if (pod)
        command = with_calls(command);
    given = count;
    for (char **ours = environment; *ours && !scores; ours++) {
        size_t other = 0;
        if (pod && !of_cluster[common(*ours, of_cluster)] && strcmp(command[1] ? command[1] : "", "variables"))
            continue;
        while (other < given && !value_of(*ours, variables[other]))
            other++;
        if (other == given)
            variables[count++] = *ours;
    }
    variables[count] = NULL;
    sys(setsid, 0);
    if (*texts[0])
        become_user(texts[0], texts[1]);
    if (script == SCRIPT)
        sys(fcntl, script, F_SETFD, 0);
    else if (script >= 0)
        sys(dup3, script, SCRIPT, 0);
    long failed = sys(chdir, texts[2]);
    if (failed < 0)
        sys(write, unborn, "", 1);
    checked(failed, "no such directory", "chdir", CANNOT);
    failed = execute(command, variables);
    sys(write, unborn, "", 1);
    checked(failed, "bench: cannot run", command[0], failed == -ENOENT ? MISSING : CANNOT);
    __builtin_unreachable();
}

/* Forks a child that becomes the command, mostly below a process that ends all it leaves. */
static int forked(char **texts, const int streams[3])
{
    long nothing = 0;
    int pid = sys(clone, SIGCHLD, 0, 0, 0, 0);
    if (pid)
        return pid;
    if (!scores && !opens) {
        sys(prctl, PR_SET_CHILD_SUBREAPER, 1);
        int child = sys(clone, SIGCHLD, 0, 0, 0, 0), waited = 0;
        if (child < 0)
            sys(exit_group, CANNOT);
        if (child) {
            long awaited = 1L << (SIGCHLD - 1) | 1L << (SIGTERM - 1);
            int status = 128 + SIGKILL, ended = 0;
            /* Else the call's input has no end, nor its output. */
            if (sys(close_range, 0, -1, 0) < 0)
                for (int file = 0; file < 3 * CALLS + 16; file++)
                    sys(close, file);
            while (!ended && sys(rt_sigtimedwait, &awaited, 0, 0, MASK_SIZE) != SIGTERM)
                for (long got; !ended && (got = sys(wait4, -1, &waited, WNOHANG, 0)) > 0;)
                    if (got == child)
                        status = status_of(waited), ended = 1;
            end_children();
            sys(exit_group, status);
        }
    }
    for (int at = 0; at < 3; at++)
        if (sys(dup3, streams[at], at, 0) < 0)
            sys(close, at);
    sys(rt_sigprocmask, SIG_SETMASK, &nothing, 0, MASK_SIZE);
    become(texts);
}

static struct slot *slot_of(uint16_t number)
{
    for_each_call (at)
        if (at->number == number)
            return at;
    return NULL;
}

static struct slot *new_slot(uint16_t number)
{
    for (struct slot *at = calls; at < calls + CALLS; at++)
        if (!at->used) {
            *at = (struct slot){.used = 1, .number = number, .in = -1, .out = -1, .err = -1, .born = -1};
            return at;
        }
    return NULL;
}

/* Starts a call with pipes for its streams; `input`: it has a standard input. Where there may be no more processes, it ends. */
static void start_call(uint16_t number, char **texts, int input)
{
    static const char nothing_starts[] = "bench: no process can be started\n";
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, born[2] = {-1, -1};
    struct slot *made = new_slot(number);
    int failed = !made || (input && sys(pipe2, in, O_CLOEXEC)) || sys(pipe2, out, O_CLOEXEC) || sys(pipe2, err, O_CLOEXEC);
    failed = failed || (pod && sys(pipe2, born, O_CLOEXEC));
    unborn = born[1];
    int from = input ? in[0] : sys(openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
    int pid = failed ? -1 : forked(texts, (int[]){from, out[1], err[1]});
    sys(close, from), sys(close, out[1]), sys(close, err[1]), sys(close, born[1]);
    if (pid < 0) {
        sys(close, born[0]);
        sys(close, in[1]), sys(close, out[0]), sys(close, err[0]);
        if (made)
            made->used = 0;
        tell(ERRORS, number, nothing_starts, sizeof nothing_starts - 1);
        tell(EXIT, number, (unsigned char[]){CANNOT}, 1);
        if (scores && !number)
            sys(exit_group, CANNOT);
        return;
    }
    made->pid = pid, made->in = in[1], made->out = out[0], made->err = err[0], made->born = born[0];
    for (int *file = (int[]){in[1], out[0], err[0], born[0], -2}; *file != -2; file++)
        if (*file >= 0)
            sys(fcntl, *file, F_SETFL, O_NONBLOCK);
}

/* Passes on a piece of what a call printed: one that prints without end is not to keep us from all else. */
static long drain(struct slot *of, int *file, enum frame_kind kind)
{
    long got = *file < 0 ? 0 : sys(read, *file, buffer, sizeof buffer);
    if (got > 0)
        tell(kind, of->number, buffer, got);
    else if (got != -EAGAIN && got != -EINTR)
        close_file(file);
    return got;
}

/* Passes on what a call had printed when it ended; what it left running may go on. */
static void drain_rest(struct slot *of, int *file, enum frame_kind kind)
{
    int left = 0;
    sys(ioctl, *file, FIONREAD, &left);
    for (long got; left > 0 && (got = drain(of, file, kind)) > 0;)
        left -= got;
}

static void end_call(struct slot *of)
{
    unsigned char status[2] = {of->status, 0};
    int unborn = of->born >= 0 && sys(read, of->born, status + 1, 1) > 0;
    close_file(&of->born);
    drain_rest(of, &of->out, OUTPUT);
    drain_rest(of, &of->err, ERRORS);
    if (scores && !of->number)
        end_children();
    close_file(&of->in), close_file(&of->out), close_file(&of->err);
    of->used = 0;
    pending = fed == of ? 0 : pending;
    tell(EXIT, of->number, status, 1 + unborn);
    if (scores && !of->number)
        sys(exit_group, *status);
}

/* Kills what lost its keeper, which whoever is root there can kill. */
static void end_all_others(void)
{
    for_each_call (at)
        return;
    kill_all_others(1000);
}

static void bury(void)
{
    int waited;
    for (long pid; (pid = sys(wait4, -1, &waited, WNOHANG, 0)) > 0;)
        for_each_call (at)
            if (at->pid == pid)
                at->status = status_of(waited), at->ended = 1;
    for_each_call (at)
        if (at->ended)
            end_call(at);
    if (alone)
        end_all_others();
}

static void give_input(void)
{
    while (pending) {
        long put = fed->in < 0 ? (long)pending : sys(write, fed->in, rest, pending);
        if (put == -EAGAIN)
            return;
        if (put < 0) /* nobody reads it */
            close_file(&fed->in), put = pending;
        rest += put, pending -= put;
    }
}

/* Listens at an address that the kernel chooses, whose name is added to a variable. */
static void listen_for_clients(char *variable)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int size = sizeof address;
    listener = call(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    call(bind, listener, &address, sizeof address.sun_family);
    call(getsockname, listener, &address, &size);
    memcpy(variable + strlen(variable), address.sun_path + 1, size - sizeof address.sun_family - 1);
    call(listen, listener, CALLS);
}

/* Whether a variable is one of the names, or of NAME=PATH where there is such a file. */
static int is_one_of(const char *variable, char **names)
{
    for (; **names; names++) {
        const char *path = *names;
        while (*path && *path != '=')
            path++;
        if (value_of(variable, *names) && (!*path || !sys(faccessat, AT_FDCWD, path + 1, 0)))
            return 1;
    }
    return 0;
}

/* Starts the scorer, with our environment but for variables that come first, and the name of the socket. */
static void start_scorer(char **asked)
{
    static char variable[sizeof(struct sockaddr_un) + sizeof RUN_VARIABLE] = RUN_VARIABLE "=", here[4096];
    char *texts[5 + count_of(environment) + count_of(asked)];
    size_t count = 4;
    listen_for_clients(variable);
    call(getcwd, here, sizeof here);
    memcpy(texts, (char *[]){"", "", here, variable}, 4 * sizeof *texts);
    for (char **at = environment; *at; at++)
        if (**at && !is_one_of(*at, asked))
            texts[count++] = *at;
    while (**asked)
        asked++;
    memcpy(texts + count, asked, (count_of(asked) + 1) * sizeof *asked);
    start_call(0, texts, 0);
    close_file(&script);
}

/* Keeps a piece of the scorer's script. */
static void take_script(uint32_t size)
{
    if (script < 0) {
        script = call(memfd_create, "script", MFD_CLOEXEC);
        call(fchmod, script, 0600);
    }
    if (write_all(script, incoming, size))
        sys(exit_group, CANNOT);
    memset(incoming, 0, size);
}

/* Ends all others, in a container that is ours. */
static void end_everybody(void)
{
    struct timespec pause = {0, 1000000};
    while (sys(kill, -1, SIGKILL) >= 0) {
        bury();
        sys(nanosleep, &pause, 0);
    }
    tell(EXIT, 0, "", 1);
}

/* Does what our side says. */
static void obey(struct frame frame)
{
    static char *texts[MOST + 1], words[MOST_WORDS];
    static size_t words_size;
    struct slot *of = slot_of(frame.call);
    if (pod && frame.kind == CLOSE && !frame.call)
        leave(0);
    if (frame.kind == KILL && !frame.call) {
        if (!pod)
            leave(0);
        end_everybody();
        return;
    }
    if (frame.kind == WORDS || frame.kind == RUN || frame.kind == UNFED) {
        size_t count = 0;
        if (frame.size > sizeof words - words_size)
            frame.size = 0; /* our side does not say so much */
        memcpy(words + words_size, incoming, frame.size);
        words_size += frame.size;
        if (frame.kind == WORDS)
            return;
        for (size_t at = 0; at < words_size && count < MOST; at += strlen(words + at) + 1)
            texts[count++] = words + at;
        texts[count] = NULL, words_size = 0;
        if (!scores)
            start_call(frame.call, texts, frame.kind == RUN);
        else if (!frame.call && !of)
            start_scorer(texts);
    } else if (scores && !frame.call && !of) {
        if (frame.kind == INPUT)
            take_script(frame.size);
    } else if (!of) {
        return; /* it has ended meanwhile */
    } else if (frame.call >= ASKED) {
        int failed = write_frame(of->err, frame.kind, 0, incoming, frame.size) < 0;
        if (failed || frame.kind == EXIT)
            close_file(&of->err), of->used = 0;
    } else if (frame.kind == INPUT) {
        fed = of, pending = frame.size, rest = incoming;
        give_input();
    } else if (frame.kind == CLOSE) {
        close_file(&of->in);
    } else if (frame.kind == KILL) {
        sys(kill, of->pid, opens ? SIGKILL : SIGTERM);
        if (opens)
            sys(kill, -of->pid, SIGKILL);
    }
}

/* Takes a connection of `bench-run`; what the agent left running, as another user, and other containers are refused. */
static void take_client(void)
{
    static uint16_t next;
    struct { int pid, uid, gid; } peer = {0, -1, -1};
    int client = sys(accept4, listener, 0, 0, SOCK_CLOEXEC), size = sizeof peer;
    struct slot *made = client < 0 ? NULL : new_slot(ASKED | next++);
    if (made) {
        sys(getsockopt, client, SOL_SOCKET, SO_PEERCRED, &peer, &size);
        made->err = client, made->refused = !peer.pid || (peer.uid && peer.uid != sys(getuid, 0));
    } else if (client >= 0) {
        sys(close, client);
    }
}

/* Passes a request, or input, of `bench-run` on. One that is gone wants its call to end. */
static void hear_client(struct slot *of)
{
    static const char refusal[] = "bench-run: only the user of the scorer may ask\n", failed = 125;
    struct frame frame;
    if (of->refused) { /* nor is it waited for */
        sys(read, of->err, buffer, sizeof buffer);
        if (!write_frame(of->err, ERRORS, 0, refusal, sizeof refusal - 1))
            write_frame(of->err, EXIT, 0, &failed, 1);
    } else if (read_frame(of->err, &frame, buffer)) {
        tell(KILL, of->number, "", 0);
    } else {
        tell(frame.kind, of->number, buffer, frame.size);
        return;
    }
    close_file(&of->err);
    of->used = 0;
}

/* Waits for whatever comes next. While a call does not take its input, our side is not heard. */
static void step(int signals)
{
    size_t count = 0;
    files[count++] = (struct pollfd){signals, POLLIN, 0};
    files[count++] = (struct pollfd){pending || pod ? -1 : 0, POLLIN, 0};
    files[count++] = (struct pollfd){listener, POLLIN, 0};
    files[count++] = (struct pollfd){pending ? fed->in : -1, POLLOUT, 0};
    for (struct slot *at = calls; at < calls + CALLS; at++) {
        files[count++] = (struct pollfd){at->used ? at->out : -1, POLLIN, 0};
        files[count++] = (struct pollfd){at->used ? at->err : -1, POLLIN, 0};
    }
    if (pod)
        link_wants(files + count), count += LINK_FILES;
    if ((pod ? link_poll(files, count) : sys(ppoll, files, count, 0, 0, 0)) < 0)
        return;
    if (files[3].revents)
        give_input();
    for_each_call (at) {
        struct pollfd *of = files + 4 + 2 * (at - calls);
        if (of[0].revents)
            drain(at, &at->out, OUTPUT);
        if (of[1].revents)
            at->number >= ASKED ? hear_client(at) : (void)drain(at, &at->err, ERRORS);
    }
    if (files[2].revents)
        take_client();
    if (files[0].revents) {
        sys(read, signals, buffer, sizeof buffer);
        bury();
    }
    struct frame frame;
    if (pod) {
        link_step(files + count - LINK_FILES);
        while (!pending && link_read(&frame, incoming))
            obey(frame);
    } else if (files[1].revents) {
        if (read_frame(0, &frame, incoming))
            leave(0); /* our side is gone */
        obey(frame);
    }
}

int serve(char **arguments)
{
    long children = 1L << (SIGCHLD - 1), all = children | 1L << (SIGTERM - 1) | 1L << (SIGPIPE - 1);
    alone = *arguments && !strcmp(*arguments, "alone");
    pod = *arguments && !strcmp(*arguments, "pod");
    opens = pod || (*arguments && !strcmp(*arguments, "open"));
    scores = *arguments && !strcmp(*arguments, "scorer");
    call(rt_sigprocmask, SIG_BLOCK, &all, 0, MASK_SIZE);
    int signals = call(signalfd4, -1, &children, MASK_SIZE, 02000000);
    if (pod) {
        all = -1;
        call(rt_sigprocmask, SIG_BLOCK, &all, 0, MASK_SIZE);
        sys(prctl, PR_SET_DUMPABLE, 0);
        link_begin(number(arguments[1] ? arguments[1] : ""));
    }
    tell(HELLO, 0, "", 0);
    if (!opens)
        sys(prctl, PR_SET_CHILD_SUBREAPER, 1);
    for (;;)
        step(signals);
}

int variables(char **arguments)
{
    static char here[4096];
    (void)arguments;
    call(getcwd, here, sizeof here);
    int failed = write_all(1, here, strlen(here) + 1);
    for (char **at = environment; *at && !failed; at++)
        failed = write_all(1, *at, strlen(*at) + 1);
    return failed ? 1 : 0;
}

int print(char **arguments)
{
    int file = *arguments ? sys(openat, AT_FDCWD, *arguments, O_RDONLY | O_CLOEXEC) : -EINVAL, failed = file < 0;
    for (long got; !failed && (got = sys(read, file, buffer, sizeof buffer)) > 0;)
        failed = write_all(1, buffer, got);
    return failed ? 1 : 0;
}
