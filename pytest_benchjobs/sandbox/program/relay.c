/* relay SOCKET

For engines that share no socket with us: takes what the door hands over at SOCKET, and carries each connection to our side
over its own standard streams. To our side: RUN 0 with the process id that the door gave, RUN of a new connection, and as in
both directions: OUTPUT or INPUT, TAKEN with a number of bytes that the other end has taken, CLOSE where one end writes no more,
KILL where the connection is broken. At most WINDOW bytes of a connection are on their way in each direction. See ../relay.py. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "frames.h"

enum { CONNECTIONS = 64, WINDOW = 1 << 18 };
#define call(name, ...) must("relay", 70, name, __VA_ARGS__)

static struct connection {
    int used, file, heard_end, told_end;
    uint16_t number;
    uint32_t sent; /* and not taken */
    uint32_t from, held; /* what is for the client is in a ring */
    char ring[WINDOW];
} connections[CONNECTIONS];
#define for_each_connection(at) for (struct connection *at = connections; at < connections + CONNECTIONS; at++) if (at->used)

static char buffer[MOST];
static int door = -1, listener = -1, handed;

static void tell(enum frame_kind kind, uint16_t number, const void *bytes, uint32_t size)
{
    if (write_frame(1, kind, number, bytes, size) < 0)
        sys(exit_group, 0); /* our side is gone */
}

static void forget(struct connection *of)
{
    sys(close, of->file);
    of->used = 0;
}

/* Ends a connection so that the client sees it: it is not to take half an answer for a whole one. */
static void break_off(struct connection *of)
{
    struct linger at_once = {1, 0};
    sys(setsockopt, of->file, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    forget(of);
}

static void forget_if_over(struct connection *of)
{
    if (of->heard_end == 1 && !of->held)
        of->heard_end = 2, sys(shutdown, of->file, SHUT_WR);
    if (of->heard_end == 2 && of->told_end)
        forget(of);
}

static void fail(struct connection *of)
{
    tell(KILL, of->number, "", 0);
    forget(of);
}

/* Takes the listening socket that a door hands over. One, as the gateway does: further ones are an agent's own. */
static void take_listener(void)
{
    int taken = -1, pid = 0, client = sys(accept4, door, 0, 0, SOCK_CLOEXEC);
    struct timeval patience = {1, 0};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof taken)];
    } control;
    struct iovec content = {&pid, sizeof pid};
    struct msghdr message = {
        .msg_iov = &content, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};

    sys(setsockopt, client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    long got = sys(recvmsg, client, &message, MSG_CMSG_CLOEXEC);
    sys(close, client);
    if (got < 0 || message.msg_controllen < CMSG_LEN(sizeof taken) || control.head.cmsg_type != SCM_RIGHTS)
        return;
    taken = *(int *)CMSG_DATA(&control.head);
    if (handed) {
        sys(close, taken);
        return;
    }
    handed = 1, listener = taken;
    sys(fcntl, listener, F_SETFL, O_NONBLOCK);
    tell(RUN, 0, &pid, got);
}

static struct connection *unused(void)
{
    for (struct connection *at = connections; at < connections + CONNECTIONS; at++)
        if (!at->used)
            return at;
    return NULL;
}

static struct connection *of_number(uint16_t number)
{
    for_each_connection (at)
        if (at->number == number)
            return at;
    return NULL;
}

static void take_client(struct connection *made)
{
    static uint16_t last;
    long file = sys(accept4, listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file < 0) {
        if (file == -EINVAL || file == -ENOTSOCK || file == -EOPNOTSUPP)
            sys(close, listener), listener = -1; /* it listens to nobody */
        return;
    }
    do
        last = last == 0xffff ? 1 : last + 1;
    while (of_number(last));
    made->used = 1, made->file = file, made->number = last;
    made->heard_end = made->told_end = made->sent = made->from = made->held = 0;
    tell(RUN, made->number, "", 0);
}

static void hear(struct connection *of)
{
    size_t room = WINDOW - of->sent;
    long got = sys(read, of->file, buffer, room < sizeof buffer ? room : sizeof buffer);
    if (got > 0) {
        of->sent += got;
        tell(OUTPUT, of->number, buffer, got);
    } else if (!got) {
        of->told_end = 1;
        tell(CLOSE, of->number, "", 0);
        forget_if_over(of);
    } else if (got != -EAGAIN && got != -EINTR) {
        fail(of);
    }
}

static void pass_on(struct connection *of)
{
    size_t size = of->held < WINDOW - of->from ? of->held : WINDOW - of->from;
    long put = sys(sendto, of->file, of->ring + of->from, size, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
    if (put < 0) {
        if (put != -EAGAIN && put != -EINTR)
            fail(of);
        return;
    }
    uint32_t count = put;
    of->from = (of->from + count) % WINDOW, of->held -= count;
    tell(TAKEN, of->number, &count, sizeof count);
    forget_if_over(of);
}

static void hold(struct connection *of, uint32_t size)
{
    if (size > WINDOW - of->held)
        sys(exit_group, 70); /* it is not our side that says so */
    for (uint32_t at = 0; at < size; at++)
        of->ring[(of->from + of->held + at) % WINDOW] = buffer[at];
    of->held += size;
}

static void obey(void)
{
    struct frame frame;
    uint32_t count = 0;
    if (read_frame(0, &frame, buffer) || (frame.kind == KILL && !frame.call))
        sys(exit_group, 0);
    struct connection *of = of_number(frame.call);
    if (!of)
        return; /* it has ended meanwhile */
    if (frame.kind == INPUT)
        hold(of, frame.size);
    else if (frame.kind == TAKEN)
        memcpy(&count, buffer, sizeof count), of->sent -= count < of->sent ? count : of->sent;
    else if (frame.kind == CLOSE)
        of->heard_end = 1, forget_if_over(of);
    else if (frame.kind == KILL)
        break_off(of);
}

static void step(void)
{
    static struct pollfd files[3 + CONNECTIONS];
    struct connection *next = unused();
    files[0] = (struct pollfd){0, POLLIN, 0};
    files[1] = (struct pollfd){door, POLLIN, 0};
    files[2] = (struct pollfd){next ? listener : -1, POLLIN, 0};
    for (int at = 0; at < CONNECTIONS; at++) {
        struct connection *of = connections + at;
        int wanted = (!of->told_end && of->sent < WINDOW ? POLLIN : 0) | (of->held ? POLLOUT : 0);
        files[3 + at] = (struct pollfd){of->used && wanted ? of->file : -1, wanted, 0};
    }
    if (sys(ppoll, files, 3 + CONNECTIONS, 0, 0, 0) < 0)
        return;
    for_each_connection (at) {
        short events = files[3 + (at - connections)].revents;
        if (events && at->held)
            pass_on(at);
        if (events & ~POLLOUT && at->used && !at->told_end && at->sent < WINDOW)
            hear(at);
    }
    if (files[2].revents)
        take_client(next);
    if (files[1].revents)
        take_listener();
    if (files[0].revents)
        obey();
}

int relay(char **arguments)
{
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    size_t size = strlen(arguments[0]);

    be_out_of_reach();
    memcpy(here.sun_path, arguments[0], size < sizeof here.sun_path ? size : sizeof here.sun_path);
    sys(unlinkat, AT_FDCWD, arguments[0], 0);
    door = call(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    call(bind, door, &here, sizeof here);
    call(fchmodat, AT_FDCWD, arguments[0], 0666);
    call(listen, door, 8);
    tell(HELLO, 0, "", 0);
    for (;;)
        step();
}
