/* A double of libcuda and libcufile for error paths: "device" memory is malloc'ed, transfers are
 * pread and pwrite, and the environment says what goes wrong. Built by a test, never shipped,
 * written from the public interfaces. One shared object under both names, so that streams and
 * the transfers on them meet. */
#ifndef DOUBLE_H
#define DOUBLE_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The version of libcufile that this is a double of: what that one lacks, this one lacks too. */
#ifndef DOUBLE_VERSION
#define DOUBLE_VERSION 1190
#endif

/* How often a function was called; a test reads all of them by double_calls. */
struct call {
    const char *name;
    long count;
    int known;
    struct call *next;
};
void called(struct call *here);
#define CALL()                                            \
    do {                                                  \
        static struct call here = {__func__, 0, 0, NULL}; \
        called(&here);                                    \
    } while (0)

/* Whether DOUBLE_FAULT names this fault. */
int fault(const char *name);

/* What must be back at zero when the process ends; written to the file DOUBLE_LEDGER. */
struct ledger {
    long drivers, handles, buffers, batches, streams_registered;
    long contexts, allocations, streams, events, pins;
    long freed_while_registered;
};
extern struct ledger ledger;

/* Whether the GPU is lost, as the fault "lost" has it after a few copies; counts `copies` more. */
int is_lost(int copies);

/* Registered memory, to see a free that comes too early. */
int is_registered(const void *base);

/* Bytes of the device memory that `at` lies in, its `base` and its `device` (which may be NULL); 0
 * where that is none. */
size_t device_memory(const void *at, void **base, int *device);

/* The device whose context is current on this thread, -1 without one. */
int current_device(void);

/* A stream, in streams.c of the double or stand_in_streams.c; copies keep its order. */
struct stream;
void copy_in_order(void *to, const void *from, size_t bytes, struct stream *stream);

/* A transfer of cuFile's double that waits for its stream, and is handed in. */
struct pending {
    int fd, write;
    void *base;
    size_t *size;
    off_t *file_offset, *base_offset;
    ssize_t *moved;
};
void put_on(struct stream *stream, struct pending pending);
void run_stream(struct stream *stream);
ssize_t move_bytes(int fd, int write, void *base, size_t size, off_t offset);
#endif
