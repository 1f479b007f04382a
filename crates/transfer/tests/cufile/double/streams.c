/* The streams of the double of libcuda: what is on one happens when somebody asks for its end. */
#define _GNU_SOURCE
#include "double.h"
#include <stdlib.h>
#include <string.h>

typedef int result_t;
enum { SUCCESS = 0, INVALID_CONTEXT = 201, NOT_READY = 600, LAUNCH_FAILED = 719 };

/* Transfers that wait for their stream. */
struct stream {
    struct pending queue[64];
    int count;
};

unsigned event_flags;

result_t cuStreamCreate(struct stream **stream, unsigned flags) { CALL();
    (void)flags;
    if (current_device() < 0) return INVALID_CONTEXT;
    *stream = calloc(1, sizeof **stream);
    ledger.streams++;
    return SUCCESS;
}
/* 1 and 2 stand for the default stream and the thread's own. */
static int is_real(struct stream *stream) { return (uintptr_t)stream > 2; }
static struct stream *busy[64];
static int busy_count;
void put_on(struct stream *stream, struct pending pending) {
    stream->queue[stream->count++] = pending;
    if (fault("last-first")) busy[busy_count++] = stream;
}
/* With this fault, transfers on streams end in the opposite order, one with each question. */
static int ends_the_newest(struct stream *asked) {
    if (!fault("last-first")) return 0;
    if (asked->count > 0 && busy_count > 0) run_stream(busy[--busy_count]);
    return 1;
}
void run_stream(struct stream *stream) {
    for (int i = 0; is_real(stream) && i < stream->count; i++) {
        struct pending *each = &stream->queue[i];
        *each->moved = move_bytes(each->fd, each->write, (char *)each->base + *each->base_offset,
                                  *each->size, *each->file_offset);
    }
    if (is_real(stream)) stream->count = 0;
}
result_t cuStreamSynchronize(struct stream *stream) { CALL(); run_stream(stream); return is_lost(0) ? LAUNCH_FAILED : SUCCESS; }
result_t cuStreamQuery(struct stream *stream) {
    CALL();
    if (is_lost(0)) return LAUNCH_FAILED;
    if (!is_real(stream)) return SUCCESS;
    if (!ends_the_newest(stream)) run_stream(stream);
    return stream->count > 0 ? NOT_READY : SUCCESS;
}
result_t cuStreamDestroy_v2(struct stream *stream) { CALL(); run_stream(stream); free(stream); ledger.streams--; return SUCCESS; }
result_t cuEventCreate(void **event, unsigned flags) { CALL(); event_flags = flags; *event = malloc(1); ledger.events++; return SUCCESS; }
result_t cuEventDestroy_v2(void *event) { CALL(); free(event); ledger.events--; return SUCCESS; }
result_t cuEventRecord(void *event, struct stream *stream) { CALL(); (void)event, (void)stream; return SUCCESS; }
result_t cuEventQuery(void *event) { CALL(); (void)event; return SUCCESS; }
result_t cuEventSynchronize(void *event) { CALL(); (void)event; return SUCCESS; }

void copy_in_order(void *to, const void *from, size_t bytes, struct stream *stream) {
    (void)stream;
    memcpy(to, from, bytes);
}
