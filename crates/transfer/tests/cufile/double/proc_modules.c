/* Lets libcufile 1.16 to 1.20 open its driver where /proc/modules is missing: opening that file
 * yields an empty one instead. Preloaded by a test, never shipped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef FILE *open_function(const char *, const char *);

static FILE *open_with(const char *name, const char *path, const char *mode) {
    open_function *next = (open_function *)dlsym(RTLD_NEXT, name);
    int modules = path != NULL && strcmp(path, "/proc/modules") == 0;
    return next(modules ? "/dev/null" : path, mode);
}

FILE *fopen(const char *path, const char *mode) { return open_with("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return open_with("fopen64", path, mode); }
