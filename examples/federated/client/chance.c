/* Random numbers that are the same everywhere: splitmix64. */
#include "client.h"

uint64_t chance_next(Chance *chance) {
    uint64_t mixed = chance->state += 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

/* From [-bound, bound). */
double chance_between(Chance *chance, double bound) {
    return ((double)(chance_next(chance) >> 11) * 0x1p-52 - 1.0) * bound;
}

void chance_shuffle(Chance *chance, uint32_t *order, uint32_t count) {
    for (uint32_t at = 0; at < count; at++) order[at] = at;
    for (uint32_t last = count - 1; last > 0; last--) {
        uint32_t other = (uint32_t)(chance_next(chance) % (last + 1)), kept = order[last];
        order[last] = order[other];
        order[other] = kept;
    }
}

/* FNV-1a. */
uint64_t fingerprint(const char *text) {
    uint64_t found = 0xCBF29CE484222325u;
    for (; *text; text++) found = (found ^ (unsigned char)*text) * 0x100000001B3u;
    return found;
}
