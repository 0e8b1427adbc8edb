/* A federated client: trains the global model on its own data, and gives the result.
 *
 * It reads $FL_DIR/model, else FL_GLOBAL_UPDATE_B64; without either it starts from what `seed`
 * gives. It writes $FL_DIR/update and $FL_DIR/result.json; without FL_DIR it prints the envelope. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static const char *variable(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

/* The number in "3" or "round-3"; 1 without one. */
static unsigned long round_number(void) {
    const char *text = variable("ROUND_ID", "");
    text += strcspn(text, "0123456789");
    return *text ? strtoul(text, NULL, 10) : 1;
}

static void start_from(const Layout *layout, const Settings *settings, const char *folder,
                       double *model) {
    const char *format = variable("FL_GLOBAL_UPDATE_FORMAT", settings->format);
    const char *encoded = variable("FL_GLOBAL_UPDATE_B64", "");
    char *path = *folder ? path_of(folder, "model") : NULL;
    if (path && exists(path)) decode(read_file(path), format, model, layout_size(layout));
    else if (*encoded) decode(from_base64(encoded), format, model, layout_size(layout));
    else layout_initial(layout, settings->seed, model);
}

static void tell(void *folder, uint32_t done, uint32_t of) {
    char text[64];
    if (!*(char *)folder) return;
    sprintf(text, "{\"epoch\": %u, \"of\": %u}", done, of);
    replace_file(path_of(folder, "progress.json"), text);
}

static char *envelope(const Settings *settings, uint32_t samples, double loss, double accuracy) {
    const char *names[] = {"TASK_ID", "FL_JOB_ID", "FL_GLOBAL_VERSION", "PROPLET_ID"};
    char *quoted[4];
    size_t room = 512;
    for (int at = 0; at < 4; at++) {
        quoted[at] = json_quoted(variable(names[at], ""));
        room += strlen(quoted[at]);
    }
    char *text = need(room);
    snprintf(text, room,
             "{\"task_id\": %s, \"job_id\": %s, \"round_id\": %lu, \"global_version\": %s, "
             "\"proplet_id\": %s, \"num_samples\": %u, \"format\": \"%s\", "
             "\"metrics\": {\"loss\": %.6f, \"accuracy\": %.6f}}",
             quoted[0], quoted[1], round_number(), quoted[2], quoted[3], samples, settings->format,
             loss, accuracy);
    return text;
}

int main(void) {
    char *folder = (char *)variable("FL_DIR", "");
    const char *data = variable("DATA_DIR", "/data");
    char *local = path_of(data, "local.json");
    Settings settings = read_settings(variable("HYPERPARAMS", "{}"),
                                      exists(local) ? read_file(local).bytes : "{}");
    Shard shard = read_shard(path_of(data, "train.bin"));
    Layout layout = {shard.inputs, settings.hidden, shard.classes};
    size_t size = layout_size(&layout);
    double *model = need(size * sizeof *model), loss, accuracy;
    start_from(&layout, &settings, folder, model);
    Chance chance = {settings.seed ^ fingerprint(variable("PROPLET_ID", "")) ^ round_number()};
    train(&shard, &layout, &settings, model, &chance, tell, folder);
    score(&shard, &layout, model, &loss, &accuracy);
    char *result = envelope(&settings, shard.samples, loss, accuracy);
    Content payload = encode(model, size, settings.format);
    if (*folder) {
        write_file(path_of(folder, "update"), payload.bytes, payload.size);
        replace_file(path_of(folder, "result.json"), result);
        return 0;
    }
    result[strlen(result) - 1] = 0;
    printf("%s, \"update_b64\": \"%s\"}\n", result, to_base64(payload.bytes, payload.size));
    return 0;
}
