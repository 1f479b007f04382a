/* Trouble with a run's files that are open for direct transfers, as DOUBLE_IO_READS and
 * DOUBLE_IO_WRITES say: the errno with which every call fails; "nothing", which every call moves;
 * "halt", where the first moves half and the second nothing; or "hang". The file that stormlp's
 * probe makes is left alone. Preloaded by a test, never shipped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_data(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_DIRECT) == 0) return 0;
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return strstr(name, ".stormlp-cufile-probe") == NULL;
}

typedef ssize_t read_function(int, void *, size_t, off_t);
typedef ssize_t write_function(int, const void *, size_t, off_t);

/* Whether the call fails, with errno set; otherwise how much it is to move. */
static int fails(int fd, int write, size_t *size) {
    static int calls;
    const char *how = getenv(write ? "DOUBLE_IO_WRITES" : "DOUBLE_IO_READS");
    if (how == NULL || !is_data(fd)) return 0;
    while (strcmp(how, "hang") == 0) pause();
    int nth = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    int halts = strcmp(how, "halt") == 0;
    if (halts && nth == 0) *size /= 2;
    else if ((halts && nth == 1) || strcmp(how, "nothing") == 0) *size = 0;
    else if (!halts) {
        errno = atoi(how);
        return 1;
    }
    return 0;
}
#define READ(name)                                                                        \
    ssize_t name(int fd, void *to, size_t size, off_t offset) {                           \
        if (fails(fd, 0, &size)) return -1;                                               \
        return ((read_function *)dlsym(RTLD_NEXT, #name))(fd, to, size, offset);          \
    }
#define WRITE(name)                                                                       \
    ssize_t name(int fd, const void *from, size_t size, off_t offset) {                   \
        if (fails(fd, 1, &size)) return -1;                                               \
        return ((write_function *)dlsym(RTLD_NEXT, #name))(fd, from, size, offset);       \
    }
READ(pread)
READ(pread64)
WRITE(pwrite)
WRITE(pwrite64)
