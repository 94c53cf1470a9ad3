/* reach ADDRESS PORT

Ends with 0 if there is a connection with an IPv4 address within two seconds, with 2 if the address is none. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "sys.h"

int reach(char **arguments)
{
    struct sockaddr_in there = {.sin_family = AF_INET};
    struct timespec patience = {2, 0};
    uint8_t *address = (uint8_t *)&there.sin_addr, *port = (uint8_t *)&there.sin_port;
    if (!arguments[0] || !arguments[1])
        return 2;
    const char *at = arguments[0];
    for (int part = 0; part < 4; part++) {
        address[part] = number(at);
        while (*at >= '0' && *at <= '9')
            at++;
        if (*at != (part < 3 ? '.' : 0))
            return 2;
        at++;
    }
    port[0] = number(arguments[1]) >> 8, port[1] = number(arguments[1]);
    int file = sys(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = 0, size = sizeof why;
    long failed = sys(connect, file, &there, sizeof there);
    struct pollfd done = {file, POLLOUT, 0};
    if (failed == -EINPROGRESS && sys(ppoll, &done, 1, &patience, 0, 0) > 0) {
        sys(getsockopt, file, SOL_SOCKET, SO_ERROR, &why, &size);
        failed = -why;
    }
    return failed != 0;
}
