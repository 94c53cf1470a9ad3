#include "frames.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Results: 0, or an error number below 0. */
int write_all(int file, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        long written = sys(write, file, (const char *)bytes + at, size - at);
        if (written == -EAGAIN) {
            struct pollfd room = {file, POLLOUT, 0};
            sys(ppoll, &room, 1, 0, 0, 0);
        } else if (written < 0 && written != -EINTR) {
            return written;
        }
        at += written > 0 ? written : 0;
    }
    return 0;
}

int write_frame(int file, enum frame_kind kind, uint16_t call, const void *bytes, uint32_t size)
{
    struct frame frame = {kind, 0, call, size};
    int failed = write_all(file, &frame, sizeof frame);
    return failed ? failed : write_all(file, bytes, size);
}

/* Results: 0, or an error number below 0; EPIPE is the end. */
int read_all(int file, void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        long got = sys(read, file, (char *)bytes + at, size - at);
        if (!got || (got < 0 && got != -EINTR))
            return got ? got : -EPIPE;
        at += got > 0 ? got : 0;
    }
    return 0;
}

/* Makes the address of an abstract socket; returns its size. */
int address_of(const char *name, void *address)
{
    struct sockaddr_un *made = address;
    size_t size = strlen(name);
    memset(made, 0, sizeof *made);
    made->sun_family = AF_UNIX;
    size = size < sizeof made->sun_path - 1 ? size : sizeof made->sun_path - 1;
    memcpy(made->sun_path + 1, name, size);
    return sizeof made->sun_family + 1 + size;
}
