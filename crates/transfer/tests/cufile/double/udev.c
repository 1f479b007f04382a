/* Shows files of the folder that DOUBLE_UDEV names in the place of those of their names below
 * /run/udev/data, where libudev finds what is known of a device: libcufile registers no file on a
 * device without an entry, and containers have none. Preloaded by a test, never shipped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int open_function(const char *, int, ...);
typedef int openat_function(int, const char *, int, ...);
typedef FILE *fopen_function(const char *, const char *);

struct place { char path[4096]; };

static const char *shown(const char *path, struct place *place) {
    static const char data[] = "/run/udev/data/";
    const char *folder = getenv("DOUBLE_UDEV");
    if (folder == NULL || path == NULL || strncmp(path, data, strlen(data)) != 0) return path;
    snprintf(place->path, sizeof place->path, "%s/%s", folder, path + strlen(data));
    return access(place->path, R_OK) == 0 ? place->path : path;
}

#define MODE(flags)             \
    va_list rest;               \
    va_start(rest, flags);      \
    mode_t mode = va_arg(rest, mode_t); \
    va_end(rest);               \
    struct place place
#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        MODE(flags);                                                            \
        return ((open_function *)dlsym(RTLD_NEXT, #name))(shown(path, &place), flags, mode); \
    }
#define OPENAT(name)                                                            \
    int name(int folder, const char *path, int flags, ...) {                    \
        MODE(flags);                                                            \
        openat_function *next = (openat_function *)dlsym(RTLD_NEXT, #name);     \
        return next(folder, shown(path, &place), flags, mode);                  \
    }
#define FOPEN(name)                                                             \
    FILE *name(const char *path, const char *mode) {                            \
        struct place place;                                                     \
        return ((fopen_function *)dlsym(RTLD_NEXT, #name))(shown(path, &place), mode); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
FOPEN(fopen)
FOPEN(fopen64)
