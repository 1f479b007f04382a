/* Shows the file that DOUBLE_NVFS names in the place of the statistics of nvidia-fs, which the
 * double writes. Preloaded by a test, never shipped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef int open_function(const char *, int, ...);

static int open_with(const char *name, const char *path, int flags, mode_t mode) {
    open_function *next = (open_function *)dlsym(RTLD_NEXT, name);
    const char *told = getenv("DOUBLE_NVFS");
    int statistics = told != NULL && path != NULL && strcmp(path, "/proc/driver/nvidia-fs/stats") == 0;
    return next(statistics ? told : path, flags, mode);
}

#define OPEN(name)                                \
    int name(const char *path, int flags, ...) {  \
        va_list rest;                             \
        va_start(rest, flags);                    \
        mode_t mode = va_arg(rest, mode_t);       \
        va_end(rest);                             \
        return open_with(#name, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
