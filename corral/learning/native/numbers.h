/* A JSON array of numbers as float64, each the nearest there is.
 *
 * Of up to 19 digits the number is w * 10**q. For small w and q one operation on float64 is exact.
 * Otherwise w is multiplied by 128 bits of 5**q (a table that Python makes); the product is known
 * but for its last places, and unless these decide the rounding it is right. What is left, some in
 * 10**18, and what has more digits, is read by Python. Anything but a flat array of numbers is
 * refused without a reason: the caller has another decoder that gives one. */
#ifndef CORRAL_NUMBERS_H
#define CORRAL_NUMBERS_H

#include "common.h"

#define LEAST_POWER (-342)
#define MOST_POWER 308
#define POWERS (MOST_POWER - LEAST_POWER + 1)

struct power {
    uint64_t high, low; /* 128 bits of 5**q, the first of them set; the rest is cut off */
};

struct slow {
    int64_t index, start, stop; /* of a number, and of its text */
};

struct numbers {
    const char *text;
    int64_t length;
    const struct power *powers;
    wide *out;
    int64_t room, count;
    struct slow *slow;
    int64_t slow_count, slow_room;
};

static const double exact_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The float64 nearest to w * 10**q; 0 when this cannot tell. */
static inline int nearest(uint64_t w, int64_t q, const struct power *powers, double *result)
{
    const struct power *power;
    unsigned __int128 product, rest, half;
    uint64_t mantissa, bits;
    int zeros, drop;
    int64_t exponent;
    if (w <= (1ull << 53) && q >= -22 && q <= 22) {
        *result = q < 0 ? (double)w / exact_powers[-q] : (double)w * exact_powers[q];
        return 1;
    }
    if (!w) {
        *result = 0.0;
        return 1;
    }
    if (q < LEAST_POWER || q > MOST_POWER)
        return 0;
    zeros = __builtin_clzll(w);
    power = &powers[q - LEAST_POWER];
    w <<= zeros;
    product = (unsigned __int128)w * power->high;
    product += (unsigned __int128)w * power->low >> 64;
    /* 53 bits are kept; the product is short of the true one by less than 2 */
    drop = 75 - 1 + (int)(product >> 127);
    mantissa = (uint64_t)(product >> drop);
    rest = product & (((unsigned __int128)1 << drop) - 1);
    half = (unsigned __int128)1 << (drop - 1);
    if (rest + 2 >= half && rest <= half)
        return 0;
    mantissa += rest > half;
    /* 10**q = 5**q * 2**q, and 5**q has floor(q * log2(5)) + 1 bits before its point */
    exponent = ((q * 152170) >> 16) + q + 64 - 127 - zeros + drop;
    if (mantissa >> 53) {
        mantissa >>= 1;
        exponent++;
    }
    exponent += 52 + 1023;
    if (exponent < 1 || exponent > 2046)
        return 0;
    bits = (mantissa & ((1ull << 52) - 1)) | (uint64_t)exponent << 52;
    memcpy(result, &bits, 8);
    return 1;
}

static int keep_slow(struct numbers *job, int64_t start, int64_t stop)
{
    if (job->slow_count == job->slow_room) {
        int64_t room = job->slow_room ? 2 * job->slow_room : 64;
        struct slow *grown = realloc(job->slow, (size_t)room * sizeof *grown);
        if (!grown)
            return 0;
        job->slow = grown;
        job->slow_room = room;
    }
    job->slow[job->slow_count++] = (struct slow){job->count, start, stop};
    return 1;
}

#define IS_DIGIT(c) ((unsigned)((c) - '0') < 10u)

static inline const char *skip(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

/* Eight characters as a number when all are digits; the text has at least eight more. */
static inline int eight_digits(const char *at, uint64_t *value)
{
    uint64_t chunk, digits;
    memcpy(&chunk, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    chunk = __builtin_bswap64(chunk);
#endif
    if ((chunk & 0xf0f0f0f0f0f0f0f0ull) != 0x3030303030303030ull
        || ((chunk + 0x0606060606060606ull) & 0xf0f0f0f0f0f0f0f0ull) != 0x3030303030303030ull)
        return 0;
    digits = chunk - 0x3030303030303030ull;
    digits = digits * 10 + (digits >> 8); /* pairs, in every other byte */
    digits = ((digits & 0x000000ff000000ffull) * (100 + (1000000ull << 32))
              + ((digits >> 16) & 0x000000ff000000ffull) * (1 + (10000ull << 32))) >> 32;
    *value = (uint32_t)digits;
    return 1;
}

static inline const char *digits(const char *at, const char *end, uint64_t *w)
{
    uint64_t eight;
    while (end - at >= 8 && eight_digits(at, &eight)) {
        *w = *w * 100000000 + eight;
        at += 8;
    }
    while (at < end && IS_DIGIT(*at))
        *w = *w * 10 + (uint64_t)(*at++ - '0');
    return at;
}

/* One number from *at on; 0 when there is none, or no memory. */
static inline int number(struct numbers *job, const char **at, const char *end)
{
    const char *text = *at, *start = *at, *whole, *point;
    int negative = text < end && *text == '-';
    uint64_t w = 0;
    int64_t q = 0, significant;
    double value;
    text += negative;
    whole = text;
    text = digits(text, end, &w);
    if (text == whole || (*whole == '0' && text - whole > 1))
        return 0;
    significant = text - whole;
    if (!w) /* the integer -0 is 0, as for Python; below, -0.0 is not */
        negative = negative && text < end && (*text == '.' || *text == 'e' || *text == 'E');
    if (text < end && *text == '.') {
        point = ++text;
        text = digits(text, end, &w);
        if (text == point)
            return 0;
        q = point - text;
        significant += text - point;
        if (*whole == '0') { /* zeros after the point are no digits either */
            const char *zero = point;
            significant--;
            while (zero < text && *zero == '0')
                zero++;
            significant -= zero - point;
        }
    }
    if (text < end && (*text == 'e' || *text == 'E')) {
        int64_t exponent = 0;
        int down;
        const char *first;
        text++;
        down = text < end && *text == '-';
        text += text < end && (*text == '-' || *text == '+');
        first = text;
        for (; text < end && IS_DIGIT(*text); text++)
            if (exponent < 100000)
                exponent = exponent * 10 + (*text - '0');
        if (text == first)
            return 0;
        q += down ? -exponent : exponent;
    }
    if (significant <= 19 && nearest(w, q, job->powers, &value))
        job->out[job->count] = negative ? -value : value;
    else if (!keep_slow(job, start - job->text, text - job->text))
        return 0;
    job->count++;
    *at = text;
    return 1;
}

/* 1 when the whole text is an array of numbers. */
static int read_numbers(struct numbers *job)
{
    const char *end = job->text + job->length;
    const char *at = skip(job->text, end);
    if (at == end || *at++ != '[')
        return 0;
    for (;;) {
        at = skip(at, end);
        if (job->count == job->room || !number(job, &at, end))
            return 0;
        at = skip(at, end);
        if (at == end)
            return 0;
        if (*at == ']')
            return skip(at + 1, end) == end;
        if (*at++ != ',')
            return 0;
    }
}

#endif
