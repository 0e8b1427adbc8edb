/* What HYPERPARAMS may say; FL_CLIENT_CONFIG, and local.json of the data, come before. */
#include <stdlib.h>
#include <string.h>

#include "client.h"

static const char *const *sources;

static const char *value_of(const char *name) {
    for (int at = 0; at < 3; at++) {
        const char *found = json_member(sources[at], name);
        if (found) return found;
    }
    return NULL;
}

static double number(double fallback, const char *const names[]) {
    for (; *names; names++) {
        const char *value = value_of(*names);
        double found;
        if (!value) continue;
        if (!json_number(value, &found)) give_up("%s is no number", *names);
        return found;
    }
    return fallback;
}

static uint32_t whole(double fallback, const char *const names[]) {
    double found = number(fallback, names);
    return found < 0 ? 0 : found > 4e9 ? 4000000000u : (uint32_t)found;
}

static char *word(const char *fallback, const char *name) {
    const char *value = value_of(name);
    char *found = value ? json_string(value) : strdup(fallback);
    if (!found) give_up("%s is no string", name);
    return found;
}

#define NAMES(...) (const char *const[]){__VA_ARGS__, NULL}

Settings read_settings(const char *hyperparams, const char *local) {
    const char *told = getenv("FL_CLIENT_CONFIG");
    const char *const all[] = {local, told ? told : "", hyperparams};
    sources = all;
    char *model = word("logistic", "model");
    const char *given = getenv("FL_GLOBAL_UPDATE_FORMAT");
    int is_mlp = strcmp(model, "mlp") == 0;
    if (!is_mlp && strcmp(model, "logistic") != 0)
        give_up("model is '%s', and must be logistic or mlp", model);
    Settings found = {
        .hidden = is_mlp ? whole(32, NAMES("hidden")) : 0,
        .epochs = whole(10, NAMES("epochs", "local_epochs", "localEpochs")),
        .batch = whole(16, NAMES("batch_size", "batchSize")),
        .rate = number(0.5, NAMES("lr", "learning_rate", "learningRate")),
        .mu = number(0.0, NAMES("mu")),
        .seed = (uint64_t)(int64_t)number(1, NAMES("seed")),
        .format = word(given && *given ? given : "f32-le", "format"),
    };
    if (found.epochs < 1 || found.batch < 1 || (is_mlp && found.hidden < 1))
        give_up("epochs, batch_size and hidden must be at least 1");
    if (strcmp(found.format, "f32-le") != 0 && strcmp(found.format, "json-f64") != 0)
        give_up("format is '%s', and must be f32-le or json-f64", found.format);
    free(model);
    return found;
}
