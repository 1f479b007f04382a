/* With cuda.c and stand_in_streams.c a libcuda of its own, for NVIDIA's libcufile where there is no GPU: that library
 * opens only with a libcuda (up to 1.15), and looks up all of these functions. Those that it calls
 * with host memory for a GPU's answer; the others are refused as not supported. Devices whose
 * memory is the host's. Built by a test, never shipped, written from the public interfaces. */
#define _GNU_SOURCE
#include "double.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int result_t;
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801 };

/* What cuda.c has from the other half of the double. */
struct ledger ledger;
void called(struct call *here) { (void)here; }
int fault(const char *name) {
    const char *wanted = getenv("DOUBLE_FAULT");
    return wanted != NULL && strcmp(wanted, name) == 0;
}
int is_registered(const void *base) { (void)base; return 0; }
ssize_t move_bytes(int fd, int write, void *base, size_t size, off_t offset) {
    return write ? pwrite(fd, base, size, offset) : pread(fd, base, size, offset);
}

result_t cuCtxGetCurrent(void **context);
result_t cuCtxSetCurrent(void *context);
result_t cuDevicePrimaryCtxRetain(void **context, int device);
result_t cuMemHostAlloc(void **base, size_t bytes, unsigned flags);

/* The contexts below the current one. */
static __thread void *below[64];
static __thread int depth;
result_t cuCtxPushCurrent_v2(void *context) {
    if (depth == 64) return INVALID_VALUE;
    cuCtxGetCurrent(&below[depth++]);
    return cuCtxSetCurrent(context);
}
result_t cuCtxPopCurrent_v2(void **context) {
    if (depth == 0) return INVALID_CONTEXT;
    if (context != NULL) cuCtxGetCurrent(context);
    return cuCtxSetCurrent(below[--depth]);
}
result_t cuCtxCreate_v2(void **context, unsigned flags, int device) {
    (void)flags;
    result_t retained = cuDevicePrimaryCtxRetain(context, device);
    if (retained != SUCCESS) return retained;
    return cuCtxPushCurrent_v2(*context);
}
result_t cuCtxDestroy_v2(void *context) {
    void *current;
    cuCtxGetCurrent(&current);
    return current == context ? cuCtxPopCurrent_v2(NULL) : SUCCESS;
}
result_t cuCtxGetDevice(int *device) {
    *device = current_device();
    return *device >= 0 ? SUCCESS : INVALID_CONTEXT;
}
result_t cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    if (least != NULL) *least = 0;
    if (greatest != NULL) *greatest = 0;
    return SUCCESS;
}
result_t cuDeviceGetUuid_v2(char *uuid, int device) {
    memcpy(uuid, "stands in for 1.", 16);
    uuid[14] += (char)device;
    return SUCCESS;
}
result_t cuDeviceGetUuid(char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

result_t cuMemGetAddressRange_v2(void **base, size_t *bytes, void *at) {
    void *start;
    size_t size = device_memory(at, &start, NULL);
    if (size == 0) return INVALID_VALUE;
    if (base != NULL) *base = start;
    if (bytes != NULL) *bytes = size;
    return SUCCESS;
}
result_t cuPointerGetAttribute(void *answer, int attribute, void *at) {
    void *base;
    int device;
    size_t bytes = device_memory(at, &base, &device);
    if (bytes == 0) return INVALID_VALUE;
    switch (attribute) {
    case 1: return cuCtxGetCurrent(answer);
    case 2: *(unsigned *)answer = 2; return SUCCESS; /* memory of a device */
    case 3: *(void **)answer = at; return SUCCESS;
    case 6: *(unsigned *)answer = 1; return SUCCESS; /* calls of memory are synchronous */
    case 7: *(uint64_t *)answer = (uintptr_t)base; return SUCCESS; /* its number */
    case 8: *(unsigned *)answer = 0; return SUCCESS; /* not managed */
    case 9: *(int *)answer = device; return SUCCESS; /* which device */
    case 11: *(void **)answer = base; return SUCCESS;
    case 12: *(size_t *)answer = bytes; return SUCCESS;
    case 13: *(unsigned *)answer = 1; return SUCCESS; /* mapped */
    default: return NOT_SUPPORTED;
    }
}
result_t cuPointerSetAttribute(const void *value, int attribute, void *at) {
    void *base;
    (void)value, (void)attribute;
    return device_memory(at, &base, NULL) > 0 ? SUCCESS : INVALID_VALUE;
}

static result_t copy(void *to, const void *from, size_t bytes) {
    if (is_lost(1)) return LAUNCH_FAILED;
    memmove(to, from, bytes);
    return SUCCESS;
}
result_t cuMemcpy(void *to, const void *from, size_t bytes) { return copy(to, from, bytes); }
result_t cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes) { return copy(to, from, bytes); }
result_t cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes) { return copy(to, from, bytes); }
result_t cuMemsetD8_v2(void *base, unsigned char value, size_t bytes) {
    memset(base, value, bytes);
    return SUCCESS;
}
result_t cuMemAllocHost_v2(void **base, size_t bytes) { return cuMemHostAlloc(base, bytes, 0); }
result_t cuMemHostGetDevicePointer_v2(void **base, void *host, unsigned flags) {
    (void)flags;
    *base = host;
    return SUCCESS;
}

#define REFUSED(name) result_t name(void) { return NOT_SUPPORTED; }
REFUSED(cuCtxEnablePeerAccess)
REFUSED(cuDeviceCanAccessPeer)
REFUSED(cuEventElapsedTime)
REFUSED(cuGetExportTable)
REFUSED(cuIpcCloseMemHandle)
REFUSED(cuIpcGetEventHandle)
REFUSED(cuIpcGetMemHandle)
REFUSED(cuIpcOpenEventHandle)
REFUSED(cuIpcOpenMemHandle_v2)
REFUSED(cuMemAllocManaged)
REFUSED(cuMemGetHandleForAddressRange)
REFUSED(cuMemcpyPeer)
REFUSED(cuMemcpyPeerAsync)
REFUSED(cuPointerGetAttributes)
