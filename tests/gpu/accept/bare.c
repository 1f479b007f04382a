/* Bare loops over cuFile and CUDA, to hold stormlp against: nothing but the calls that move bytes,
 * and a count. Opens the libraries at run time, so that it runs where only a driver and a Python
 * package's libcufile are.
 *
 *   bare sync|async|batch|copy FOLDER SIZE THREADS DEPTH SECONDS STATISTICS DEVICE
 *   bare memory DEVICE
 *   bare hold DEVICE          keeps the GPU open until standard input ends; a line there asks for memory
 *
 * Thread N reads FOLDER/stormlp.N from end to end, again and again. DEVICE -1 is host memory.
 * STORMLP_LIBCUFILE names the library; BARE_WAIT=block has CUDA wait asleep. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct { int err, cu_err; } status_t;
typedef struct { int type; union { int fd; void *handle; } handle; const void *ops; } descr_t;
typedef struct {
    int mode;
    void *base;
    off_t file_offset, base_offset;
    size_t size;
    void *file;
    int opcode;
    void *cookie;
} params_t;
typedef struct { void *cookie; int status; ssize_t ret; } event_t;

static status_t (*cuFileDriverOpen)(void), (*cuFileDriverClose)(void);
static status_t (*cuFileSetStatsLevel)(int), (*cuFileStatsStart)(void);
static status_t (*cuFileHandleRegister)(void **, descr_t *);
static status_t (*cuFileBufRegister)(const void *, size_t, int);
static ssize_t (*cuFileRead)(void *, void *, size_t, off_t, off_t);
static status_t (*cuFileStreamRegister)(void *, unsigned);
static status_t (*cuFileReadAsync)(void *, void *, size_t *, off_t *, off_t *, ssize_t *, void *);
static status_t (*cuFileBatchIOSetUp)(void **, unsigned);
static status_t (*cuFileBatchIOSubmit)(void *, unsigned, params_t *, unsigned);
static status_t (*cuFileBatchIOGetStatus)(void *, unsigned, unsigned *, event_t *, struct timespec *);
static int (*cuInit)(unsigned), (*cuDeviceGet)(int *, int), (*cuCtxSetCurrent)(void *);
static int (*cuDevicePrimaryCtxSetFlags_v2)(int, unsigned);
static int (*cuDevicePrimaryCtxRetain)(void **, int);
static int (*cuMemAlloc_v2)(uint64_t *, size_t), (*cuMemGetInfo_v2)(size_t *, size_t *);
static int (*cuMemHostAlloc)(void **, size_t, unsigned);
static int (*cuStreamCreate)(void **, unsigned), (*cuStreamSynchronize)(void *);
static int (*cuMemcpyHtoDAsync_v2)(uint64_t, const void *, size_t, void *);

static const char *mode, *folder;
static size_t size;
static int threads, depth, device;
static double seconds;
static void *context;
static pthread_barrier_t gate;
static double ended[1024];
static long operations[1024];

static void fail(const char *what, long code) {
    fprintf(stderr, "bare: %s failed: %ld (errno: %s)\n", what, code, strerror(errno));
    exit(1);
}
static void cuda(const char *what, int code) { if (code != 0) fail(what, code); }
static void cufile(const char *what, status_t status) { if (status.err != 0) fail(what, status.err); }
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}
static void *library(const char *name) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL) { fprintf(stderr, "bare: %s\n", dlerror()); exit(3); }
    return handle;
}
#define FIND(handle, name) \
    if ((*(void **)&name = dlsym(handle, #name)) == NULL) fail("dlsym of " #name, 0)

static void load_cuda(void) {
    void *handle = library("libcuda.so.1");
    FIND(handle, cuInit); FIND(handle, cuDeviceGet); FIND(handle, cuCtxSetCurrent);
    FIND(handle, cuDevicePrimaryCtxSetFlags_v2); FIND(handle, cuDevicePrimaryCtxRetain);
    FIND(handle, cuMemAlloc_v2); FIND(handle, cuMemHostAlloc); FIND(handle, cuStreamCreate);
    FIND(handle, cuStreamSynchronize); FIND(handle, cuMemcpyHtoDAsync_v2);
    *(void **)&cuMemGetInfo_v2 = dlsym(handle, "cuMemGetInfo_v2");
    int ordinal;
    const char *wait = getenv("BARE_WAIT");
    cuda("cuInit", cuInit(0));
    cuda("cuDeviceGet", cuDeviceGet(&ordinal, device));
    int blocks = wait != NULL && strcmp(wait, "block") == 0;
    cuda("cuDevicePrimaryCtxSetFlags", cuDevicePrimaryCtxSetFlags_v2(ordinal, blocks ? 4 : 1));
    cuda("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, ordinal));
    cuda("cuCtxSetCurrent", cuCtxSetCurrent(context));
}

static void load_cufile(int statistics) {
    const char *named = getenv("STORMLP_LIBCUFILE");
    void *handle = library(named != NULL && *named ? named : "libcufile.so.0");
    FIND(handle, cuFileDriverOpen); FIND(handle, cuFileHandleRegister);
    FIND(handle, cuFileBufRegister); FIND(handle, cuFileRead);
    FIND(handle, cuFileStreamRegister); FIND(handle, cuFileReadAsync);
    FIND(handle, cuFileBatchIOSetUp); FIND(handle, cuFileBatchIOSubmit);
    FIND(handle, cuFileBatchIOGetStatus);
    *(void **)&cuFileDriverClose = dlsym(handle, "cuFileDriverClose_v2");
    if (cuFileDriverClose == NULL) FIND(handle, cuFileDriverClose);
    *(void **)&cuFileSetStatsLevel = dlsym(handle, "cuFileSetStatsLevel");
    *(void **)&cuFileStatsStart = dlsym(handle, "cuFileStatsStart");
    int counts = statistics > 0 && cuFileSetStatsLevel != NULL && cuFileStatsStart != NULL;
    if (counts) cufile("cuFileSetStatsLevel", cuFileSetStatsLevel(statistics));
    cufile("cuFileDriverOpen", cuFileDriverOpen());
    if (counts) cufile("cuFileStatsStart", cuFileStatsStart());
}

static void *device_memory(void) {
    void *memory;
    if (device < 0) {
        if (posix_memalign(&memory, 2 << 20, size) != 0) fail("posix_memalign", 0);
        memset(memory, 1, size);
        return memory;
    }
    uint64_t address;
    /* CUDA aligns to 512 bytes at least; a page is what the direct route wants. */
    cuda("cuMemAlloc", cuMemAlloc_v2(&address, size + 65536));
    return (void *)(uintptr_t)((address + 65535) & ~(uint64_t)65535);
}

/* Where a thread is in its file. */
struct walk { off_t next, end; };
static off_t step(struct walk *walk) {
    off_t here = walk->next;
    walk->next = here + 2 * (off_t)size > walk->end ? 0 : here + (off_t)size;
    return here;
}

static void whole(const char *what, ssize_t moved) { if (moved != (ssize_t)size) fail(what, moved); }

static long sync_loop(void *file, void **memory, struct walk *walk, double until) {
    long count = 0;
    do { whole("cuFileRead", cuFileRead(file, memory[0], size, step(walk), 0)); count++; }
    while (now() < until);
    return count;
}

static long async_loop(void *file, void **memory, struct walk *walk, double until) {
    void **streams = calloc(depth, sizeof *streams);
    size_t *sizes = calloc(depth, sizeof *sizes);
    off_t *offsets = calloc(depth, sizeof *offsets), zero = 0;
    ssize_t *moved = calloc(depth, sizeof *moved);
    long count = 0, flying = 0;
    for (int i = 0; i < depth; i++) {
        cuda("cuStreamCreate", cuStreamCreate(&streams[i], 1));
        cufile("cuFileStreamRegister", cuFileStreamRegister(streams[i], 15));
    }
    /* The oldest is waited for and started again, until the time is over. */
    for (long turn = 0; turn < depth || flying > 0; turn++) {
        int i = turn % depth;
        if (turn >= depth && sizes[i] != 0) {
            cuda("cuStreamSynchronize", cuStreamSynchronize(streams[i]));
            whole("cuFileReadAsync", moved[i]);
            sizes[i] = 0, flying--, count++;
        }
        if (turn < depth || now() < until) {
            sizes[i] = size, offsets[i] = step(walk), moved[i] = 0;
            cufile("cuFileReadAsync", cuFileReadAsync(file, memory[i], &sizes[i], &offsets[i],
                                                      &zero, &moved[i], streams[i]));
            flying++;
        }
    }
    return count;
}

static long batch_loop(void *file, void **memory, struct walk *walk, double until) {
    params_t *entries = calloc(depth, sizeof *entries);
    event_t *events = calloc(depth, sizeof *events);
    void *batch;
    long count = 0;
    cufile("cuFileBatchIOSetUp", cuFileBatchIOSetUp(&batch, depth));
    do {
        for (int i = 0; i < depth; i++)
            entries[i] = (params_t){.mode = 1, .base = memory[i], .file_offset = step(walk),
                                    .size = size, .file = file, .cookie = (void *)(intptr_t)i};
        cufile("cuFileBatchIOSubmit", cuFileBatchIOSubmit(batch, depth, entries, 0));
        for (int left = depth; left > 0;) {
            unsigned got = left;
            cufile("cuFileBatchIOGetStatus", cuFileBatchIOGetStatus(batch, left, &got, events, NULL));
            for (unsigned i = 0; i < got; i++) {
                if (events[i].status != 16) fail("a batch entry", events[i].status);
                whole("a batch entry", events[i].ret);
            }
            left -= got; count += got;
        }
    } while (now() < until);
    return count;
}

static long copy_loop(int fd, void **memory, struct walk *walk, double until) {
    void *host, *stream;
    long count = 0;
    cuda("cuMemHostAlloc", cuMemHostAlloc(&host, size, 0));
    cuda("cuStreamCreate", cuStreamCreate(&stream, 1));
    do {
        whole("pread", pread(fd, host, size, step(walk)));
        cuda("cuMemcpyHtoDAsync",
             cuMemcpyHtoDAsync_v2((uint64_t)(uintptr_t)memory[0], host, size, stream));
        cuda("cuStreamSynchronize", cuStreamSynchronize(stream));
        count++;
    } while (now() < until);
    return count;
}

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument, is_copy = strcmp(mode, "copy") == 0;
    char path[4096];
    if (device >= 0) cuda("cuCtxSetCurrent", cuCtxSetCurrent(context));
    snprintf(path, sizeof path, "%s/stormlp.%d", folder, thread);
    int fd = open(path, O_RDONLY | O_DIRECT);
    if (fd < 0) fd = open(path, O_RDONLY);
    struct stat facts;
    if (fd < 0 || fstat(fd, &facts) != 0) fail(path, fd);
    struct walk walk = {0, facts.st_size};
    void **memory = calloc(depth, sizeof *memory), *file = NULL;
    for (int i = 0; i < depth; i++) memory[i] = device_memory();
    if (!is_copy) {
        descr_t descr = {.type = 1, .handle.fd = fd};
        cufile("cuFileHandleRegister", cuFileHandleRegister(&file, &descr));
        for (int i = 0; i < depth; i++)
            cufile("cuFileBufRegister", cuFileBufRegister(memory[i], size, 0));
    }
    pthread_barrier_wait(&gate);
    double until = now() + seconds;
    operations[thread] = is_copy                      ? copy_loop(fd, memory, &walk, until)
                         : strcmp(mode, "async") == 0 ? async_loop(file, memory, &walk, until)
                         : strcmp(mode, "batch") == 0 ? batch_loop(file, memory, &walk, until)
                                                      : sync_loop(file, memory, &walk, until);
    ended[thread] = now();
    return NULL;
}

int main(int count, char **words) {
    /* As in stormlp: a number is the same GPU for both, and for nvidia-smi. */
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
    if (count == 3) {
        int holds = strcmp(words[1], "hold") == 0;
        if (!holds && strcmp(words[1], "memory") != 0) fail(words[1], 0);
        device = atoi(words[2]);
        load_cuda();
        char line[256];
        while (!holds || fgets(line, sizeof line, stdin) != NULL) {
            size_t unused = 0, total = 0;
            if (cuMemGetInfo_v2 != NULL) cuda("cuMemGetInfo", cuMemGetInfo_v2(&unused, &total));
            printf("{\"free_bytes\": %zu, \"total_bytes\": %zu}\n", unused, total);
            fflush(stdout);
            if (!holds) break;
        }
        return 0;
    }
    if (count != 9) { fprintf(stderr, "bare: see the head of bare.c\n"); return 2; }
    mode = words[1]; folder = words[2]; size = strtoul(words[3], NULL, 10);
    threads = atoi(words[4]); depth = atoi(words[5]); seconds = atof(words[6]);
    device = atoi(words[8]);
    if (threads < 1 || threads > 1024 || depth < 1) fail("the numbers", 0);
    if (device >= 0) load_cuda();
    if (strcmp(mode, "copy") != 0) load_cufile(atoi(words[7]));
    pthread_t *crew = calloc(threads, sizeof *crew);
    pthread_barrier_init(&gate, NULL, threads + 1);
    for (intptr_t i = 0; i < threads; i++) pthread_create(&crew[i], NULL, work, (void *)i);
    pthread_barrier_wait(&gate);
    double started = now(), last = started;
    long sum = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(crew[i], NULL);
        sum += operations[i];
        if (ended[i] > last) last = ended[i];
    }
    printf("{\"operations\": %ld, \"seconds\": %.6f, \"iops\": %.1f}\n", sum, last - started,
           sum / (last - started));
    fflush(stdout);
    /* The process ends here, which takes registrations, files and memory with it. */
    if (cuFileDriverClose != NULL && getenv("BARE_CLOSE") != NULL) cuFileDriverClose();
    _exit(0);
}
