/* Order statistics of many columns at once: a sorting network over the rows.
 *
 * Floats are compared as integers of the same order, so a comparison is a minimum and a maximum of
 * whole registers. The network is Batcher's merge exchange for any number of rows, without the
 * comparisons on which none of the wanted rows depends. */
#ifndef CORRAL_ORDER_H
#define CORRAL_ORDER_H

#include "common.h"

struct exchange {
    int32_t low, high;
};

struct network {
    struct exchange *steps;
    int64_t count;
};

static int64_t merge_exchange(struct exchange *steps, int64_t rows)
{
    int64_t count = 0, top = 1;
    while (top < rows)
        top *= 2;
    for (int64_t p = top / 2; p > 0; p /= 2) {
        int64_t q = top / 2, r = 0, d = p;
        for (;;) {
            for (int64_t i = 0; i < rows - d; i++)
                if ((i & p) == r) {
                    if (steps)
                        steps[count] = (struct exchange){(int32_t)i, (int32_t)(i + d)};
                    count++;
                }
            if (q == p)
                break;
            d = q - p;
            q /= 2;
            r = p;
        }
    }
    return count;
}

/* A network after which rows first..last-1 are in their places; 0 when there is no memory. */
static int make_network(struct network *network, int64_t rows, int64_t first, int64_t last)
{
    int64_t count = merge_exchange(NULL, rows), kept;
    struct exchange *steps = malloc((size_t)(count + 1) * sizeof *steps);
    uint8_t *wanted = calloc((size_t)rows, 1);
    if (!steps || !wanted) {
        free(steps);
        free(wanted);
        return 0;
    }
    merge_exchange(steps, rows);
    memset(wanted + first, 1, (size_t)(last - first));
    kept = count;
    for (int64_t i = count - 1; i >= 0; i--)
        if (wanted[steps[i].low] | wanted[steps[i].high]) {
            wanted[steps[i].low] = wanted[steps[i].high] = 1;
            steps[--kept] = steps[i];
        }
    memmove(steps, steps + kept, (size_t)(count - kept) * sizeof *steps);
    free(wanted);
    network->steps = steps;
    network->count = count - kept;
    return 1;
}

struct order {
    const void *rows;  /* count rows of `columns` floats */
    void *out;         /* of each column, what is asked for */
    void *scratch;     /* count * ORDER_LANES integers */
    const struct network *network;
    int64_t count, columns, first, last;
    int halves; /* the median of an even number: the two in the middle, halved and added */
};

#define ORDER_LANES 32

#define ORDER(name, real, key, unsigned_key, sign)                                              \
    INLINE void name##_lanes(const struct order *job, int64_t start, int64_t lanes)             \
    {                                                                                           \
        key (*keys)[ORDER_LANES] = job->scratch;                                                \
        const double size = (double)(job->last - job->first);                                   \
        for (int64_t row = 0; row < job->count; row++) {                                        \
            const key *from = (const key *)job->rows + row * job->columns + start;              \
            for (int64_t i = 0; i < lanes; i++) {                                               \
                key bits = from[i];                                                             \
                keys[row][i] = bits ^ (key)((unsigned_key)(bits >> (sign)) >> 1);               \
            }                                                                                   \
        }                                                                                       \
        for (int64_t step = 0; step < job->network->count; step++) {                            \
            key *restrict low = keys[job->network->steps[step].low];                            \
            key *restrict high = keys[job->network->steps[step].high];                          \
            for (int64_t i = 0; i < ORDER_LANES; i++) {                                         \
                key a = low[i], b = high[i];                                                    \
                low[i] = a < b ? a : b;                                                         \
                high[i] = a < b ? b : a;                                                        \
            }                                                                                   \
        }                                                                                       \
        double sums[ORDER_LANES] = {0};                                                         \
        const double part = job->halves ? 2.0 : 1.0;                                            \
        for (int64_t row = job->first; row < job->last; row++)                                  \
            for (int64_t i = 0; i < ORDER_LANES; i++) {                                         \
                key bits = keys[row][i] ^ (key)((unsigned_key)(keys[row][i] >> (sign)) >> 1);   \
                real value;                                                                     \
                memcpy(&value, &bits, sizeof value);                                            \
                sums[i] += (double)value / part;                                                \
            }                                                                                   \
        for (int64_t i = 0; i < lanes; i++)                                                     \
            ((real *)job->out)[start + i] = (real)(job->halves ? sums[i] : sums[i] / size);     \
    }                                                                                           \
    INLINE void name##_body(const struct order *job)                                            \
    {                                                                                           \
        int64_t start = 0;                                                                      \
        for (; start + ORDER_LANES <= job->columns; start += ORDER_LANES)                       \
            name##_lanes(job, start, ORDER_LANES);                                              \
        if (start < job->columns)                                                               \
            name##_lanes(job, start, job->columns - start);                                     \
    }                                                                                           \
    VARIANTS(name, (const struct order *job), (job))

ORDER(order32, float, int32_t, uint32_t, 31)
ORDER(order64, double, int64_t, uint64_t, 63)

#endif
