/* Products of all pairs of rows, in float64: what squared distances are made of. */
#ifndef CORRAL_DISTANCES_H
#define CORRAL_DISTANCES_H

#include "common.h"

#define GRAM_LANES 8
#define GRAM_CHUNK 256
#define GRAM_TILE 4

struct gram {
    const void *rows; /* count rows of `columns` floats */
    int64_t count, columns;
    int double_rows;
    double *scratch;  /* rounded_up(count) rows of GRAM_CHUNK */
    double *product;  /* count * count; the products are added to it */
};

/* One chunk of all rows relative to the first row, as float64; what is missing is zero. */
INLINE void relative(const struct gram *job, int64_t start, int64_t padded)
{
    int64_t length = job->columns - start < GRAM_CHUNK ? job->columns - start : GRAM_CHUNK;
    for (int64_t row = 0; row < padded; row++) {
        double *to = job->scratch + row * GRAM_CHUNK;
        if (row >= job->count || length < GRAM_CHUNK)
            memset(to, 0, GRAM_CHUNK * sizeof *to);
        if (row >= job->count)
            continue;
        if (job->double_rows) {
            const double *first = (const double *)job->rows + start;
            const double *from = first + row * job->columns;
            for (int64_t i = 0; i < length; i++)
                to[i] = from[i] - first[i];
        } else {
            const float *first = (const float *)job->rows + start;
            const float *from = first + row * job->columns;
            for (int64_t i = 0; i < length; i++)
                to[i] = (double)from[i] - (double)first[i];
        }
    }
}

typedef double lanes __attribute__((vector_size(GRAM_LANES * sizeof(double))));

/* The products of GRAM_TILE rows with GRAM_TILE rows, over one chunk. */
INLINE void tile(const struct gram *job, int64_t top, int64_t left)
{
    const lanes *a = (const lanes *)(job->scratch + top * GRAM_CHUNK);
    const lanes *b = (const lanes *)(job->scratch + left * GRAM_CHUNK);
    const int64_t step = GRAM_CHUNK / GRAM_LANES;
    lanes sums[GRAM_TILE][GRAM_TILE] = {{{0}}};
    for (int64_t i = 0; i < step; i++) {
        lanes p = a[i], q = a[i + step], r = a[i + 2 * step], s = a[i + 3 * step];
#pragma GCC unroll 4
        for (int64_t column = 0; column < GRAM_TILE; column++) {
            lanes other = b[i + column * step];
            sums[0][column] += p * other;
            sums[1][column] += q * other;
            sums[2][column] += r * other;
            sums[3][column] += s * other;
        }
    }
    for (int64_t row = 0; row < GRAM_TILE; row++)
        for (int64_t column = 0; column < GRAM_TILE; column++) {
            int64_t y = top + row, x = left + column;
            lanes sum = sums[row][column];
            if (y < job->count && x <= y)
                job->product[y * job->count + x] +=
                    ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
        }
}

INLINE void gram_body(const struct gram *job)
{
    int64_t padded = (job->count + GRAM_TILE - 1) / GRAM_TILE * GRAM_TILE;
    for (int64_t start = 0; start < job->columns; start += GRAM_CHUNK) {
        relative(job, start, padded);
        for (int64_t top = 0; top < padded; top += GRAM_TILE)
            for (int64_t left = 0; left <= top; left += GRAM_TILE)
                tile(job, top, left);
    }
    for (int64_t y = 0; y < job->count; y++)
        for (int64_t x = 0; x < y; x++)
            job->product[x * job->count + y] = job->product[y * job->count + x];
}

VARIANTS(gram, (const struct gram *job), (job))

#endif
