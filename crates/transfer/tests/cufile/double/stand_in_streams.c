/* The streams of the stand-in of libcuda: each has a thread that does what is on it in order, as a
 * GPU would, since NVIDIA's libcufile puts functions of its own on the streams that are handed to
 * it. For memory of a GPU it also launches a kernel of its own there (cuFileGpuCopy), which nothing
 * but a GPU can run: such transfers fail with EIO. */
#define _GNU_SOURCE
#include "double.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

typedef int result_t;
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, NOT_READY = 600, LAUNCH_FAILED = 719 };

/* A step of a stream: a function, a copy, a word to write or to wait for, or an event. */
struct step {
    enum { CALL_HOST, COPY, FILL, WRITE_WORD, WAIT_FOR_WORD, MARK } kind;
    void (*function)(void *);
    void *data; /* of the function; where a copy goes; the event */
    const void *from;
    size_t bytes;
    volatile uint32_t *word;
    uint32_t value;
    unsigned flags;
    struct step *next;
};

struct stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct step *first, **last;
    int steps; /* not done yet */
    int ends;
    pthread_t thread;
};

struct event { int is_pending; };

/* The comparisons of cuStreamWaitValue32. */
static int has_come(const struct step *step) {
    uint32_t found = __atomic_load_n(step->word, __ATOMIC_ACQUIRE);
    switch (step->flags & 3) {
    case 0: return (int32_t)(found - step->value) >= 0;
    case 1: return found == step->value;
    case 2: return (found & step->value) != 0;
    default: return ~(found | step->value) != 0;
    }
}

static void perform(struct step *step) {
    switch (step->kind) {
    case CALL_HOST: step->function(step->data); break;
    case COPY: memmove(step->data, step->from, step->bytes); break;
    case FILL: memset(step->data, (int)step->value, step->bytes); break;
    case WRITE_WORD: __atomic_store_n(step->word, step->value, __ATOMIC_RELEASE); break;
    case WAIT_FOR_WORD: while (!has_come(step)) sched_yield(); break;
    case MARK: __atomic_store_n(&((struct event *)step->data)->is_pending, 0, __ATOMIC_RELEASE); break;
    }
}

static void *work(void *of) {
    struct stream *stream = of;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->first == NULL && !stream->ends) pthread_cond_wait(&stream->changed, &stream->lock);
        struct step *step = stream->first;
        if (step == NULL) break;
        stream->first = step->next;
        if (stream->first == NULL) stream->last = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        perform(step);
        free(step);
        pthread_mutex_lock(&stream->lock);
        stream->steps--;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static struct stream *begin(void) {
    struct stream *stream = calloc(1, sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->last = &stream->first;
    pthread_create(&stream->thread, NULL, work, stream);
    return stream;
}

/* The default stream and the thread's own, which CUDA numbers up to 2, are one here. */
static struct stream *common;
static pthread_once_t begun = PTHREAD_ONCE_INIT;
static void begin_common(void) { common = begin(); }
static struct stream *real(struct stream *stream) {
    if ((uintptr_t)stream > 2) return stream;
    pthread_once(&begun, begin_common);
    return common;
}

static result_t put(struct stream *stream, struct step step) {
    struct step *own = malloc(sizeof *own);
    *own = step;
    own->next = NULL;
    stream = real(stream);
    pthread_mutex_lock(&stream->lock);
    *stream->last = own;
    stream->last = &own->next;
    stream->steps++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return SUCCESS;
}

void run_stream(struct stream *stream) {
    stream = real(stream);
    pthread_mutex_lock(&stream->lock);
    while (stream->steps > 0) pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}
/* At once where the stream has nothing else to do: no thread has to wake up for it. */
void copy_in_order(void *to, const void *from, size_t bytes, struct stream *stream) {
    struct stream *own = real(stream);
    pthread_mutex_lock(&own->lock);
    int is_idle = own->steps == 0;
    pthread_mutex_unlock(&own->lock);
    if (is_idle) memmove(to, from, bytes);
    else put(own, (struct step){.kind = COPY, .data = to, .from = from, .bytes = bytes});
}

result_t cuStreamCreate(struct stream **stream, unsigned flags) {
    (void)flags;
    if (current_device() < 0) return INVALID_CONTEXT;
    *stream = begin();
    return SUCCESS;
}
result_t cuStreamCreateWithPriority(struct stream **stream, unsigned flags, int priority) {
    (void)priority;
    return cuStreamCreate(stream, flags);
}
result_t cuStreamSynchronize(struct stream *stream) {
    run_stream(stream);
    return is_lost(0) ? LAUNCH_FAILED : SUCCESS;
}
result_t cuStreamQuery(struct stream *stream) {
    if (is_lost(0)) return LAUNCH_FAILED;
    stream = real(stream);
    pthread_mutex_lock(&stream->lock);
    int steps = stream->steps;
    pthread_mutex_unlock(&stream->lock);
    return steps > 0 ? NOT_READY : SUCCESS;
}
result_t cuStreamDestroy_v2(struct stream *stream) {
    if ((uintptr_t)stream <= 2) return INVALID_VALUE;
    pthread_mutex_lock(&stream->lock);
    stream->ends = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    free(stream);
    return SUCCESS;
}
result_t cuLaunchHostFunc(struct stream *stream, void (*function)(void *), void *data) {
    return put(stream, (struct step){.kind = CALL_HOST, .function = function, .data = data});
}
result_t cuMemcpyAsync(void *to, const void *from, size_t bytes, struct stream *stream) {
    if (is_lost(1)) return LAUNCH_FAILED;
    copy_in_order(to, from, bytes, stream);
    return SUCCESS;
}
result_t cuMemsetD8Async(void *base, unsigned char value, size_t bytes, struct stream *stream) {
    return put(stream, (struct step){.kind = FILL, .data = base, .value = value, .bytes = bytes});
}
result_t cuStreamWriteValue32_v2(struct stream *stream, void *word, uint32_t value, unsigned flags) {
    (void)flags;
    return put(stream, (struct step){.kind = WRITE_WORD, .word = word, .value = value});
}
result_t cuStreamWaitValue32_v2(struct stream *stream, void *word, uint32_t value, unsigned flags) {
    return put(stream, (struct step){.kind = WAIT_FOR_WORD, .word = word, .value = value, .flags = flags});
}
result_t cuStreamWriteValue32(struct stream *stream, void *word, uint32_t value, unsigned flags) {
    return cuStreamWriteValue32_v2(stream, word, value, flags);
}
result_t cuStreamWaitValue32(struct stream *stream, void *word, uint32_t value, unsigned flags) {
    return cuStreamWaitValue32_v2(stream, word, value, flags);
}

result_t cuEventCreate(struct event **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    return SUCCESS;
}
result_t cuEventQuery(struct event *event) {
    return __atomic_load_n(&event->is_pending, __ATOMIC_ACQUIRE) ? NOT_READY : SUCCESS;
}
result_t cuEventSynchronize(struct event *event) {
    while (cuEventQuery(event) != SUCCESS) sched_yield();
    return SUCCESS;
}
result_t cuEventRecord(struct event *event, struct stream *stream) {
    if (cuStreamQuery(stream) == SUCCESS) return SUCCESS;
    __atomic_store_n(&event->is_pending, 1, __ATOMIC_RELEASE);
    return put(stream, (struct step){.kind = MARK, .data = event});
}
result_t cuEventDestroy_v2(struct event *event) {
    cuEventSynchronize(event);
    free(event);
    return SUCCESS;
}
result_t cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    (void)stream, (void)flags;
    /* The caller waits for it: nothing that comes later on the stream is earlier. */
    return cuEventSynchronize(event);
}
