/* A disk that a test makes read-only for the processes that have this library before libc: while the
 * file that CORRAL_READ_ONLY_FILE names holds a device number (eight bytes, shared memory: a change
 * counts at once), whatever would change something on that device ends with EROFS, also through
 * files that are open already, as the kernel does it after an error of the disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))
#define CHANGES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC)))

static uint64_t device(void) {
  static volatile const uint64_t *mapped;
  static int tried;
  if (!tried) {
    tried = 1;
    const char *path = getenv("CORRAL_READ_ONLY_FILE");
    int (*opens)(const char *, int, ...) = NEXT(int (*)(const char *, int, ...), "open");
    int fd = path ? opens(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
      void *at = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
      if (at != MAP_FAILED) mapped = at;
      close(fd);
    }
  }
  return mapped ? *mapped : 0;
}

static int refused(void) {
  errno = EROFS;
  return 1;
}

/* Whether a file that is open may not be changed. */
static int of_file(int fd) {
  uint64_t only = device();
  struct stat found;
  int before = errno;
  if (!only) return 0;
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_dev == only) return refused();
  errno = before;
  return 0;
}

/* Whether a name, or the folder that it would be made in, may not be changed. */
static int of_path(int at, const char *path) {
  uint64_t only = device();
  struct stat found;
  char above[PATH_MAX];
  int before = errno, there = 0;
  if (!only || !path || strlen(path) >= sizeof above) return 0;
  if (fstatat(at, path, &found, 0) == 0) {
    there = S_ISREG(found.st_mode) || S_ISDIR(found.st_mode);
  } else {
    strcpy(above, path);
    char *last = strrchr(above, '/');
    if (!last) strcpy(above, ".");
    else last[last == above] = 0;
    there = fstatat(at, above, &found, 0) == 0;
  }
  errno = before;
  return there && found.st_dev == only && refused();
}

#define OPEN(name, first, given, at)                                                     \
  int name(first const char *path, int flags, ...) {                                     \
    va_list more;                                                                        \
    va_start(more, flags);                                                               \
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;            \
    va_end(more);                                                                        \
    if (CHANGES(flags) && of_path(at, path)) return -1;                                  \
    return NEXT(int (*)(first const char *, int, ...), #name)(given path, flags, mode); \
  }
#define NOTHING
#define DIRECTORY int at,
#define GIVEN at,
OPEN(open, NOTHING, NOTHING, AT_FDCWD)
OPEN(open64, NOTHING, NOTHING, AT_FDCWD)
OPEN(openat, DIRECTORY, GIVEN, at)
OPEN(openat64, DIRECTORY, GIVEN, at)

#define ON_FILE(result, name, declared, given)                                           \
  result name declared {                                                                 \
    if (of_file(fd)) return -1;                                                          \
    return NEXT(result(*) declared, #name) given;                                        \
  }
ON_FILE(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
ON_FILE(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t where), (fd, from, size, where))
ON_FILE(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t where), (fd, from, size, where))
ON_FILE(ssize_t, writev, (int fd, const struct iovec *from, int count), (fd, from, count))
ON_FILE(ssize_t, pwritev, (int fd, const struct iovec *from, int count, off_t where), (fd, from, count, where))
ON_FILE(int, ftruncate, (int fd, off_t size), (fd, size))
ON_FILE(int, ftruncate64, (int fd, off64_t size), (fd, size))
ON_FILE(int, fchmod, (int fd, mode_t mode), (fd, mode))

#define ON_PATH(name, declared, given, at, path)                                         \
  int name declared {                                                                    \
    if (of_path(at, path)) return -1;                                                    \
    return NEXT(int (*) declared, #name) given;                                          \
  }
ON_PATH(unlink, (const char *path), (path), AT_FDCWD, path)
ON_PATH(unlinkat, (int at, const char *path, int flags), (at, path, flags), at, path)
ON_PATH(rmdir, (const char *path), (path), AT_FDCWD, path)
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
ON_PATH(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), at, path)
ON_PATH(truncate, (const char *path, off_t size), (path, size), AT_FDCWD, path)
ON_PATH(truncate64, (const char *path, off64_t size), (path, size), AT_FDCWD, path)
ON_PATH(chmod, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
ON_PATH(rename, (const char *path, const char *to), (path, to), AT_FDCWD, path)
ON_PATH(renameat, (int at, const char *path, int other, const char *to), (at, path, other, to), at, path)
ON_PATH(symlink, (const char *to, const char *path), (to, path), AT_FDCWD, path)
ON_PATH(symlinkat, (const char *to, int at, const char *path), (to, at, path), at, path)
ON_PATH(link, (const char *to, const char *path), (to, path), AT_FDCWD, path)
ON_PATH(linkat, (int from, const char *to, int at, const char *path, int flags), (from, to, at, path, flags), at, path)
