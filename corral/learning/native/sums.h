/* One block of an exact float32 sum: int64 that count grains (see exact/blocks.py). */
#ifndef CORRAL_SUMS_H
#define CORRAL_SUMS_H

#include "common.h"

struct grains {
    int64_t *sums;
    const single *values;
    int64_t count, weight;
    double constant;
    uint32_t small, large; /* magnitudes outside of these are set aside, but for zero */
};

INLINE void survey_body(const struct grains *job, uint32_t *most, int64_t *odd)
{
    const bits32 *values = (const bits32 *)job->values;
    const uint32_t small = job->small, large = job->large;
    uint32_t largest = 0, strange = 0;
    for (int64_t i = 0; i < job->count; i++) {
        uint32_t magnitude = values[i] & SIGNLESS32;
        largest = largest > magnitude ? largest : magnitude;
        strange += (magnitude != 0) & ((magnitude < small) | (magnitude > large));
    }
    *most = largest;
    *odd = strange;
}

INLINE void gather_body(const struct grains *job)
{
    int64_t *restrict sums = job->sums;
    const single *restrict values = job->values;
    const int64_t weight = job->weight;
    const double constant = job->constant;
    for (int64_t i = 0; i < job->count; i++) {
        /* adding the constant leaves the number of grains in the low bits */
        double shifted = (double)values[i] + constant;
        int64_t grains;
        memcpy(&grains, &shifted, 8);
        /* wraps as NumPy's does; unsigned because C says nothing of signed overflow */
        sums[i] = (int64_t)((uint64_t)sums[i] + (uint64_t)grains * (uint64_t)weight);
    }
}

VARIANTS(survey, (const struct grains *job, uint32_t *most, int64_t *odd), (job, most, odd))
VARIANTS(gather, (const struct grains *job), (job))

/* As gather, and writes the places of what it takes for zero because it does not fit the grain. */
static int64_t gather_some(const struct grains *job, int64_t *places)
{
    int64_t aside = 0;
    for (int64_t i = 0; i < job->count; i++) {
        uint32_t magnitude = ((const bits32 *)job->values)[i] & SIGNLESS32;
        int odd = magnitude && (magnitude < job->small || magnitude > job->large);
        double shifted = (odd ? 0.0 : (double)job->values[i]) + job->constant;
        int64_t grains;
        memcpy(&grains, &shifted, 8);
        job->sums[i] = (int64_t)((uint64_t)job->sums[i] + (uint64_t)grains * (uint64_t)job->weight);
        if (odd)
            places[aside++] = i;
    }
    return aside;
}

INLINE void divide_body(const int64_t *restrict sums, single *restrict out, int64_t count,
                        int64_t shift, double grain, double divisor)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t grains = (int64_t)((uint64_t)sums[i] - (uint64_t)shift);
        out[i] = (float)((double)grains * grain / divisor);
    }
}

VARIANTS(divide,
         (const int64_t *sums, single *out, int64_t count, int64_t shift, double grain,
          double divisor),
         (sums, out, count, shift, grain, divisor))

/* The largest magnitude, as bits. */
INLINE void largest32_body(const single *values, int64_t count, uint32_t *most)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t magnitude = ((const bits32 *)values)[i] & SIGNLESS32;
        largest = largest > magnitude ? largest : magnitude;
    }
    *most = largest;
}

INLINE void largest64_body(const wide *values, int64_t count, uint64_t *most)
{
    uint64_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t magnitude = ((const bits64 *)values)[i] & SIGNLESS64;
        largest = largest > magnitude ? largest : magnitude;
    }
    *most = largest;
}

VARIANTS(largest32, (const single *values, int64_t count, uint32_t *most), (values, count, most))
VARIANTS(largest64, (const wide *values, int64_t count, uint64_t *most), (values, count, most))

#endif
