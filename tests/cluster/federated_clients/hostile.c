/* A task that tries what a task must not: each way of it ends with a code and words.
 *
 *   hostile read PATH        through libc
 *   hostile raw PATH         through every descriptor that there is, past libc
 *   hostile write PATH
 *   hostile list PATH
 *   hostile link TARGET PATH leave a link, and read through it
 *   hostile network          every call of sockets that WASI has, on every descriptor
 *   hostile grow             take all memory there is
 *   hostile spin | wait      never end: in its own code, or in a call to the machine
 *
 * It exits with 0 only if it got what it wanted. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wasi/api.h>

#define DESCRIPTORS 64

static int refused(const char *what, const char *path) {
    fprintf(stderr, "cannot %s %s: %s\n", what, path, strerror(errno));
    return 1;
}

static int read_it(const char *path) {
    char text[4096];
    FILE *file = fopen(path, "r");
    if (!file) return refused("read", path);
    size_t count = fread(text, 1, sizeof text, file);
    if (ferror(file)) return refused("read", path);
    printf("got %zu bytes: %.*s\n", count, (int)count, text);
    return 0;
}

static int read_raw(const char *path) {
    int last = 0;
    for (int folder = 0; folder < DESCRIPTORS; folder++) {
        __wasi_fd_t file;
        __wasi_errno_t error =
            __wasi_path_open(folder, __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW, path, 0,
                             __WASI_RIGHTS_FD_READ, __WASI_RIGHTS_FD_READ, 0, &file);
        if (error == 0) {
            printf("got it through descriptor %d\n", folder);
            return 0;
        }
        if (error != __WASI_ERRNO_BADF) last = error;
    }
    errno = last;
    return refused("open", path);
}

static int write_it(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) return refused("write", path);
    if (fputs("hostile was here\n", file) < 0 || fclose(file) != 0) return refused("write", path);
    return 0;
}

static int list_it(const char *path) {
    DIR *folder = opendir(path);
    if (!folder) return refused("list", path);
    for (struct dirent *entry; (entry = readdir(folder));) puts(entry->d_name);
    return 0;
}

static int link_it(const char *target, const char *path) {
    if (symlink(target, path) != 0) return refused("link to", target);
    return read_it(path);
}

static int network(void) {
    int refusals = 0;
    for (int descriptor = 0; descriptor < DESCRIPTORS; descriptor++) {
        __wasi_fd_t peer;
        uint8_t text[1] = {'x'};
        __wasi_ciovec_t out = {text, 1};
        __wasi_iovec_t in = {text, 1};
        __wasi_size_t done;
        __wasi_roflags_t flags;
        int got = __wasi_sock_accept(descriptor, 0, &peer) == 0;
        got |= __wasi_sock_send(descriptor, &out, 1, 0, &done) == 0;
        got |= __wasi_sock_recv(descriptor, &in, 1, 0, &done, &flags) == 0;
        if (got) {
            printf("descriptor %d is a socket\n", descriptor);
            return 0;
        }
        refusals += 3;
    }
    fprintf(stderr, "no network: %d calls refused\n", refusals);
    return 1;
}

static char *volatile taken; /* so that no compiler leaves it out */

static int grow(void) {
    for (size_t count = 0;; count++) {
        taken = malloc(1 << 20);
        if (!taken) abort();
        memset(taken, (int)count + 1, 1 << 20);
        printf("%zu MiB\n", count + 1);
        fflush(stdout);
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "", *path = count > 2 ? words[2] : "";
    if (!strcmp(what, "read")) return read_it(path);
    if (!strcmp(what, "raw")) return read_raw(path);
    if (!strcmp(what, "write")) return write_it(path);
    if (!strcmp(what, "list")) return list_it(path);
    if (!strcmp(what, "link")) return link_it(path, words[3]);
    if (!strcmp(what, "network")) return network();
    if (!strcmp(what, "grow")) return grow();
    if (!strcmp(what, "wait")) return (int)sleep(1000000);
    if (!strcmp(what, "spin"))
        for (volatile int n = 0;; n++) continue;
    fprintf(stderr, "no such attempt: %s\n", what);
    return 2;
}
