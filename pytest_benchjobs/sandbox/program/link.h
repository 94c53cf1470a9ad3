/* The link of `serve pod`: a stream of bytes each way with our side, which outlives the connections that carry it. */
#ifndef LINK_H
#define LINK_H

#include <poll.h>
#include <stdint.h>

#include "frames.h"

enum { LINK_FILES = 3 };

/* Listens. The process ends once it has waited for so many seconds since then in all. */
void link_begin(long lifetime);

/* Waits, as ppoll does without a timeout. */
long link_poll(struct pollfd *files, size_t count);

/* What to wait for, and what to do when it came. */
void link_wants(struct pollfd files[LINK_FILES]);
void link_step(const struct pollfd files[LINK_FILES]);

/* Writes a frame; waits while our side has taken too little of what was written before. */
void link_write(enum frame_kind kind, uint16_t call, const void *bytes, uint32_t size);

/* Reads a frame into `content` of MOST bytes; returns whether there was a whole one. */
int link_read(struct frame *frame, void *content);

#endif
