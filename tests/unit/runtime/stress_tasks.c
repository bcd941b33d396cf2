/* The async runtime used as lowered code does, for test_streams.py: tasks that set tokens, values and groups which
 * other tasks and threads wait for. Prints "ok". */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void resume_function(void *handle);
void mlirAsyncRuntimeAddRef(void *, int64_t), mlirAsyncRuntimeDropRef(void *, int64_t);
void *mlirAsyncRuntimeCreateToken(void), *mlirAsyncRuntimeCreateValue(int64_t), *mlirAsyncRuntimeCreateGroup(int64_t);
int64_t mlirAsyncRuntimeAddTokenToGroup(void *, void *);
void mlirAsyncRuntimeEmplaceToken(void *), mlirAsyncRuntimeEmplaceValue(void *), mlirAsyncRuntimeSetTokenError(void *);
bool mlirAsyncRuntimeIsTokenError(void *), mlirAsyncRuntimeIsGroupError(void *);
void mlirAsyncRuntimeAwaitToken(void *), mlirAsyncRuntimeAwaitValue(void *), mlirAsyncRuntimeAwaitAllInGroup(void *);
void *mlirAsyncRuntimeGetValueStorage(void *);
void mlirAsyncRuntimeExecute(void *, resume_function *);
void mlirAsyncRuntimeAwaitTokenAndExecute(void *, void *, resume_function *);
void mlirAsyncRuntimeAwaitAllInGroupAndExecute(void *, void *, resume_function *);

enum { TASKS = 500 };
static long plain[TASKS]; /* written by a task, read by who waits: a race shows in a sanitizer */

struct task {
    void *token;
    void *value;
    long number;
};

static void finish(void *handle) {
    struct task *task = handle;
    plain[task->number] += task->number;
    *(long *)mlirAsyncRuntimeGetValueStorage(task->value) = 3 * task->number;
    mlirAsyncRuntimeEmplaceValue(task->value);
    if (task->number == 77) {
        mlirAsyncRuntimeSetTokenError(task->token);
    } else {
        mlirAsyncRuntimeEmplaceToken(task->token);
    }
    free(task);
}

static void set_token(void *token) {
    mlirAsyncRuntimeEmplaceToken(token);
}

int main(void) {
    void *group = mlirAsyncRuntimeCreateGroup(TASKS);
    void *values[TASKS], *gate = mlirAsyncRuntimeCreateToken();
    for (long i = 0; i < TASKS; i++) {
        struct task *task = malloc(sizeof *task);
        *task = (struct task){mlirAsyncRuntimeCreateToken(), mlirAsyncRuntimeCreateValue(sizeof(long)), i};
        values[i] = task->value;
        void *token = task->token;
        plain[i] = 1;
        if (i % 2 == 0) {
            mlirAsyncRuntimeExecute(task, finish);
        } else {
            mlirAsyncRuntimeAwaitTokenAndExecute(gate, task, finish);
        }
        if (mlirAsyncRuntimeAddTokenToGroup(token, group) != i) {
            return 2;
        }
        mlirAsyncRuntimeDropRef(token, 1);
    }
    void *last = mlirAsyncRuntimeCreateToken();
    mlirAsyncRuntimeAwaitAllInGroupAndExecute(group, last, set_token);
    mlirAsyncRuntimeExecute(gate, set_token);
    mlirAsyncRuntimeAwaitAllInGroup(group);
    mlirAsyncRuntimeAwaitToken(last);
    long wrong = !mlirAsyncRuntimeIsGroupError(group) + mlirAsyncRuntimeIsTokenError(last);
    for (long i = 0; i < TASKS; i++) {
        mlirAsyncRuntimeAwaitValue(values[i]);
        wrong += plain[i] != i + 1 || *(long *)mlirAsyncRuntimeGetValueStorage(values[i]) != 3 * i;
        mlirAsyncRuntimeDropRef(values[i], 1);
    }
    mlirAsyncRuntimeDropRef(last, 1);
    mlirAsyncRuntimeDropRef(gate, 1);
    mlirAsyncRuntimeDropRef(group, 1);
    printf(wrong == 0 ? "ok\n" : "%ld wrong\n", wrong);
    return wrong != 0;
}
