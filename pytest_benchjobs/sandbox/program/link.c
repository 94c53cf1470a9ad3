/* attach

Carries a connection with the link of the first process over its own standard streams.

The link is at an abstract address. Whoever connects first says a secret of 16 bytes, which everybody has to say from then
on: an agent cannot take the place of our side. After it come the number of bytes that our side has taken; the answer is
HELLO and the number that were taken here. Each side then sends what the other has not taken, in packets that also say how
much it has taken itself. An empty packet of our side is answered: so it knows that the connection lives. At most a ring of
bytes is on its way in each direction. See ../kubernetes/link.py. */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { PATIENCE = 5, SECRET = 16, RING = 1 << 20, ROOM = 1 << 18, PIECE = 1 << 15, TELL = 1 << 16 };
#define call(name, ...) must("link", 70, name, __VA_ARGS__)

struct __attribute__((packed)) packet {
    uint32_t size;
    uint64_t taken;
};
struct __attribute__((packed)) greeting {
    char secret[SECRET];
    uint64_t taken;
};

static const char hello[] = "bench-link";
static long deadline, candidate_since;
static int listener = -1, candidate = -1, connection = -1, secret_known, has_to_answer;
static char secret[SECRET];
static char ring[RING]; /* what our side has not taken: bytes from `taken` to `written` of all that were */
static uint64_t taken, sent, written;
static char room[ROOM]; /* what came and was not read */
static uint64_t was_read, came, told;
static struct greeting greeting;
static size_t greeting_size;
static struct packet arriving; /* its head, then the number of bytes that are still to come */
static size_t arriving_size;
static char leaving[sizeof(struct packet) + PIECE]; /* a packet that the connection has taken in part */
static size_t leaving_at, leaving_size;

static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0bench-link"};
enum { ADDRESS_SIZE = offsetof(struct sockaddr_un, sun_path) + sizeof "\0bench-link" - 1 };

static long now(void)
{
    struct timespec time;
    sys(clock_gettime, CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

long link_poll(struct pollfd *files, size_t count)
{
    struct timespec rest = {deadline - now(), 0};
    if (rest.tv_sec <= 0)
        sys(exit_group, 0);
    if (candidate >= 0 && rest.tv_sec > PATIENCE)
        rest.tv_sec = PATIENCE;
    return sys(ppoll, files, count, &rest, 0, 0);
}

void link_begin(long lifetime)
{
    deadline = now() + lifetime;
    listener = call(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    call(bind, listener, &address, ADDRESS_SIZE);
    call(listen, listener, 8);
}

static void drop(int *file)
{
    if (*file >= 0)
        sys(close, *file);
    *file = -1;
}

static int waits_to_send(void)
{
    return leaving_at < leaving_size || sent < written || has_to_answer || was_read - told >= TELL;
}

void link_wants(struct pollfd files[LINK_FILES])
{
    files[0] = (struct pollfd){candidate < 0 ? listener : -1, POLLIN, 0};
    files[1] = (struct pollfd){candidate, POLLIN, 0};
    files[2] = (struct pollfd){connection, POLLIN | (waits_to_send() ? POLLOUT : 0), 0};
}

/* Sends what our side has not got, as much as the connection takes now. */
static void send_some(void)
{
    while (connection >= 0 && waits_to_send()) {
        if (leaving_at == leaving_size) {
            uint64_t rest = written - sent, from = sent % RING;
            uint32_t size = rest < PIECE ? rest : PIECE;
            size = size < RING - from ? size : RING - from;
            struct packet packet = {size, was_read};
            memcpy(leaving, &packet, sizeof packet);
            memcpy(leaving + sizeof packet, ring + from, size);
            leaving_at = 0, leaving_size = sizeof packet + size, sent += size, told = was_read, has_to_answer = 0;
        }
        long put = sys(sendto, connection, leaving + leaving_at, leaving_size - leaving_at, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
        if (put < 0) {
            if (put != -EAGAIN && put != -EINTR)
                drop(&connection);
            return;
        }
        leaving_at += put;
    }
}

/* Takes what came of a packet; returns whether there may be more. */
static int hear_packet(void)
{
    long got;
    if (arriving_size < sizeof arriving) {
        got = sys(recvfrom, connection, (char *)&arriving + arriving_size, sizeof arriving - arriving_size, MSG_DONTWAIT, 0, 0);
        arriving_size += got > 0 ? got : 0;
        if (got > 0 && arriving_size == sizeof arriving) {
            if (arriving.size > ROOM - (came - was_read) || arriving.taken < taken || arriving.taken > sent)
                got = 0; /* it is not our side that says so */
            else
                taken = arriving.taken, has_to_answer |= !arriving.size;
            arriving_size = arriving.size ? arriving_size : 0;
        }
    } else {
        uint64_t from = came % ROOM;
        size_t size = arriving.size < ROOM - from ? arriving.size : ROOM - from;
        got = sys(recvfrom, connection, room + from, size, MSG_DONTWAIT, 0, 0);
        came += got > 0 ? got : 0, arriving.size -= got > 0 ? got : 0;
        arriving_size = arriving.size ? arriving_size : 0;
    }
    if (!got || (got < 0 && got != -EAGAIN && got != -EINTR))
        drop(&connection);
    return got > 0;
}

/* Takes a connection in the place of the one before, if it says the secret. */
static void hear_candidate(void)
{
    long got = sys(recvfrom, candidate, (char *)&greeting + greeting_size, sizeof greeting - greeting_size, MSG_DONTWAIT, 0, 0);
    greeting_size += got > 0 ? got : 0;
    if (got == -EAGAIN || got == -EINTR)
        return;
    if (got <= 0 || greeting_size == sizeof greeting) {
        int other = 0;
        for (int at = 0; at < SECRET; at++)
            other |= secret_known && greeting.secret[at] != secret[at];
        if (got > 0 && !other && greeting.taken >= taken && greeting.taken <= written) {
            struct __attribute__((packed)) { char hello[sizeof hello]; uint64_t taken; } answer;
            memcpy(answer.hello, hello, sizeof hello);
            answer.taken = was_read;
            memcpy(secret, greeting.secret, SECRET), secret_known = 1;
            drop(&connection);
            connection = candidate, candidate = -1;
            taken = sent = greeting.taken, came = was_read;
            arriving_size = leaving_at = 0, has_to_answer = 1;
            memcpy(leaving, &answer, sizeof answer), leaving_size = sizeof answer;
        }
        drop(&candidate);
    }
}

/* Whether a process has no parent here: it was begun from outside, as our `attach` is, and no agent is. */
static int is_from_outside(int pid)
{
    char path[32] = "/proc/", digits[12], stat[512];
    size_t size = 6, count = 0;
    do
        digits[count++] = '0' + pid % 10;
    while (pid /= 10);
    while (count)
        path[size++] = digits[--count];
    memcpy(path + size, "/stat", 6);
    int file = sys(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    long got = file < 0 ? 0 : sys(read, file, stat, sizeof stat - 1);
    if (file >= 0)
        sys(close, file);
    stat[got < 0 ? 0 : got] = 0;
    const char *at = stat + strlen(stat);
    while (at > stat && *at != ')')
        at--;
    return got > 0 && strlen(at) > 5 && at[4] == '0'; /* ") S 0 " */
}

static void take_candidate(void)
{
    struct { int pid, uid, gid; } peer = {0, -1, -1};
    int size = sizeof peer;
    candidate = sys(accept4, listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK), greeting_size = 0, candidate_since = now();
    if (candidate < 0)
        return;
    sys(getsockopt, candidate, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (peer.pid <= 0 || !is_from_outside(peer.pid))
        drop(&candidate);
}

void link_step(const struct pollfd files[LINK_FILES])
{
    if (files[2].revents)
        while (connection >= 0 && hear_packet())
            ;
    if (files[1].revents)
        hear_candidate();
    if (candidate >= 0 && now() > candidate_since + PATIENCE)
        drop(&candidate);
    if (files[0].revents && candidate < 0)
        take_candidate();
    send_some();
}

static void hold(const char *bytes, size_t size)
{
    while (size) {
        uint64_t at = written % RING;
        size_t piece = RING - (written - taken);
        piece = piece < RING - at ? piece : RING - at;
        piece = piece < size ? piece : size;
        memcpy(ring + at, bytes, piece);
        written += piece, bytes += piece, size -= piece;
        send_some();
        if (size) {
            struct pollfd files[LINK_FILES];
            link_wants(files);
            if (link_poll(files, LINK_FILES) > 0)
                link_step(files);
        }
    }
}

void link_write(enum frame_kind kind, uint16_t number, const void *bytes, uint32_t size)
{
    struct frame frame = {kind, 0, number, size};
    hold((const char *)&frame, sizeof frame);
    hold(bytes, size);
}

static void copy_out(void *to, size_t size)
{
    for (size_t at = 0; at < size; at++)
        ((char *)to)[at] = room[(was_read + at) % ROOM];
}

int link_read(struct frame *frame, void *content)
{
    if (came - was_read < sizeof *frame)
        return 0;
    copy_out(frame, sizeof *frame);
    if (frame->size > MOST)
        sys(exit_group, 70); /* it is not our side that says so */
    if (came - was_read < sizeof *frame + frame->size)
        return 0;
    was_read += sizeof *frame;
    copy_out(content, frame->size);
    was_read += frame->size;
    send_some();
    return 1;
}

int attach(char **arguments)
{
    static char bytes[2][PIECE];
    size_t at[2] = {0}, size[2] = {0};
    (void)arguments;
    be_out_of_reach();
    int link = call(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), from[2] = {0, link}, to[2] = {link, 1};
    call(connect, link, &address, ADDRESS_SIZE);
    for (;;) {
        struct pollfd files[4];
        for (int way = 0; way < 2; way++) {
            files[2 * way] = (struct pollfd){size[way] ? -1 : from[way], POLLIN, 0};
            files[2 * way + 1] = (struct pollfd){size[way] ? to[way] : -1, POLLOUT, 0};
        }
        sys(ppoll, files, 4, 0, 0, 0);
        for (int way = 0; way < 2; way++) {
            long got = 1;
            if (files[2 * way].revents && (got = sys(read, from[way], bytes[way], PIECE)) > 0)
                at[way] = 0, size[way] = got;
            else if (files[2 * way + 1].revents && (got = sys(write, to[way], bytes[way] + at[way], size[way])) > 0)
                at[way] += got, size[way] -= got;
            if (got <= 0)
                return 0; /* one side is gone */
        }
    }
}
