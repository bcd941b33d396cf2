/* Opens, calls and closes unloaded_library.c, in the ways that programs do: WHAT LIBRARY OTHER_LIBRARY.
 * Exit code 0, or 1 when a call did not do what it should; 2 when a library cannot be opened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 20, THREADS = 4, A_WHILE_US = 20000 }; /* for threads of the library that are still awake */

static const char *path, *other;

static void *opened(const char *library) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return handle;
}

static void call(void *library, const char *name) {
    int (*function)(void);
    *(void **)&function = dlsym(library, name);
    if (!function()) {
        exit(1);
    }
}

static void once(const char *library, const char *name) {
    void *handle = opened(library);
    call(handle, name);
    dlclose(handle);
}

static void *again(void *unused) {
    for (int i = 0; i < TIMES; i++) {
        once(path, "call");
    }
    return unused;
}

static pthread_barrier_t called, closed;

static void *outlive(void *library) {
    call(library, "call");
    pthread_barrier_wait(&called);
    pthread_barrier_wait(&closed);
    return NULL;
}

static void a_thread_ends_later(void) {
    void *library = opened(path);
    pthread_t thread;
    pthread_barrier_init(&called, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    pthread_create(&thread, NULL, outlive, library);
    pthread_barrier_wait(&called);
    dlclose(library);
    pthread_barrier_wait(&closed);
    pthread_join(thread, NULL);
}

static void from_threads(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, again, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static int in_child(void) {
    once(path, "call");
    pid_t child = fork();
    if (child == 0) {
        again(NULL);
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int count, char **arguments) {
    const char *what = arguments[1];
    path = arguments[2];
    other = arguments[3];
    int code = 0;
    if (count != 4) {
        return 2;
    } else if (strcmp(what, "again") == 0) {
        again(NULL);
    } else if (strcmp(what, "two") == 0) {
        void *first = opened(path);
        call(first, "call");
        once(other, "call");
        call(first, "call");
        dlclose(first);
        once(other, "call");
    } else if (strcmp(what, "threads") == 0) {
        from_threads();
    } else if (strcmp(what, "later") == 0) {
        a_thread_ends_later();
    } else if (strcmp(what, "fork") == 0) {
        code = in_child();
    } else {
        once(path, what);
    }
    usleep(A_WHILE_US);
    return code;
}
