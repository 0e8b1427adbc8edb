/* Reading and writing whole files. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

void give_up(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("the client cannot take part: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

void *need(size_t bytes) {
    void *found = calloc(bytes ? bytes : 1, 1);
    if (!found) give_up("there are no %zu bytes of memory left", bytes);
    return found;
}

int exists(const char *path) { return access(path, F_OK) == 0; }

Content read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) give_up("cannot read %s: %s", path, strerror(errno));
    Content found = {need(1), 0};
    char piece[1 << 16];
    size_t count;
    while ((count = fread(piece, 1, sizeof piece, file)) > 0) {
        found.bytes = realloc(found.bytes, found.size + count + 1);
        if (!found.bytes) give_up("%s does not fit into memory", path);
        memcpy(found.bytes + found.size, piece, count);
        found.size += count;
        found.bytes[found.size] = 0;
    }
    if (ferror(file)) give_up("cannot read %s: %s", path, strerror(errno));
    fclose(file);
    return found;
}

void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file) give_up("cannot write %s: %s", path, strerror(errno));
    if (fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        give_up("cannot write %s: %s", path, strerror(errno));
}

/* All of it or nothing: others read it at any moment. */
void replace_file(const char *path, const char *text) {
    char *new = need(strlen(path) + 5);
    sprintf(new, "%s.new", path);
    write_file(new, text, strlen(text));
    if (rename(new, path) != 0) give_up("cannot write %s: %s", path, strerror(errno));
    free(new);
}

char *path_of(const char *folder, const char *name) {
    char *path = need(strlen(folder) + strlen(name) + 2);
    sprintf(path, "%s/%s", folder, name);
    return path;
}
