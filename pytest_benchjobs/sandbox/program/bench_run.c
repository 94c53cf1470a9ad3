/* bench-run [--in PATH] [--out PATH] [--stdin FILE] [--timeout S] [--user U] [--fresh] -- COMMAND...

Has COMMAND run where the agent worked, and ends as it does. The request is our working directory and all arguments, each
with a 0 behind it; our side knows what they mean. Only --stdin is ours: a file, or `-` for what we read. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "frames.h"

enum { FAILED = 125 };
#define call(name, ...) must("bench-run", FAILED, name, __VA_ARGS__)

static char request[MOST], content[MOST];

static int opened(char **arguments)
{
    for (; *arguments && strcmp(*arguments, "--"); arguments++)
        if (!strcmp(*arguments, "--stdin") && arguments[1])
            return strcmp(arguments[1], "-") ? call(openat, AT_FDCWD, arguments[1], O_RDONLY | O_CLOEXEC) : 0;
    return -1;
}

static void ask(int server, char **arguments)
{
    size_t used = call(getcwd, request, sizeof request);
    for (; *arguments; arguments++) {
        size_t size = strlen(*arguments) + 1;
        if (used + size > sizeof request)
            checked(-E2BIG, "bench: bench-run", "arguments", FAILED);
        memcpy(request + used, *arguments, size);
        used += size;
    }
    write_frame(server, RUN, 0, request, used); /* where that is refused, there is an answer to it */
}

/* Passes a frame on; the exit status ends us. */
static void take(int server)
{
    struct frame frame;
    checked(read_frame(server, &frame, content), "bench: bench-run", "read", FAILED);
    if (frame.kind == EXIT)
        sys(exit_group, (unsigned char)content[0]);
    write_all(frame.kind == ERRORS ? 2 : 1, content, frame.size);
}

int bench_run(char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = NULL;
    for (char **at = environment; *at && !name; at++)
        name = value_of(*at, RUN_VARIABLE);
    if (!name)
        checked(-ENOENT, "bench: bench-run", RUN_VARIABLE " (only scorers have it)", FAILED);
    int input = opened(arguments);
    size_t size = strlen(name) < sizeof address.sun_path ? strlen(name) : sizeof address.sun_path - 1;
    memcpy(address.sun_path + 1, name, size);
    int server = call(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* A command may have ended before all is written that it does not read. */
    long broken_pipe = 1L << (SIGPIPE - 1);
    sys(rt_sigprocmask, SIG_BLOCK, &broken_pipe, 0, sizeof broken_pipe);
    call(connect, server, &address, sizeof address.sun_family + 1 + size);
    ask(server, arguments);
    if (input < 0)
        write_frame(server, CLOSE, 0, NULL, 0);
    for (;;) {
        struct pollfd files[] = {{server, POLLIN, 0}, {input, POLLIN, 0}};
        sys(ppoll, files, 2, 0, 0, 0);
        if (files[0].revents)
            take(server);
        if (input >= 0 && files[1].revents) {
            long got = sys(read, input, content, sizeof content);
            if (got <= 0)
                input = -1;
            write_frame(server, got > 0 ? INPUT : CLOSE, 0, content, got > 0 ? got : 0);
        }
    }
}
