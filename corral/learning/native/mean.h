/* The weighted mean of float32 vectors that are all there, in one pass over them.
 *
 * Sums are made in float64 with a strict bound of their error. Where both ends of the interval give
 * the same float32 it is the one that the exact sum gives; the others are added exactly, in 128
 * bits. Values too far apart for these are left to the caller. */
#ifndef CORRAL_MEAN_H
#define CORRAL_MEAN_H

#include "common.h"

#define MEAN_BLOCK 4096
#define MEAN_PIECE (16 * MEAN_BLOCK)

struct mean {
    const single *const *vectors;
    const double *weights;
    const int64_t *factors;
    int64_t clients, size;
    single *out;
    double weight;
    _Atomic uint8_t *bad; /* of each client: whether it has a value that is not finite */
    pthread_mutex_t lock; /* of what follows: the elements that are left to the caller */
    int64_t *left, count, room;
    int failed; /* no memory */
};

/* How many elements ahead of the sums memory is asked for, and how many are asked for at once:
 * many streams are read side by side, more than a processor sees by itself. */
#define AHEAD 256
#define STRIP 64
#define LINE 16

#define SUM(x, j) sum += w[j] * (double)x[i];
#define MOST(x)                                            \
    magnitude = ((const bits32 *)x)[i] & SIGNLESS32;       \
    largest = largest > magnitude ? largest : magnitude;

/* total += the weighted values of eight vectors; *most: the largest magnitude, as bits */
INLINE void add_eight(double *restrict total, const single *const *v, const double *w,
                      int64_t start, int64_t count, int first, uint32_t *most)
{
    const single *restrict a = v[0] + start, *restrict b = v[1] + start;
    const single *restrict c = v[2] + start, *restrict d = v[3] + start;
    const single *restrict e = v[4] + start, *restrict f = v[5] + start;
    const single *restrict g = v[6] + start, *restrict h = v[7] + start;
    uint32_t largest = *most;
    for (int64_t from = 0; from < count; from += STRIP) {
        int64_t to = from + STRIP < count ? from + STRIP : count;
        for (int64_t line = from; line < from + STRIP; line += LINE)
#pragma GCC unroll 8
            for (int client = 0; client < 8; client++)
                __builtin_prefetch(v[client] + start + line + AHEAD);
        for (int64_t i = from; i < to; i++) {
            double sum = first ? 0.0 : total[i];
            uint32_t magnitude;
            SUM(a, 0) SUM(b, 1) SUM(c, 2) SUM(d, 3) SUM(e, 4) SUM(f, 5) SUM(g, 6) SUM(h, 7)
            total[i] = sum;
            MOST(a) MOST(b) MOST(c) MOST(d) MOST(e) MOST(f) MOST(g) MOST(h)
        }
    }
    *most = largest;
}

INLINE void add_one(double *restrict total, const single *restrict values, double weight,
                    int64_t count, int first, uint32_t *most)
{
    uint32_t largest = *most;
    for (int64_t i = 0; i < count; i++) {
        uint32_t m = ((const bits32 *)values)[i] & SIGNLESS32;
        total[i] = (first ? 0.0 : total[i]) + weight * (double)values[i];
        largest = largest > m ? largest : m;
    }
    *most = largest;
}

/* Writes the upper ends; marks the elements whose lower end is another float32. */
INLINE void decide(const double *restrict total, single *restrict out, uint8_t *restrict doubt,
                   int64_t count, double bound, double weight, uint32_t *doubts)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        float low = (float)((total[i] - bound) / weight);
        float high = (float)((total[i] + bound) / weight);
        uint32_t a, b;
        memcpy(&a, &low, 4);
        memcpy(&b, &high, 4);
        out[i] = high;
        doubt[i] = a != b;
        sum += a != b;
    }
    *doubts = sum;
}

INLINE void mean_sums_body(const struct mean *job, int64_t start, int64_t count, double *total,
                           uint32_t *most)
{
    int64_t client = 0;
    *most = 0;
    for (; client + 8 <= job->clients; client += 8)
        if (client)
            add_eight(total, job->vectors + client, job->weights + client, start, count, 0, most);
        else
            add_eight(total, job->vectors, job->weights, start, count, 1, most);
    for (; client < job->clients; client++)
        if (client)
            add_one(total, job->vectors[client] + start, job->weights[client], count, 0, most);
        else
            add_one(total, job->vectors[0] + start, job->weights[0], count, 1, most);
}

INLINE void mean_decide_body(const struct mean *job, const double *total, int64_t start,
                             int64_t count, double bound, uint8_t *doubt, uint32_t *doubts)
{
    decide(total, job->out + start, doubt, count, bound, job->weight, doubts);
}

VARIANTS(mean_sums,
         (const struct mean *job, int64_t start, int64_t count, double *total, uint32_t *most),
         (job, start, count, total, most))
VARIANTS(mean_decide,
         (const struct mean *job, const double *total, int64_t start, int64_t count, double bound,
          uint8_t *doubt, uint32_t *doubts),
         (job, total, start, count, bound, doubt, doubts))

/* A float32 is (whole number of 24 bits) * 2**(place - 149). */
static inline int place_of(uint32_t magnitude)
{
    int exponent = (int)(magnitude >> 23);
    return exponent ? exponent - 1 : 0;
}

/* The mean of one element from its exact sum; 0 when 128 bits are too few. */
static int settle(const struct mean *job, int64_t element)
{
    int low = 255, high = 0;
    __int128 sum = 0;
    double result;
    for (int64_t client = 0; client < job->clients; client++) {
        uint32_t magnitude = ((const bits32 *)job->vectors[client])[element] & SIGNLESS32;
        if (magnitude) {
            int place = place_of(magnitude);
            low = place < low ? place : low;
            high = place > high ? place : high;
        }
    }
    /* 24 bits of the value, 31 of the total weight, one for the sign */
    if (low <= high && high - low > 127 - 24 - 31 - 1)
        return 0;
    for (int64_t client = 0; client < job->clients; client++) {
        uint32_t bits = ((const bits32 *)job->vectors[client])[element];
        uint32_t magnitude = bits & SIGNLESS32;
        __int128 whole = (magnitude & 0x7fffff) | (magnitude >> 23 ? 0x800000 : 0);
        if (!magnitude)
            continue;
        whole = (whole * job->factors[client]) << (place_of(magnitude) - low);
        sum += bits >> 31 ? -whole : whole;
    }
    /* (double) rounds once; what it is multiplied by is a power of two */
    result = sum ? (double)sum * __builtin_ldexp(1.0, low - 149) : 0.0;
    job->out[element] = (float)(result / job->weight);
    return 1;
}

static void leave(struct mean *job, int64_t element)
{
    pthread_mutex_lock(&job->lock);
    if (job->count == job->room) {
        int64_t room = job->room ? 2 * job->room : 1024;
        int64_t *grown = realloc(job->left, (size_t)room * sizeof *grown);
        if (!grown) {
            job->failed = 1;
            pthread_mutex_unlock(&job->lock);
            return;
        }
        job->left = grown;
        job->room = room;
    }
    job->left[job->count++] = element;
    pthread_mutex_unlock(&job->lock);
}

/* Which clients have a value that is not finite among these elements. */
static void accuse(struct mean *job, int64_t start, int64_t count)
{
    for (int64_t client = 0; client < job->clients; client++) {
        const bits32 *values = (const bits32 *)job->vectors[client] + start;
        uint32_t most = 0;
        for (int64_t i = 0; i < count; i++) {
            uint32_t magnitude = values[i] & SIGNLESS32;
            most = most > magnitude ? most : magnitude;
        }
        if (most >= INFINITE32)
            atomic_store_explicit(&job->bad[client], 1, memory_order_relaxed);
    }
}

static void mean_block(struct mean *job, int64_t start, int64_t count)
{
    double total[MEAN_BLOCK];
    uint8_t doubt[MEAN_BLOCK];
    uint32_t most, doubts;
    float largest;
    double bound;
    mean_sums(job, start, count, total, &most);
    if (most >= INFINITE32) {
        accuse(job, start, count);
        return;
    }
    memcpy(&largest, &most, 4);
    /* twice the error that summing can have made, so it also covers its own rounding */
    bound = (double)(job->clients + 2) * 0x1p-52 * job->weight * (double)largest;
    mean_decide(job, total, start, count, bound, doubt, &doubts);
    for (int64_t i = 0; doubts && i < count; i++)
        if (doubt[i]) {
            doubts--;
            if (!settle(job, start + i))
                leave(job, start + i);
        }
}

static void mean_piece(void *context, int64_t piece)
{
    struct mean *job = context;
    int64_t stop = (piece + 1) * MEAN_PIECE;
    if (stop > job->size)
        stop = job->size;
    for (int64_t start = piece * MEAN_PIECE; start < stop; start += MEAN_BLOCK)
        mean_block(job, start, stop - start < MEAN_BLOCK ? stop - start : MEAN_BLOCK);
}

#endif
