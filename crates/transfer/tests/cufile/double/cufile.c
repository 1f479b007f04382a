/* The libcufile half of the double; see double.h. */
#define _GNU_SOURCE
#include "double.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { int err, cu_err; } status_t;
typedef struct { int type; union { int fd; void *handle; } handle; const void *ops; } descr_t;
typedef struct { int fd; } handle_t;
typedef struct {
    int mode;
    void *base;
    off_t file_offset, base_offset;
    size_t size;
    handle_t *file;
    int opcode;
    void *cookie;
} params_t;
typedef struct { void *cookie; int status; size_t ret; } event_t;
typedef struct { event_t done[256]; unsigned capacity, count; } batch_t;

struct ledger ledger;
static const void *registered[1024];
static uint64_t posix_reads, posix_writes, direct_reads;
static const status_t OK = {0, 0};
static bool allow_compat = true;
static int stats_level;

static struct call *calls;

void called(struct call *here) {
    __atomic_add_fetch(&here->count, 1, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&here->known, 1, __ATOMIC_RELAXED)) return;
    here->next = __atomic_load_n(&calls, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&calls, &here->next, here, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
}

/* Tells each function that was called and how often, a line each. */
void double_calls(char *text, size_t size) {
    size_t at = 0;
    for (struct call *each = __atomic_load_n(&calls, __ATOMIC_ACQUIRE); each != NULL && at < size; each = each->next)
        at += (size_t)snprintf(text + at, size - at, "%s %ld\n", each->name,
                               __atomic_load_n(&each->count, __ATOMIC_RELAXED));
}

int fault(const char *name) {
    const char *wanted = getenv("DOUBLE_FAULT");
    return wanted != NULL && strcmp(wanted, name) == 0;
}

int is_registered(const void *base) {
    for (int i = 0; i < 1024; i++)
        if (registered[i] == base) return 1;
    return 0;
}

/* How often each function was called, in the file that DOUBLE_CALLS names. */
__attribute__((destructor)) static void write_calls(void) {
    static char text[1 << 14];
    const char *path = getenv("DOUBLE_CALLS");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    double_calls(text, sizeof text);
    fputs(text, file);
    fclose(file);
}

__attribute__((destructor)) static void write_ledger(void) {
    const char *path = getenv("DOUBLE_LEDGER");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    fprintf(file,
            "drivers %ld\nhandles %ld\nbuffers %ld\nbatches %ld\nregistered_streams %ld\n"
            "contexts %ld\nallocations %ld\nstreams %ld\nevents %ld\npins %ld\n"
            "freed_while_registered %ld\n",
            ledger.drivers, ledger.handles, ledger.buffers, ledger.batches,
            ledger.streams_registered, ledger.contexts, ledger.allocations, ledger.streams,
            ledger.events, ledger.pins, ledger.freed_while_registered);
    fclose(file);
}

/* Counts a transfer in the file DOUBLE_NVFS as nvidia-fs counts for the whole host: whoever
 * transferred before, this process or another, is in it. */
static void count_in_kernel(int write, ssize_t moved) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    const char *path = getenv("DOUBLE_NVFS");
    if (path == NULL || moved <= 0) return;
    pthread_mutex_lock(&one_at_a_time);
    unsigned long count[2] = {0, 0}, bytes[2] = {0, 0};
    char text[256];
    int fd = open(path, O_RDWR);
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    sscanf(text, "IO stats: Enabled\nReads : n=%lu readMiB=%*u bytes=%lu\nWrites : n=%lu writeMiB=%*u bytes=%lu",
           &count[0], &bytes[0], &count[1], &bytes[1]);
    count[write]++;
    bytes[write] += (size_t)moved;
    size = snprintf(text, sizeof text,
                    "IO stats: Enabled\nReads : n=%lu readMiB=%lu bytes=%lu\nWrites : n=%lu writeMiB=%lu bytes=%lu\n",
                    count[0], bytes[0] >> 20, bytes[0], count[1], bytes[1] >> 20, bytes[1]);
    if (pwrite(fd, text, (size_t)size, 0) < 0) perror("double");
    close(fd);
    pthread_mutex_unlock(&one_at_a_time);
}

ssize_t move_bytes(int fd, int write, void *base, size_t size, off_t offset) {
    /* Not the block that the probe reads. */
    if (fault("transfer-hangs") && size > 4096) for (;;) sleep(1);
    if (fault("errno")) { errno = EIO; return -1; }
    if (fault("errno-1")) { errno = 1; return -1; }
    if (fault("nothing")) return 0;
    if (fault("code")) return -5044;
    if (fault("unknown-code")) return -7777;
    if (fault("code-in-errno")) { errno = 5027; return -1; }
    /* Half of it, in whole blocks; or half of the first and then nothing. */
    if (fault("short") && size > 4096) size = (size / 2 + 4095) & ~(size_t)4095;
    static int moved_once;
    if (fault("stuck") && __atomic_exchange_n(&moved_once, 1, __ATOMIC_RELAXED)) return 0;
    if (fault("stuck")) size /= 2;
    if (!allow_compat && !fault("direct")) return -5008;
    if (stats_level < 3) {}
    else if (fault("direct")) __atomic_add_fetch(&direct_reads, 1, __ATOMIC_RELAXED);
    else __atomic_add_fetch(write ? &posix_writes : &posix_reads, 1, __ATOMIC_RELAXED);
    ssize_t moved = write ? pwrite(fd, base, size, offset) : pread(fd, base, size, offset);
    if (fault("direct")) count_in_kernel(write, moved);
    if (moved >= 0 || errno != EINVAL) return moved;
    /* As the library, which takes any offset and size of a file that was opened directly. */
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int cached = open(name, write ? O_WRONLY : O_RDONLY);
    if (cached < 0) return -1;
    moved = write ? pwrite(cached, base, size, offset) : pread(cached, base, size, offset);
    close(cached);
    return moved;
}

status_t cuFileGetVersion(int *version) { CALL();
    *version = fault("old") ? 1060 : DOUBLE_VERSION;
    return OK;
}

int cuDeviceGetCount(int *count);
status_t cuFileDriverOpen(void) { CALL();
    if (fault("open-hangs")) for (;;) sleep(1);
    if (fault("open-crashes")) abort();
    if (fault("open-minus-22")) {
        fprintf(stderr, "parsing error, invalid json config\n");
        return (status_t){-22, 0};
    }
    if (fault("open-unknown")) return (status_t){6123, 0};
    /* Libraries up to 1.14 take this from the environment. */
    const char *allow = DOUBLE_VERSION < 1150 ? getenv("CUFILE_ALLOW_COMPAT_MODE") : NULL;
    if (allow != NULL && !fault("deaf")) allow_compat = strcmp(allow, "false") != 0;
    /* Without nvidia-fs there is only compatibility mode to open. */
    if (fault("open-without-nvidia-fs") && !allow_compat) return (status_t){5001, 0};
    ledger.drivers++;
    /* As the library does, in the current directory unless told otherwise. */
    const char *log = getenv("CUFILE_LOGFILE_PATH");
    FILE *file = fopen(log != NULL ? log : "cufile.log", "a");
    if (file != NULL) {
        int gpus;
        cuDeviceGetCount(&gpus);
        fprintf(file, "driver open, GPUs: %d\n", gpus);
        fclose(file);
    }
    return OK;
}
status_t cuFileDriverClose(void) { CALL(); ledger.drivers--; return OK; }
long cuFileUseCount(void) { CALL(); return ledger.drivers; }

status_t cuFileDriverGetProperties(void *properties) { CALL();
    memset(properties, 0, 56);
    ((unsigned *)properties)[7] = allow_compat ? 2 : 0; /* control flags */
    ((unsigned *)properties)[6] = fault("direct") ? 1 << 4 : 0; /* status flags: nvme */
    ((unsigned *)properties)[10] = 1024; /* per-buffer cache in KiB */
    ((unsigned *)properties)[12] = 128; /* entries of a batch */
    return OK;
}

#if DOUBLE_VERSION >= 1160
status_t cuFileDriverGetP2PFlags(int target, unsigned *routes) { CALL(); (void)target; *routes = 0; return OK; }
#endif

#if DOUBLE_VERSION >= 1140
status_t cuFileSetParameterBool(int parameter, bool value) {
    CALL();
    if (parameter == 1) allow_compat = value;
    return OK;
}
status_t cuFileGetParameterBool(int parameter, bool *value) {
    CALL();
    *value = parameter == 1 && allow_compat;
    return OK;
}
status_t cuFileSetParameterSizeT(int parameter, size_t value) { CALL(); (void)parameter, (void)value; return OK; }
status_t cuFileGetParameterSizeT(int parameter, size_t *value) { CALL();
    /* max_io_queue_depth, max_device_pinned_mem_size_kb, io_batchsize */
    *value = parameter == 1 ? 128 : parameter == 8 ? 33554432 : parameter == 9 ? 128 : 1;
    return OK;
}
#endif

status_t cuFileHandleRegister(handle_t **handle, descr_t *descr) { CALL();
    if (fault("handle")) return (status_t){5027, 0};
    *handle = malloc(sizeof **handle);
    (*handle)->fd = descr->handle.fd;
    ledger.handles++;
    return OK;
}
void cuFileHandleDeregister(handle_t *handle) { CALL();
    /* Not the only one of the probe. */
    static int released;
    if (fault("release-hangs") && __atomic_fetch_add(&released, 1, __ATOMIC_RELAXED) > 0) for (;;) sleep(1);
    ledger.handles--;
    free(handle);
}

status_t cuFileBufRegister(const void *base, size_t length, int flags) { CALL();
    (void)length, (void)flags;
    if (fault("buffer") || (fault("third-buffer") && ledger.buffers == 2)) return (status_t){5011, 2};
    for (int i = 0; i < 1024; i++)
        if (registered[i] == NULL) { registered[i] = base; break; }
    ledger.buffers++;
    return OK;
}
status_t cuFileBufDeregister(const void *base) { CALL();
    for (int i = 0; i < 1024; i++)
        if (registered[i] == base) { registered[i] = NULL; ledger.buffers--; return OK; }
    return (status_t){5024, 0};
}

/* Calls of memory of the second device are counted beside those of all. */
static void note_second(struct call *here, const void *at) {
    void *base;
    int device;
    if (device_memory(at, &base, &device) > 0 && device == 1) called(here);
}
ssize_t cuFileRead(handle_t *handle, void *base, size_t size, off_t file, off_t offset) { CALL();
    static struct call second = {"second device: cuFileRead", 0, 0, NULL};
    note_second(&second, base);
    return move_bytes(handle->fd, 0, (char *)base + offset, size, file);
}
ssize_t cuFileWrite(handle_t *handle, const void *base, size_t size, off_t file, off_t offset) { CALL();
    static struct call second = {"second device: cuFileWrite", 0, 0, NULL};
    note_second(&second, base);
    return move_bytes(handle->fd, 1, (char *)base + offset, size, file);
}

status_t cuFileBatchIOSetUp(batch_t **batch, unsigned entries) { CALL();
    *batch = calloc(1, sizeof **batch);
    (*batch)->capacity = entries;
    ledger.batches++;
    return OK;
}
status_t cuFileBatchIOSubmit(batch_t *batch, unsigned count, params_t *entries, unsigned flags) { CALL();
    (void)flags;
    if (fault("batch-full")) return (status_t){5037, 0};
    for (unsigned i = 0; i < count; i++) {
        params_t *entry = &entries[i];
        /* As seen in the real library: the offset from the base is ignored. */
        ssize_t moved = move_bytes(entry->file->fd, entry->opcode, entry->base, entry->size,
                                   entry->file_offset);
        int failed = moved < 0 || (fault("entry") && i == 0);
        batch->done[batch->count++] =
            (event_t){entry->cookie, failed ? 0x40 : 0x10, failed ? (size_t)-5 : (size_t)moved};
    }
    return OK;
}
status_t cuFileBatchIOGetStatus(batch_t *batch, unsigned min, unsigned *count, event_t *events,
                                struct timespec *timeout) { CALL();
    (void)min, (void)timeout;
    if (fault("status")) return (status_t){5041, 0};
    /* One at a time, the last first: owners must not count on order or number. */
    if (batch->count == 0 || *count == 0) { *count = 0; return OK; }
    events[0] = batch->done[--batch->count];
    *count = 1;
    return OK;
}
status_t cuFileBatchIOCancel(batch_t *batch) { CALL(); (void)batch; return OK; }
void cuFileBatchIODestroy(batch_t *batch) { CALL(); ledger.batches--; free(batch); }

unsigned stream_flags;
status_t cuFileStreamRegister(struct stream *stream, unsigned flags) { CALL();
    (void)stream;
    stream_flags = flags;
    if (fault("stream")) return (status_t){5038, 0};
    ledger.streams_registered++;
    return OK;
}
status_t cuFileStreamDeregister(struct stream *stream) { CALL();
    (void)stream;
    ledger.streams_registered--;
    return OK;
}
static status_t later(handle_t *handle, int write, void *base, size_t *size, off_t *file,
                      off_t *offset, ssize_t *moved, struct stream *stream) {
    if (fault("async")) return (status_t){5022, 0};
    put_on(stream, (struct pending){handle->fd, write, base, size, file, offset, moved});
    return OK;
}
status_t cuFileReadAsync(handle_t *handle, void *base, size_t *size, off_t *file, off_t *offset,
                         ssize_t *moved, struct stream *stream) { CALL();
    return later(handle, 0, base, size, file, offset, moved, stream);
}
status_t cuFileWriteAsync(handle_t *handle, void *base, size_t *size, off_t *file, off_t *offset,
                          ssize_t *moved, struct stream *stream) { CALL();
    return later(handle, 1, base, size, file, offset, moved, stream);
}

#if DOUBLE_VERSION >= 1150
status_t cuFileSetStatsLevel(int level) {
    CALL();
    stats_level = level;
    return OK;
}
status_t cuFileStatsStart(void) { CALL(); return stats_level > 0 ? OK : (status_t){5030, 0}; }
/* As the real one: the level is 0 from here on, and what was counted is forgotten. */
status_t cuFileStatsStop(void) {
    CALL();
    stats_level = 0;
    posix_reads = posix_writes = direct_reads = 0;
    return OK;
}
status_t cuFileGetStatsL3(void *statistics) {
    CALL();
    if (stats_level < 3) return (status_t){5022, 0};
    uint64_t *words = statistics;
    memset(words, 0, 5112);
    words[0] = posix_reads + direct_reads;
    words[2] = posix_writes;
    words[34] = posix_reads + posix_writes; /* batch entries by POSIX calls */
    words[42] = direct_reads;               /* batch entries over peer-to-peer DMA */
    words[142] = 1;                         /* one GPU */
    words[143 + 7] = direct_reads;
    words[143 + 9] = posix_reads;
    words[143 + 22] = posix_writes;
    return OK;
}
#endif
