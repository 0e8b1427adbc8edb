/* Models as bytes: f32-le and json-f64, and bytes as base64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The shortest decimal number that is this one. */
static int shortest(char *text, double value) {
    for (int precision = 15; precision < 17; precision++) {
        int length = sprintf(text, "%.*g", precision, value);
        if (strtod(text, NULL) == value) return length;
    }
    return sprintf(text, "%.17g", value);
}

Content encode(const double *model, size_t size, const char *format) {
    if (strcmp(format, "json-f64") == 0) {
        Content found = {need(26 * size + 3), 0};
        found.bytes[found.size++] = '[';
        for (size_t at = 0; at < size; at++) {
            if (at) found.bytes[found.size++] = ',';
            found.size += (size_t)shortest(found.bytes + found.size, model[at]);
        }
        found.bytes[found.size++] = ']';
        return found;
    }
    Content found = {need(4 * size + 1), 4 * size};
    for (size_t at = 0; at < size; at++) {
        float value = (float)model[at];
        memcpy(found.bytes + 4 * at, &value, 4);
    }
    return found;
}

void decode(Content payload, const char *format, double *model, size_t size) {
    size_t count = payload.size / 4;
    double *numbers = NULL;
    if (strcmp(format, "json-f64") == 0) numbers = json_numbers(payload.bytes, &count);
    else if (payload.size % 4) give_up("the global model is not f32-le: it is cut off");
    if (count != size)
        give_up("the global model has %zu parameters, and must have %zu", count, size);
    for (size_t at = 0; at < size; at++) {
        float value;
        if (!numbers) memcpy(&value, payload.bytes + 4 * at, 4);
        model[at] = numbers ? numbers[at] : value;
    }
    free(numbers);
}

Content from_base64(const char *text) {
    size_t length = strlen(text);
    while (length && text[length - 1] == '=') length--;
    Content found = {need(length / 4 * 3 + 4), 0};
    uint32_t bits = 0, held = 0;
    for (size_t at = 0; at < length; at++) {
        const char *digit = strchr(digits, text[at]);
        if (!digit) give_up("FL_GLOBAL_UPDATE_B64 is not base64");
        held = held << 6 | (uint32_t)(digit - digits);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            found.bytes[found.size++] = (char)(held >> bits);
        }
    }
    return found;
}

char *to_base64(const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    char *text = need((size + 2) / 3 * 4 + 1), *to = text;
    for (size_t at = 0; at < size; at += 3) {
        uint32_t held = (uint32_t)from[at] << 16;
        if (at + 1 < size) held |= (uint32_t)from[at + 1] << 8;
        if (at + 2 < size) held |= from[at + 2];
        *to++ = digits[held >> 18];
        *to++ = digits[held >> 12 & 63];
        *to++ = at + 1 < size ? digits[held >> 6 & 63] : '=';
        *to++ = at + 2 < size ? digits[held & 63] : '=';
    }
    return text;
}
