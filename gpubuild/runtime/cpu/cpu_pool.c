/* cpu_pool.c: the threads of the CPU device, and the thread slots that limit how many of them work at a time.
 *
 * Threads fetch tasks in chunks. A chunk is a fraction of the remaining tasks, so that there are few chunks, and small ones
 * at the end. A thread that works holds a slot. If others wait for one, it passes its slot on after QUANTUM_NS, between two
 * chunks: launches share the slots in time slices, first come, first served.
 *
 * A workgroup cannot be interrupted, and kernels of two streams may wait for each other, as on a GPU. So when no slot was
 * passed on for PATIENCE_NS, the first thread in line continues without one. */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu_device.h"

#include <pthread.h>
#include <time.h>

enum {
    CHUNKS_PER_THREAD = 4,  /* of the remaining tasks */
    CHUNKS_AT_THE_END = 32, /* of all tasks, at least: so that a slow thread delays the end little */
    CHUNK_UNIT = 32         /* larger chunks are a multiple of it, so that neighbours stay together */
};

#ifndef GB_CPU_PATIENCE_MS
#define GB_CPU_PATIENCE_MS 50
#endif
#define PATIENCE_NS (GB_CPU_PATIENCE_MS * UINT64_C(1000000))
#define QUANTUM_NS UINT64_C(2000000)
/* How long a thread spins for more work before it sleeps. Launches often follow each other closely, and an idle processor
 * of a virtual machine may take longer to wake than a kernel runs. */
#define SPIN_NS UINT64_C(50000)

struct waiter {
    pthread_cond_t granted; /* signalled when the waiter has its slot */
    bool has_slot;
    struct waiter *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t finished;
    struct gb_cpu_job *jobs;
    unsigned slots;
    unsigned used;      /* more than `slots` only while a thread works beyond the limit after PATIENCE_NS */
    unsigned idle;      /* threads of the pool that sleep until there is work */
    unsigned spinning;  /* threads of the pool that spin until there is work */
    atomic_uint calls;  /* wakes those: they do not hold the lock, so they cannot wait for `work` */
    struct waiter *first;
    struct waiter **end;
    atomic_uint waiting; /* how many; read without the lock, too */
    uint64_t passed_ns;  /* when a slot was last passed on */
    bool started;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .finished = PTHREAD_COND_INITIALIZER,
          .end = &pool.first};

/* ---- thread slots; the lock is held ---- */

static void leave_line(struct waiter *waiter) {
    struct waiter **link = &pool.first;
    while (*link != waiter) {
        link = &(*link)->next;
    }
    *link = waiter->next;
    if (pool.end == &waiter->next) {
        pool.end = link;
    }
    atomic_fetch_sub(&pool.waiting, 1);
}

/* Return when the slot is free, or when none was passed on for too long. */
static void wait_for_slot(void) {
    struct waiter self = {.has_slot = false};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self.granted, &attributes);
    pthread_condattr_destroy(&attributes);
    *pool.end = &self;
    pool.end = &self.next;
    atomic_fetch_add(&pool.waiting, 1);
    for (uint64_t since = gb_now_ns(); !self.has_slot;) {
        uint64_t now = gb_now_ns();
        uint64_t until = (pool.passed_ns > since ? pool.passed_ns : since) + PATIENCE_NS;
        if (now >= until && pool.first == &self) {
            leave_line(&self);
            pool.used++;
            pool.passed_ns = now;
            break;
        }
        until = now >= until ? now + PATIENCE_NS : until;
        const struct timespec deadline = {.tv_sec = (time_t)(until / 1000000000u),
                                          .tv_nsec = (long)(until % 1000000000u)};
        pthread_cond_timedwait(&self.granted, &pool.lock, &deadline);
    }
    pthread_cond_destroy(&self.granted);
}

static void acquire_slot(void) {
    if (pool.used >= pool.slots || pool.first != NULL) {
        wait_for_slot();
    } else {
        pool.used++;
    }
}

static void release_slot(void) {
    struct waiter *next = pool.first;
    if (next == NULL) {
        pool.used--;
        return;
    }
    pool.passed_ns = gb_now_ns();
    if (pool.used > pool.slots) {
        pool.used--;
        return;
    }
    leave_line(next);
    next->has_slot = true;
    pthread_cond_signal(&next->granted);
}

/* ---- jobs ---- */

/* The tasks [first, last) for the calling thread; none when they are equal. */
static uint64_t next_chunk(struct gb_cpu_job *job, uint64_t *last) {
    uint_fast64_t first = atomic_load(&job->next);
    do {
        uint64_t left = first < job->tasks ? job->tasks - first : 0;
        uint64_t chunk = left / ((uint64_t)job->max_threads * CHUNKS_PER_THREAD);
        if (chunk > CHUNK_UNIT) {
            chunk -= chunk % CHUNK_UNIT;
        }
        chunk = chunk > job->least_chunk ? chunk : job->least_chunk;
        *last = first + (chunk < left ? chunk : left);
    } while (*last != first && !atomic_compare_exchange_weak(&job->next, &first, *last));
    return first;
}

/* Work until no tasks are left, or others wait for the slot; whether it was the latter. */
static bool take_part(struct gb_cpu_job *job) {
    uint64_t start = 0;
    for (;;) {
        uint64_t last;
        uint64_t first = next_chunk(job, &last);
        if (first == last) {
            return false;
        }
        job->run(job, first, last);
        if (atomic_load_explicit(&pool.waiting, memory_order_relaxed) > 0) {
            uint64_t now = gb_now_ns();
            start = start == 0 ? now : start;
            if (now - start >= QUANTUM_NS) {
                return true;
            }
        }
    }
}

/* A job that a thread of the pool may join now, or NULL; the lock is held. */
static struct gb_cpu_job *joinable_job(void) {
    if (pool.used >= pool.slots || pool.first != NULL) {
        return NULL;
    }
    for (struct gb_cpu_job *job = pool.jobs; job != NULL; job = job->later) {
        if (job->ever_joined + 1 < job->max_threads && atomic_load(&job->next) < job->tasks) {
            return job;
        }
    }
    return NULL;
}

/* Each woken thread wakes two more, so that a launch pays for one and a large pool is awake soon. */
static void wake(unsigned threads) {
    if (pool.spinning + pool.idle == 0 || joinable_job() == NULL) {
        return;
    }
    if (pool.spinning > 0) {
        atomic_fetch_add(&pool.calls, 1);
        threads -= pool.spinning < threads ? pool.spinning : threads;
    }
    for (unsigned asleep = pool.idle; threads > 0 && asleep > 0; threads--, asleep--) {
        pthread_cond_signal(&pool.work);
    }
}

static void spin_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin until a call, or for SPIN_NS. The lock is released meanwhile. */
static void spin(void) {
    unsigned seen = atomic_load(&pool.calls);
    pool.spinning++;
    gb_unlock(&pool.lock);
    for (uint64_t end = gb_now_ns() + SPIN_NS; atomic_load(&pool.calls) == seen && gb_now_ns() < end;) {
        for (int i = 0; i < 16; i++) {
            spin_pause();
        }
    }
    gb_lock(&pool.lock);
    pool.spinning--;
}

static void *pool_thread(void *unused) {
    (void)unused;
    gb_cpu_unbind_thread();
    gb_lock(&pool.lock);
    for (bool worked = false;;) {
        struct gb_cpu_job *job = joinable_job();
        if (job == NULL && worked && pool.used < pool.slots) {
            worked = false;
            spin();
            continue;
        }
        if (job == NULL) {
            worked = false;
            pool.idle++;
            pthread_cond_wait(&pool.work, &pool.lock);
            pool.idle--;
            continue;
        }
        worked = true;
        pool.used++;
        job->joined++;
        job->ever_joined++;
        wake(2);
        gb_unlock(&pool.lock);
        bool has_passed_on = take_part(job);
        gb_lock(&pool.lock);
        if (has_passed_on) {
            job->ever_joined--; /* tasks are left: this thread or another may join again */
        }
        release_slot();
        if (--job->joined == 0) {
            pthread_cond_broadcast(&pool.finished);
        }
    }
    return NULL;
}

/* A child of fork has none of the threads; the lock may be in any state. */
static void forget_pool(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.finished, NULL);
    pool.jobs = NULL;
    pool.first = NULL;
    pool.end = &pool.first;
    atomic_store(&pool.waiting, 0);
    pool.used = pool.idle = pool.spinning = 0;
    pool.started = false;
}

/* Before the first launch: a fork that is already in progress does not call it. */
__attribute__((constructor)) static void guard(void) {
    pthread_atfork(NULL, NULL, forget_pool);
}

static void count_slots(void) {
    pool.slots = gb_cpu_thread_count();
}

static void lock_pool(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_slots);
    gb_lock(&pool.lock);
}

/* Start the threads; the launching one is one of them. The lock is held. */
static void start_pool(void) {
    pool.started = true;
    for (unsigned i = 1; i < pool.slots && gb_cpu_start_thread(pool_thread); i++) {
        /* Fewer threads are slower, not wrong. */
    }
}

static void remove_job(struct gb_cpu_job *job) {
    struct gb_cpu_job **link = &pool.jobs;
    while (*link != job) {
        link = &(*link)->later;
    }
    *link = job->later;
}

void gb_cpu_pool_run(struct gb_cpu_job *job) {
    lock_pool();
    if (!pool.started) {
        start_pool();
    }
    if (job->max_threads > pool.slots) {
        job->max_threads = pool.slots;
    }
    job->least_chunk = job->tasks / ((uint64_t)job->max_threads * CHUNKS_AT_THE_END);
    if (job->least_chunk == 0) {
        job->least_chunk = 1;
    }
    acquire_slot();
    bool shared = job->max_threads > 1 && job->tasks > 1;
    if (shared) {
        job->later = pool.jobs;
        pool.jobs = job;
        wake(1);
    }
    gb_unlock(&pool.lock);
    while (take_part(job)) {
        gb_lock(&pool.lock);
        release_slot();
        acquire_slot();
        gb_unlock(&pool.lock);
    }
    gb_lock(&pool.lock);
    release_slot();
    if (shared) {
        remove_job(job);
        while (job->joined > 0) {
            pthread_cond_wait(&pool.finished, &pool.lock);
        }
    }
    wake(1); /* for other jobs, which had no slot */
    gb_unlock(&pool.lock);
}

void gb_cpu_slot_acquire(void) {
    lock_pool();
    acquire_slot();
    gb_unlock(&pool.lock);
}

void gb_cpu_slot_release(void) {
    gb_lock(&pool.lock);
    release_slot();
    wake(1);
    gb_unlock(&pool.lock);
}
