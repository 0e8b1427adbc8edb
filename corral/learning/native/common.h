/* What all parts of the kernel share: types, variants for newer processors, threads. */
#ifndef CORRAL_COMMON_H
#define CORRAL_COMMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Payloads are read where they lie, so nothing is said about their alignment. */
typedef float single __attribute__((aligned(1), may_alias));
typedef double wide __attribute__((aligned(1), may_alias));
typedef uint32_t bits32 __attribute__((aligned(1), may_alias));
typedef uint64_t bits64 __attribute__((aligned(1), may_alias));

#define SIGNLESS32 0x7fffffffu
#define INFINITE32 0x7f800000u
#define SIGNLESS64 0x7fffffffffffffffull
#define INFINITE64 0x7ff0000000000000ull

#define INLINE static inline __attribute__((always_inline))

/* VARIANTS(name, (parameters), (arguments)) makes `name` of the inline function `name_body`:
 * compiled once for any processor and again for wider registers, chosen when it is called.
 * The operations and their order are the same in all, so the results are. */
#if defined(__x86_64__) && defined(__GNUC__)
#define VARIANTS(name, parameters, arguments)                                                  \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")))      \
    static void name##_512 parameters { name##_body arguments; }                               \
    __attribute__((target("avx2"))) static void name##_256 parameters { name##_body arguments; } \
    static void name##_any parameters { name##_body arguments; }                               \
    static void name parameters                                                                \
    {                                                                                          \
        if (level() == 2)                                                                      \
            name##_512 arguments;                                                              \
        else if (level() == 1)                                                                 \
            name##_256 arguments;                                                              \
        else                                                                                   \
            name##_any arguments;                                                              \
    }

static int level(void)
{
    static atomic_int known = -1;
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found < 0) {
        __builtin_cpu_init();
        found = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
                    && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
                ? 2
                : __builtin_cpu_supports("avx2") ? 1 : 0;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found;
}
#else
#define VARIANTS(name, parameters, arguments) \
    static void name parameters { name##_body arguments; }
#endif

/* Calls work(context, piece) for every piece on up to `threads` threads, this one among them.
 * The threads live as long as the call, so a fork finds none. */
#define MOST_THREADS 64

struct crew {
    void (*work)(void *context, int64_t piece);
    void *context;
    int64_t pieces;
    _Atomic int64_t next;
};

static void *crew_member(void *argument)
{
    struct crew *crew = argument;
    for (;;) {
        int64_t piece = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed);
        if (piece >= crew->pieces)
            return NULL;
        crew->work(crew->context, piece);
    }
}

static void spread(void (*work)(void *, int64_t), void *context, int64_t pieces, int threads)
{
    struct crew crew = {.work = work, .context = context, .pieces = pieces};
    pthread_t others[MOST_THREADS];
    int started = 0;
    atomic_init(&crew.next, 0);
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    /* with fewer threads than asked for the work is the same */
    while (started + 1 < threads && started + 1 < pieces
           && !pthread_create(&others[started], NULL, crew_member, &crew))
        started++;
    crew_member(&crew);
    while (started > 0)
        pthread_join(others[--started], NULL);
}

#endif
