/* As much of JSON as hyperparameters and payloads need. Values are pointers into the text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static const char *blank(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
    return at;
}

/* The end of the string that begins here, or NULL. */
static const char *skip_string(const char *at) {
    if (*at != '"') return NULL;
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : NULL;
}

/* The end of the value that begins here, or NULL. */
static const char *skip_value(const char *at) {
    at = blank(at);
    if (*at == '"') return skip_string(at);
    if (*at != '{' && *at != '[') {
        size_t length = strcspn(at, ",]} \t\r\n");
        return length ? at + length : NULL;
    }
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            if (!at) return NULL;
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    } while (depth && *at);
    return depth ? NULL : at;
}

/* The value of that name in an object, or NULL; the last one, where there are several. */
const char *json_member(const char *object, const char *name) {
    const char *at = blank(object), *found = NULL;
    size_t length = strlen(name);
    if (*at == 0 || strncmp(at, "null", 4) == 0) return NULL;
    if (*at != '{') give_up("the settings are no JSON object: %.40s", object);
    at = blank(at + 1);
    while (*at != '}') {
        const char *end = skip_string(at), *value;
        if (!end) give_up("the settings are no JSON: %.40s", at);
        int same = (size_t)(end - at) == length + 2 && strncmp(at + 1, name, length) == 0;
        at = blank(end);
        if (*at != ':') give_up("the settings are no JSON: %.40s", at);
        value = blank(at + 1);
        if (same) found = value;
        at = skip_value(value);
        if (!at) give_up("the settings are no JSON: %.40s", value);
        at = blank(at);
        if (*at == ',') at = blank(at + 1);
        else if (*at != '}') give_up("the settings are no JSON: %.40s", at);
    }
    return found;
}

int json_number(const char *value, double *found) {
    char *end;
    if (!strchr("-0123456789", *value)) return 0;
    *found = strtod(value, &end);
    return end != value;
}

/* A copy without its quotes, or NULL where it is no plain string. */
char *json_string(const char *value) {
    const char *end = skip_string(value);
    if (!end) return NULL;
    size_t length = (size_t)(end - value) - 2;
    char *text = need(length + 1);
    memcpy(text, value + 1, length);
    return text;
}

double *json_numbers(const char *array, size_t *count) {
    size_t room = 1;
    for (const char *at = array; *at; at++) room += *at == ',';
    double *found = need(room * sizeof *found);
    const char *at = blank(array);
    *count = 0;
    if (*at != '[') give_up("the global model is not json-f64: it is no array");
    at = blank(at + 1);
    while (*at != ']') {
        char *end;
        found[(*count)++] = strtod(at, &end);
        if (end == at) give_up("the global model is not json-f64: %.20s is no number", at);
        at = blank(end);
        if (*at == ',') at = blank(at + 1);
        else if (*at != ']') give_up("the global model is not json-f64: it is cut off");
    }
    return found;
}

char *json_quoted(const char *text) {
    char *quoted = need(6 * strlen(text) + 3), *at = quoted;
    *at++ = '"';
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') at += sprintf(at, "\\%c", c);
        else if (c < 0x20) at += sprintf(at, "\\u%04x", c);
        else *at++ = (char)c;
    }
    *at = '"';
    return quoted;
}
