#include "frames.h"

#include <errno.h>
#include <poll.h>

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

static int read_all(int file, void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        long got = sys(read, file, (char *)bytes + at, size - at);
        if (!got || (got < 0 && got != -EINTR))
            return got ? got : -EPIPE;
        at += got > 0 ? got : 0;
    }
    return 0;
}

int read_frame(int file, struct frame *frame, void *content)
{
    int failed = read_all(file, frame, sizeof *frame);
    if (!failed)
        failed = frame->size > MOST ? -EMSGSIZE : read_all(file, content, frame->size);
    return failed;
}
