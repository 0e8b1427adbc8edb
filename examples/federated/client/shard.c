/* The client's own data: "FLS1", three uint32 (samples, inputs, classes), float32 features row by
 * row, uint8 labels; all little-endian, as WebAssembly is. */
#include <string.h>

#include "client.h"

Shard read_shard(const char *path) {
    Content content = read_file(path);
    if (content.size < 16 || memcmp(content.bytes, "FLS1", 4) != 0) give_up("%s is no shard", path);
    uint32_t head[3];
    memcpy(head, content.bytes + 4, sizeof head);
    Shard shard = {head[0], head[1], head[2], NULL, NULL};
    uint64_t count = (uint64_t)shard.samples * shard.inputs;
    if (content.size != 16 + 4 * count + shard.samples) give_up("%s is cut off", path);
    shard.features = need((size_t)count * sizeof(double));
    for (uint64_t at = 0; at < count; at++) {
        float value;
        memcpy(&value, content.bytes + 16 + 4 * at, 4);
        shard.features[at] = value;
    }
    shard.labels = (uint8_t *)content.bytes + 16 + 4 * count;
    int good = shard.samples > 0 && shard.inputs > 0 && shard.classes >= 2;
    for (uint32_t at = 0; at < shard.samples; at++) good &= shard.labels[at] < shard.classes;
    if (!good) give_up("%s holds no samples of a problem with classes", path);
    return shard;
}
