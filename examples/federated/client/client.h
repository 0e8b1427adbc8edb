/* The parts of the federated client; what each is for stands in the file of its name. */
#ifndef CLIENT_H
#define CLIENT_H

#include <stddef.h>
#include <stdint.h>

/* Ends the program: the client cannot take part. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *need(size_t bytes);

/* files.c */
typedef struct {
    char *bytes; /* a 0 follows them */
    size_t size;
} Content;
int exists(const char *path);
Content read_file(const char *path);
void write_file(const char *path, const void *bytes, size_t size);
void replace_file(const char *path, const char *text);
char *path_of(const char *folder, const char *name);

/* json.c */
const char *json_member(const char *object, const char *name);
int json_number(const char *value, double *found);
char *json_string(const char *value);
double *json_numbers(const char *array, size_t *count);
char *json_quoted(const char *text);

/* shard.c */
typedef struct {
    uint32_t samples, inputs, classes;
    double *features; /* row by row */
    uint8_t *labels;
} Shard;
Shard read_shard(const char *path);

/* chance.c */
typedef struct {
    uint64_t state;
} Chance;
uint64_t chance_next(Chance *chance);
double chance_between(Chance *chance, double bound);
void chance_shuffle(Chance *chance, uint32_t *order, uint32_t count);
uint64_t fingerprint(const char *text);

/* settings.c */
typedef struct {
    uint32_t hidden, epochs, batch;
    double rate, mu;
    uint64_t seed;
    char *format;
} Settings;
Settings read_settings(const char *hyperparams, const char *local);

/* model.c */
typedef struct {
    uint32_t inputs, hidden, classes; /* hidden 0: logistic regression */
} Layout;
size_t layout_size(const Layout *layout);
void layout_initial(const Layout *layout, uint64_t seed, double *model);
typedef void (*AfterEpoch)(void *context, uint32_t done, uint32_t of);
void train(const Shard *shard, const Layout *layout, const Settings *settings, double *model,
           Chance *chance, AfterEpoch after, void *context);
void score(const Shard *shard, const Layout *layout, const double *model, double *loss,
           double *accuracy);

/* payload.c */
Content encode(const double *model, size_t size, const char *format);
void decode(Content payload, const char *format, double *model, size_t size);
Content from_base64(const char *text);
char *to_base64(const void *bytes, size_t size);

#endif
