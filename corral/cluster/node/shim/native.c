/* Processes of containers, started without a copy of the shim's memory.
 *
 * A shim of many containers forks for each of them. Most of what that costs is its own memory: page
 * tables are copied, and every page that either side touches afterwards. Children made here run
 * nothing but this file until they become their program, or wait for ever, so the shim can exclude
 * its memory from forks (`memory.exclude_from_forks`). What they need is copied into a region of
 * its own first. Each function does what the Python beside it does (tasks.spawn, cells.make), in
 * the same order; that is also where the reasons are. Only system calls are made after a fork.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { INTERFACE = 1 };

/* the same on every architecture */
enum { FSOPEN = 430, FSCONFIG = 431, FSMOUNT = 432, CLOSE_RANGE = 436, OPENAT2 = 437 };
enum { CREATE_FILE_SYSTEM = 6, CLOSE_ON_EXEC = 1, UNSHARE_FILES = 2 };
enum { NO_MAGIC_LINKS = 0x02, IN_ROOT = 0x10 };

/* What a child reports when it fails, or a holder when it is ready: `births.Report`. */
struct report {
    int32_t step; /* an index into `births.STEPS`; 0: all is well */
    int32_t error;
    int32_t value; /* which program could not be executed; a holder's file system */
    int32_t seen;  /* 1: a program of that name is there, 2: it may be executed */
};

enum step {
    DONE, SESSION, STREAMS, TERMINAL, LIMITS, GROUPS, NAMESPACES, PRIVILEGES, FILTER, USER,
    CAPABILITIES, FOLDER, PROGRAM, PROC
};

/* -- a list of strings, as execve wants it ----------------------------------------------------- */

static int count(const char *text, Py_ssize_t size)
{
    int found = 0;
    for (Py_ssize_t i = 0; i < size; i++)
        found += !text[i];
    return found;
}

static void point(char **list, char *text, int number)
{
    for (int i = 0; i < number; i++, text += strlen(text) + 1)
        list[i] = text;
    list[number] = NULL;
}

/* -- steps of children ------------------------------------------------------------------------- */

static pid_t fork_here(unsigned long flags)
{
#ifdef __s390x__
    return (pid_t)syscall(SYS_clone, NULL, flags | SIGCHLD, NULL, NULL, NULL);
#else
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
#endif
}

/* Block all signals: handlers of the shim's must not run in a child. */
static void block_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
}

static void handle_all_signals(void (*how)(int))
{
    struct sigaction action = {.sa_handler = how};
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &action, NULL);
}

static int set_capabilities(uint64_t wanted)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        uint32_t kept = (uint32_t)(wanted >> (32 * i)) & data[i].permitted;
        data[i] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    }
    return (int)syscall(SYS_capset, &header, data);
}

static int become_user(int64_t uid, int64_t gid, const uint32_t *groups, size_t number)
{
    /* not the library's functions, which would tell threads that are not there */
    if (syscall(SYS_setgroups, number, groups) < 0)
        return -1;
    if (gid >= 0 && syscall(SYS_setresgid, (uint32_t)gid, (uint32_t)gid, (uint32_t)gid) < 0)
        return -1;
    if (uid >= 0 && syscall(SYS_setresuid, (uint32_t)uid, (uint32_t)uid, (uint32_t)uid) < 0)
        return -1;
    return 0;
}

static int go_to(const char *folder)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_PATH | O_DIRECTORY | O_CLOEXEC, 0, IN_ROOT | NO_MAGIC_LINKS};
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    long place;
    int tries = 1000;
    do
        place = syscall(OPENAT2, root, folder, &how, sizeof how);
    while (place < 0 && errno == EAGAIN && --tries);
    return place < 0 ? -1 : fchdir((int)place);
}

/* -- the program of a container ---------------------------------------------------------------- */

struct plan {
    char **paths, **argv, **env;
    int streams[3], tell, tty;
    struct rlimit files;
    const int32_t *groups, *enter;
    int groups_number, enter_number;
    const char *oom_score;
    int own_groups, no_new_privileges;
    uint64_t dropped, capabilities;
    struct sock_fprog filter;
    int change_user, supplementary_number;
    int64_t uid, gid;
    const uint32_t *supplementary;
    long long most_processes;
    const char *folder;
    pid_t shim;
};

static enum step settle(const struct plan *plan)
{
    if (setrlimit(RLIMIT_NOFILE, &plan->files) < 0)
        return LIMITS;
    for (int i = 0; i < plan->groups_number; i++)
        if (write(plan->groups[i], "0", 1) < 0)
            return GROUPS;
    if (*plan->oom_score) {
        int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (file >= 0) {
            ssize_t ignored = write(file, plan->oom_score, strlen(plan->oom_score));
            (void)ignored;
            close(file);
        }
    }
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return PRIVILEGES;
    for (int i = 0; i < plan->enter_number; i++)
        if (syscall(SYS_setns, plan->enter[2 * i], plan->enter[2 * i + 1]) < 0)
            return NAMESPACES;
    if (plan->own_groups && syscall(SYS_unshare, CLONE_NEWCGROUP) < 0)
        return NAMESPACES;
    if (plan->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return PRIVILEGES;
    for (int number = 0; number < 64; number++)
        if (plan->dropped >> number & 1 && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0)
            return PRIVILEGES;
    if (plan->filter.len
        && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &plan->filter, 0, 0) < 0)
        return FILTER;
    if (plan->change_user
        && become_user(plan->uid, plan->gid, plan->supplementary, plan->supplementary_number) < 0)
        return USER;
    if (plan->most_processes) {
        struct rlimit found;
        rlim_t most = (rlim_t)plan->most_processes;
        if (getrlimit(RLIMIT_NPROC, &found) < 0)
            return LIMITS;
        if (found.rlim_max != RLIM_INFINITY && found.rlim_max < most)
            most = found.rlim_max;
        found = (struct rlimit){most, most};
        if (setrlimit(RLIMIT_NPROC, &found) < 0)
            return LIMITS;
    }
    if (set_capabilities(syscall(SYS_geteuid) == 0 ? plan->capabilities : 0) < 0)
        return CAPABILITIES;
    return go_to(plan->folder) < 0 ? FOLDER : DONE;
}

/* Try one place after the other; which one says why none could be executed. */
static int execute(const struct plan *plan)
{
    int told = -1, last = 0, error = ENOENT, last_error = ENOENT;
    for (int i = 0; plan->paths[i]; i++) {
        execve(plan->paths[i], plan->argv, plan->env);
        last = i;
        last_error = errno;
        if (errno != ENOENT && errno != ENOTDIR && told < 0) {
            told = i;
            error = errno;
        }
    }
    errno = told < 0 ? last_error : error;
    return told < 0 ? last : told;
}

static enum step become(const struct plan *plan, struct report *report)
{
    if (setsid() < 0)
        return SESSION;
    for (int i = 0; i < 3; i++)
        if (dup2(plan->streams[i], i) < 0)
            return STREAMS;
    if (plan->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        return TERMINAL;
    enum step failed = settle(plan);
    if (failed)
        return failed;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return PRIVILEGES;
    pid_t parent = getppid();
    if (parent != plan->shim && parent != 0)
        _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    report->value = execute(plan);
    return PROGRAM;
}

static void run(const struct plan *plan)
{
    struct report report = {0};
    struct sigaction usual = {.sa_handler = SIG_DFL}, before;
    for (int number = 1; number < NSIG; number++)
        /* what is ignored stays so, but for what Python ignores, and the shim */
        if (sigaction(number, NULL, &before) == 0
            && (before.sa_handler != SIG_IGN || number == SIGPIPE || number == SIGXFSZ
                || number == SIGINT || number == SIGCHLD))
            sigaction(number, &usual, NULL);
    report.step = become(plan, &report);
    report.error = errno;
    for (int i = 0; plan->paths[i]; i++)
        report.seen |= faccessat(AT_FDCWD, plan->paths[i], F_OK, 0) == 0;
    const char *file = report.step == FOLDER ? plan->folder : plan->paths[report.value];
    report.seen |= faccessat(AT_FDCWD, file, X_OK, 0) == 0 ? 2 : 0;
    ssize_t ignored = write(plan->tell, &report, sizeof report);
    (void)ignored;
    _exit(127);
}

/* Memory that children get a copy of, filled from the front. */
struct region {
    char *start, *next;
    size_t size;
};

static void *take(struct region *region, const void *from, size_t size)
{
    char *place = region->next;
    memcpy(place, from, size);
    region->next += (size + 15) & ~(size_t)15;
    return place;
}

static char **take_list(struct region *region, const Py_buffer *text)
{
    int number = count(text->buf, text->len);
    char *copy = take(region, text->buf, (size_t)text->len);
    char **list = (char **)region->next;
    region->next += (((size_t)number + 1) * sizeof *list + 15) & ~(size_t)15;
    point(list, copy, number);
    return list;
}

static PyObject *native_spawn(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer text[3], packed[4];
    struct plan plan = {.shim = getpid()};
    const char *oom_score, *folder;
    unsigned long long soft, hard, dropped, capabilities;
    long long uid, gid;
    if (!PyArg_ParseTuple(
            args, "y*y*y*(iii)ip(KK)y*y*y*y*yppKKpLLLy", &text[0], &text[1], &text[2],
            &plan.streams[0], &plan.streams[1], &plan.streams[2], &plan.tell, &plan.tty, &soft,
            &hard, &packed[0], &packed[1], &packed[2], &packed[3], &oom_score, &plan.own_groups,
            &plan.no_new_privileges, &dropped, &capabilities, &plan.change_user,
            &uid, &gid, &plan.most_processes, &folder))
        return NULL;
    plan.files = (struct rlimit){(rlim_t)soft, (rlim_t)hard};
    plan.dropped = dropped;
    plan.capabilities = capabilities;
    plan.uid = uid;
    plan.gid = gid;
    size_t room = sizeof plan + strlen(folder) + strlen(oom_score) + 1024;
    for (int i = 0; i < 3; i++)
        room += (size_t)text[i].len
                + ((size_t)count(text[i].buf, text[i].len) + 1) * sizeof(char *) + 64;
    for (int i = 0; i < 4; i++)
        room += (size_t)packed[i].len + 32;
    pid_t pid = -1;
    struct region region = {.size = room};
    region.start = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region.start != MAP_FAILED) {
        region.next = region.start;
        plan.paths = take_list(&region, &text[0]);
        plan.argv = take_list(&region, &text[1]);
        plan.env = take_list(&region, &text[2]);
        plan.groups = take(&region, packed[0].buf, (size_t)packed[0].len);
        plan.groups_number = (int)(packed[0].len / (Py_ssize_t)sizeof(int32_t));
        plan.enter = take(&region, packed[1].buf, (size_t)packed[1].len);
        plan.enter_number = (int)(packed[1].len / (Py_ssize_t)(2 * sizeof(int32_t)));
        plan.supplementary = take(&region, packed[2].buf, (size_t)packed[2].len);
        plan.supplementary_number = (int)(packed[2].len / (Py_ssize_t)sizeof(uint32_t));
        plan.filter.filter = take(&region, packed[3].buf, (size_t)packed[3].len);
        plan.filter.len = (unsigned short)(packed[3].len / (Py_ssize_t)sizeof(struct sock_filter));
        plan.oom_score = take(&region, oom_score, strlen(oom_score) + 1);
        plan.folder = take(&region, folder, strlen(folder) + 1);
        const struct plan *copy = take(&region, &plan, sizeof plan);
        sigset_t before;
        block_signals(&before);
        pid = fork_here(0);
        if (pid == 0)
            run(copy);
        int error = errno;
        sigprocmask(SIG_SETMASK, &before, NULL);
        munmap(region.start, region.size);
        errno = error;
    }
    int error = errno;
    for (int i = 0; i < 3; i++)
        PyBuffer_Release(&text[i]);
    for (int i = 0; i < 4; i++)
        PyBuffer_Release(&packed[i]);
    errno = error;
    return pid < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(pid);
}

/* -- the first process of a container ---------------------------------------------------------- */

static int new_proc(unsigned int attributes)
{
    int system = (int)syscall(FSOPEN, "proc", CLOSE_ON_EXEC);
    if (system < 0 || syscall(FSCONFIG, system, CREATE_FILE_SYSTEM, NULL, NULL, 0) < 0)
        return -1;
    int tree = (int)syscall(FSMOUNT, system, CLOSE_ON_EXEC, attributes);
    int error = errno;
    close(system);
    errno = error;
    return tree;
}

static void hold(int tell, int users, unsigned int attributes)
{
    struct report report = {0};
    handle_all_signals(SIG_IGN); /* nobody has to wait for orphans */
    report.value = new_proc(attributes);
    if (report.value < 0)
        report.step = PROC;
    else if (users >= 0
             && (syscall(SYS_setns, users, CLONE_NEWUSER) < 0 || become_user(0, 0, NULL, 0) < 0))
        report.step = USER;
    else if (set_capabilities(0) < 0)
        report.step = CAPABILITIES;
    else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0
             || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        report.step = PRIVILEGES;
    report.error = errno;
    ssize_t ignored = write(tell, &report, sizeof report);
    (void)ignored;
    if (report.step || syscall(CLOSE_RANGE, 0U, ~0U, UNSHARE_FILES) < 0)
        _exit(1);
    for (;;)
        pause();
}

static PyObject *native_hold(PyObject *module, PyObject *args)
{
    (void)module;
    int tell, users;
    unsigned int attributes;
    if (!PyArg_ParseTuple(args, "iiI", &tell, &users, &attributes))
        return NULL;
    sigset_t before;
    block_signals(&before);
    /* its files are ours until it lets go of them: what it makes is then ours */
    pid_t pid = fork_here(CLONE_FILES);
    if (pid == 0)
        hold(tell, users, attributes);
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(pid);
}

/* -- the module -------------------------------------------------------------------------------- */

static PyObject *native_needed(PyObject *module, PyObject *args)
{
    (void)module;
    (void)args;
    /* the stack, and what belongs to this thread */
    return Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)&module,
                         (unsigned long long)(uintptr_t)&errno);
}

static PyMethodDef METHODS[] = {
    {"spawn", native_spawn, METH_VARARGS, "Starts a container's program; gives its process."},
    {"hold", native_hold, METH_VARARGS, "Starts the first process of a process namespace."},
    {"needed", native_needed, METH_NOARGS, "Addresses in memory that forks must have a copy of."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "corral.cluster.node.shim.native", .m_size = 0,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit_native(void)
{
    PyObject *module = PyModule_Create(&MODULE);
    if (module != NULL && PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
