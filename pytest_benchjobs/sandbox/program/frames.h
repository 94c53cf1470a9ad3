/* Frames: what `serve` and `relay` speak with our side over their standard streams, and `bench-run` with `serve` over a socket. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdint.h>

#include "sys.h"

/* From our side: RUN (UNFED: without a standard input), after WORDS where its words are too many for one frame, INPUT, CLOSE and KILL
of a call. To our side: HELLO; OUTPUT, ERRORS and
EXIT of a call. A call whose number is `ASKED` or more was asked for by `bench-run`: its directions are the other way round. What
`relay` means by them, and by TAKEN, relay.c says. */
enum frame_kind { HELLO = 'h', WORDS = 'w', RUN = 'r', UNFED = 'u', INPUT = 'i', CLOSE = 'c', KILL = 'k', OUTPUT = 'o', ERRORS = 'e', EXIT = 'x', TAKEN = 't' };
enum { ASKED = 0x8000, MOST = 1 << 16 };

struct __attribute__((packed)) frame {
    uint8_t kind, zero;
    uint16_t call;
    uint32_t size;
};

/* The name of the abstract socket of `bench-run` is in this variable. */
#define RUN_VARIABLE "BENCH_RUN_SOCKET"

/* Results: 0, or an error number below 0; EPIPE is the end. The content is of MOST bytes or fewer. */
int write_all(int file, const void *bytes, size_t size);
int write_frame(int file, enum frame_kind kind, uint16_t call, const void *bytes, uint32_t size);
int read_frame(int file, struct frame *frame, void *content);

#endif
