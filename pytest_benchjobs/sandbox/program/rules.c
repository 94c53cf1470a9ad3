/* rules MESSAGE...

Sends the kernel requests for rules of routing, in hexadecimal, and prints the head of each answer. See
../docker/rules.py. */
#include <linux/netlink.h>
#include <sys/socket.h>

#include "sys.h"

#define call(name, ...) must("no rules can be made", 1, name, __VA_ARGS__)

enum { ANSWER = 20 };

static char digit(char hexadecimal)
{
    return hexadecimal <= '9' ? hexadecimal - '0' : hexadecimal - 'a' + 10;
}

/* Decodes a text in its place; returns the size. */
static size_t decode(char *text)
{
    size_t size = strlen(text) / 2;
    for (size_t at = 0; at < size; at++)
        text[at] = digit(text[2 * at]) << 4 | digit(text[2 * at + 1]);
    return size;
}

int rules(char **arguments)
{
    char answer[1024];
    int kernel = call(socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    for (; *arguments; arguments++) {
        call(sendto, kernel, *arguments, decode(*arguments), 0, 0, 0);
        call(read, kernel, answer, sizeof answer);
        call(write, 1, answer, ANSWER);
    }
    return 0;
}
