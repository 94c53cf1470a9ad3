/* door PORT SOCKET [COMMAND...]

Listens on PORT of the loopback, hands the listening socket to whoever listens on the unix SOCKET, with the process id
in 4 bytes, and becomes COMMAND, whose program has an absolute path. Without one it ends. See ../door.py. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "sys.h"

#define call(name, ...) must("the gateway cannot be reached", 125, name, __VA_ARGS__)

static void hand_over(int gateway, int listener)
{
    int pid = sys(getpid, 0);
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof listener)];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof listener), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec content = {&pid, sizeof pid};
    struct msghdr message = {
        .msg_iov = &content, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *(int *)CMSG_DATA(&control.head) = listener;
    call(sendmsg, gateway, &message, MSG_NOSIGNAL);
}

int door(char **arguments)
{
    struct sockaddr_in here = {
        .sin_family = AF_INET,
        .sin_port = __builtin_bswap16(number(arguments[0])),
        .sin_addr = {__builtin_bswap32(INADDR_LOOPBACK)}};
    struct sockaddr_un there = {.sun_family = AF_UNIX};
    size_t size = strlen(arguments[1]);
    int yes = 1;

    memcpy(there.sun_path, arguments[1], size < sizeof there.sun_path ? size : sizeof there.sun_path);
    int listener = call(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Connections of an earlier turn may not have timed out. */
    sys(setsockopt, listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    call(bind, listener, &here, sizeof here);
    call(listen, listener, 128);
    int gateway = call(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    call(connect, gateway, &there, sizeof there);
    hand_over(gateway, listener);
    if (arguments[2])
        must("the agent's program cannot be run", 127, execve, arguments[2], arguments + 2, environment);
    return 0;
}
