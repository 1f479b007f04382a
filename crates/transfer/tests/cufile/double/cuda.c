/* The libcuda half of the double; see double.h. As many devices as DOUBLE_GPUS says (one if it is
 * not set), of which CUDA_VISIBLE_DEVICES may show a part; their memory is the host's. */
#define _GNU_SOURCE
#include "double.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int result_t;
enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, ALREADY_REGISTERED = 712, LAUNCH_FAILED = 719, SYSTEM_NOT_READY = 802 };

enum { MOST_GPUS = 8 };
static int contexts[MOST_GPUS];
static __thread void *current;

/* The devices that the process sees, by their numbers on the bus; read once, as CUDA does. */
static int visible[MOST_GPUS], visible_count = -1;
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static void look(void) {
    const char *gpus = getenv("DOUBLE_GPUS"), *shown = getenv("CUDA_VISIBLE_DEVICES");
    int all = gpus != NULL ? atoi(gpus) : 1;
    visible_count = 0;
    for (int i = 0; shown == NULL && i < all && i < MOST_GPUS; i++) visible[visible_count++] = i;
    /* The first that does not exist ends the list. */
    for (const char *at = shown; at != NULL && *at != 0 && visible_count < MOST_GPUS;) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || number < 0 || number >= all) break;
        visible[visible_count++] = (int)number;
        at = *end == ',' ? end + 1 : end;
    }
}
static int is_device(int ordinal) {
    pthread_once(&looked, look);
    return ordinal >= 0 && ordinal < visible_count;
}
/* The device of the thread's current context, -1 without one. */
int current_device(void) { return current != NULL ? (int)((int *)current - contexts) : -1; }

result_t cuInit(unsigned flags) {
    CALL();
    (void)flags;
    if (fault("no-fabric")) return SYSTEM_NOT_READY;
    return fault("no-device") ? NO_DEVICE : SUCCESS;
}
result_t cuDriverGetVersion(int *version) { CALL(); *version = 12080; return SUCCESS; }
result_t cuDeviceGetCount(int *count) { CALL(); is_device(0); *count = visible_count; return SUCCESS; }
result_t cuDeviceGet(int *device, int ordinal) { CALL();
    *device = ordinal;
    return is_device(ordinal) ? SUCCESS : INVALID_DEVICE;
}
result_t cuDeviceGetName(char *name, int length, int device) { CALL();
    (void)device;
    snprintf(name, (size_t)length, "Double");
    return SUCCESS;
}
result_t cuDeviceTotalMem_v2(size_t *bytes, int device) { CALL(); (void)device; *bytes = (size_t)4 << 30; return SUCCESS; }
result_t cuMemGetInfo_v2(size_t *unused, size_t *total) { CALL(); *unused = *total = (size_t)4 << 30; return SUCCESS; }
result_t cuDeviceGetAttribute(int *value, int attribute, int device) { CALL();
    (void)device;
    /* NVIDIA's libcufile takes GPUs from compute capability 6 on. */
    enum { COMPUTE_CAPABILITY_MAJOR = 75 };
    *value = attribute == COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return SUCCESS;
}
result_t cuDeviceGetPCIBusId(char *text, int length, int device) { CALL();
    snprintf(text, (size_t)length, "0000:FF:1F.%d", 7 - visible[device]);
    return SUCCESS;
}
/* How contexts wait: 1 spins, 4 blocks. */
unsigned context_flags;
result_t cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { CALL();
    (void)device;
    context_flags = flags;
    return SUCCESS;
}
result_t cuDevicePrimaryCtxRetain(void **context, int device) { CALL();
    if (!is_device(device)) return INVALID_DEVICE;
    *context = &contexts[device];
    ledger.contexts++;
    return SUCCESS;
}
result_t cuDevicePrimaryCtxRelease_v2(int device) { CALL(); (void)device; ledger.contexts--; return SUCCESS; }
result_t cuCtxGetCurrent(void **context) { CALL(); *context = current; return SUCCESS; }
result_t cuCtxSetCurrent(void *context) { CALL(); current = context; return SUCCESS; }
result_t cuGetErrorName(result_t error, const char **name) { CALL(); (void)error; *name = "CUDA_ERROR_DOUBLE"; return SUCCESS; }
result_t cuGetErrorString(result_t error, const char **text) { CALL(); (void)error; *text = "an error of the double"; return SUCCESS; }

/* Where device memory is. */
static struct { char *base; size_t bytes; int device; } memory[1024];
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static void replace_memory(void *base, void *by, size_t bytes) {
    pthread_mutex_lock(&memory_lock);
    for (int i = 0; i < 1024; i++)
        if (memory[i].base == base) {
            memory[i].base = by;
            memory[i].bytes = bytes;
            memory[i].device = current_device();
            break;
        }
    pthread_mutex_unlock(&memory_lock);
}
size_t device_memory(const void *at, void **base, int *device) {
    size_t bytes = 0;
    pthread_mutex_lock(&memory_lock);
    for (int i = 0; i < 1024 && bytes == 0; i++)
        if (memory[i].base != NULL && (uintptr_t)at - (uintptr_t)memory[i].base < memory[i].bytes) {
            *base = memory[i].base;
            if (device != NULL) *device = memory[i].device;
            bytes = memory[i].bytes;
        }
    pthread_mutex_unlock(&memory_lock);
    return bytes;
}

int is_lost(int copies) {
    static int made;
    return fault("lost") && __atomic_add_fetch(&made, copies, __ATOMIC_RELAXED) > 4;
}

/* Whether this is the child process in which stormlp tries the libraries first. */
static int is_probe(void) {
    char words[4096];
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = file != NULL ? fread(words, 1, sizeof words, file) : 0;
    if (file != NULL) fclose(file);
    return memmem(words, length, "__probe", 7) != NULL;
}

static result_t allocate(void **base, size_t bytes) {
    if (current == NULL) return INVALID_CONTEXT;
    while (fault("allocation-hangs") && !is_probe()) pause();
    if (is_lost(0)) return LAUNCH_FAILED;
    if (fault("out-of-memory")) return OUT_OF_MEMORY;
    /* Only as aligned as CUDA promises. */
    *base = (char *)aligned_alloc(65536, (bytes + 131071) & ~(size_t)65535) + 512;
    replace_memory(NULL, *base, bytes);
    ledger.allocations++;
    return SUCCESS;
}
static result_t release(void *base) {
    if (current == NULL) return INVALID_CONTEXT;
    char *start = (char *)base - 512;
    if (is_registered(base) || is_registered(start + 65536)) ledger.freed_while_registered++;
    replace_memory(base, NULL, 0);
    free(start);
    ledger.allocations--;
    return SUCCESS;
}
result_t cuMemAlloc_v2(void **base, size_t bytes) { CALL(); return allocate(base, bytes); }
result_t cuMemFree_v2(void *base) { CALL(); return release(base); }
result_t cuMemHostAlloc(void **base, size_t bytes, unsigned flags) { CALL();
    (void)flags;
    if (current == NULL) return INVALID_CONTEXT;
    if (fault("out-of-memory")) return OUT_OF_MEMORY;
    *base = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    ledger.allocations++;
    return SUCCESS;
}
result_t cuMemFreeHost(void *base) { CALL();
    if (current == NULL) return INVALID_CONTEXT;
    if (is_registered(base)) ledger.freed_while_registered++;
    free(base);
    ledger.allocations--;
    return SUCCESS;
}
result_t cuMemHostRegister_v2(void *base, size_t bytes, unsigned flags) { CALL();
    (void)base, (void)bytes, (void)flags;
    /* As where neighbours lie on one large page: the second finds it pinned already. */
    if (fault("page-pinned") && ledger.pins > 0) return ALREADY_REGISTERED;
    if (fault("pin-refused")) return OUT_OF_MEMORY;
    ledger.pins++;
    return SUCCESS;
}
result_t cuMemHostUnregister(void *base) { CALL(); (void)base; ledger.pins--; return SUCCESS; }

result_t cuMemGetAllocationGranularity(size_t *granularity, const void *properties, int option) { CALL();
    (void)properties, (void)option;
    *granularity = 2 << 20;
    return SUCCESS;
}
result_t cuMemCreate(unsigned long long *handle, size_t bytes, const void *properties,
                     unsigned long long flags) { CALL();
    (void)bytes, (void)properties, (void)flags;
    *handle = 1;
    ledger.allocations++;
    return SUCCESS;
}
result_t cuMemRelease(unsigned long long handle) { CALL(); (void)handle; ledger.allocations--; return SUCCESS; }
result_t cuMemAddressReserve(void **base, size_t bytes, size_t alignment, void *hint,
                             unsigned long long flags) { CALL();
    (void)alignment, (void)hint, (void)flags;
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    replace_memory(NULL, *base, bytes);
    ledger.allocations++;
    return SUCCESS;
}
result_t cuMemAddressFree(void *base, size_t bytes) { CALL();
    if (is_registered(base)) ledger.freed_while_registered++;
    replace_memory(base, NULL, 0);
    munmap(base, bytes);
    ledger.allocations--;
    return SUCCESS;
}
result_t cuMemMap(void *base, size_t bytes, size_t offset, unsigned long long handle,
                  unsigned long long flags) { CALL();
    (void)base, (void)bytes, (void)offset, (void)handle, (void)flags;
    ledger.allocations++;
    return SUCCESS;
}
result_t cuMemUnmap(void *base, size_t bytes) { CALL(); (void)base, (void)bytes; ledger.allocations--; return SUCCESS; }
result_t cuMemSetAccess(void *base, size_t bytes, const void *access, size_t count) { CALL();
    (void)base, (void)bytes, (void)access, (void)count;
    return fault("vmm-access") ? OUT_OF_MEMORY : SUCCESS;
}

static result_t copy(void *to, const void *from, size_t bytes, struct stream *stream) {
    if (current == NULL) return INVALID_CONTEXT;
    if (fault("copy")) return OUT_OF_MEMORY;
    if (is_lost(1)) return LAUNCH_FAILED;
    copy_in_order(to, from, bytes, stream);
    return SUCCESS;
}
result_t cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, struct stream *stream) { CALL();
    return copy(to, from, bytes, stream);
}
result_t cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, struct stream *stream) { CALL();
    return copy(to, from, bytes, stream);
}
