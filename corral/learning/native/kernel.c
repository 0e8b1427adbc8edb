/* The hot loops of corral.learning for Python: native/__init__.py says what each function does.
 *
 * Every function gives, bit for bit, what the NumPy code beside its caller gives. All work is done
 * without the interpreter's lock; arguments are buffers, which hold what they lend until it is done. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "distances.h"
#include "mean.h"
#include "numbers.h"
#include "order.h"
#include "sums.h"

#define INTERFACE 1

static int wrong_size(int wrong)
{
    if (wrong)
        PyErr_SetString(PyExc_ValueError, "the buffers do not fit each other");
    return wrong;
}

/* mean(vectors, weights, out, threads) -> (bad clients, elements left) */
static int lend_vectors(PyObject *vectors, PyObject *weights, struct mean *job, Py_buffer *views,
                        const single **starts, double *doubles, int64_t *factors)
{
    int64_t total = 0;
    for (int64_t i = 0; i < job->clients; i++) {
        int64_t weight = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(weights, i));
        if (weight == -1 && PyErr_Occurred())
            return 0;
        if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(vectors, i), &views[i], PyBUF_SIMPLE))
            return 0;
        if (wrong_size(views[i].len != job->size * 4 || weight < 1 || weight > INT32_MAX))
            return 0;
        starts[i] = views[i].buf;
        doubles[i] = (double)weight;
        factors[i] = weight;
        total += weight;
    }
    job->weight = (double)total;
    return !wrong_size(total > INT32_MAX);
}

static PyObject *mean_answer(const struct mean *job)
{
    PyObject *left, *bad = PyList_New(0);
    for (int64_t i = 0; bad && i < job->clients; i++) {
        if (atomic_load(&job->bad[i])) {
            PyObject *index = PyLong_FromLongLong(i);
            if (!index || PyList_Append(bad, index))
                Py_CLEAR(bad);
            Py_XDECREF(index);
        }
    }
    if (!bad)
        return NULL;
    left = PyBytes_FromStringAndSize((const char *)job->left, job->count * 8);
    return Py_BuildValue("NN", bad, left);
}

static PyObject *kernel_mean(PyObject *self, PyObject *args)
{
    PyObject *vectors, *weights, *fast_vectors, *fast_weights, *answer = NULL;
    Py_buffer out;
    int threads;
    if (!PyArg_ParseTuple(args, "OOw*i", &vectors, &weights, &out, &threads))
        return NULL;
    struct mean job = {.size = out.len / 4, .out = out.buf};
    fast_vectors = PySequence_Fast(vectors, "vectors must be a sequence");
    fast_weights = PySequence_Fast(weights, "weights must be a sequence");
    job.clients = fast_vectors ? PySequence_Fast_GET_SIZE(fast_vectors) : 0;
    size_t clients = (size_t)job.clients + 1;
    Py_buffer *views = calloc(clients, sizeof *views);
    const single **starts = calloc(clients, sizeof *starts);
    double *doubles = calloc(clients, sizeof *doubles);
    int64_t *factors = calloc(clients, sizeof *factors);
    _Atomic uint8_t *bad = calloc(clients, 1);
    if (!views || !starts || !doubles || !factors || !bad) {
        PyErr_NoMemory();
    } else if (fast_vectors && fast_weights
               && !wrong_size(!job.clients || PySequence_Fast_GET_SIZE(fast_weights) != job.clients)
               && lend_vectors(fast_vectors, fast_weights, &job, views, starts, doubles, factors)) {
        job.vectors = starts;
        job.weights = doubles;
        job.factors = factors;
        job.bad = bad;
        pthread_mutex_init(&job.lock, NULL);
        Py_BEGIN_ALLOW_THREADS
        spread(mean_piece, &job, (job.size + MEAN_PIECE - 1) / MEAN_PIECE, threads);
        Py_END_ALLOW_THREADS
        pthread_mutex_destroy(&job.lock);
        answer = job.failed ? PyErr_NoMemory() : mean_answer(&job);
        free(job.left);
    }
    for (int64_t i = 0; views && i < job.clients; i++)
        if (views[i].obj)
            PyBuffer_Release(&views[i]);
    free(views);
    free(starts);
    free(doubles);
    free(factors);
    free((void *)bad);
    Py_XDECREF(fast_vectors);
    Py_XDECREF(fast_weights);
    PyBuffer_Release(&out);
    return answer;
}

/* gather(sums, values, weight, constant, small, large, places) -> count set aside, or -1 */
static PyObject *kernel_gather(PyObject *self, PyObject *args)
{
    Py_buffer sums, values, places;
    float small, large;
    long long weight;
    double constant;
    int64_t odd = -1;
    if (!PyArg_ParseTuple(args, "w*y*Ldffw*", &sums, &values, &weight, &constant, &small, &large,
                          &places))
        return NULL;
    struct grains job = {.sums = sums.buf, .values = values.buf, .count = values.len / 4,
                         .weight = weight, .constant = constant};
    int wrong = wrong_size(sums.len != 2 * values.len || places.len < sums.len);
    memcpy(&job.small, &small, 4);
    memcpy(&job.large, &large, 4);
    if (!wrong) {
        Py_BEGIN_ALLOW_THREADS
        uint32_t most;
        survey(&job, &most, &odd);
        if (most >= INFINITE32)
            odd = -1;
        else if (odd)
            odd = gather_some(&job, places.buf);
        else
            gather(&job);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&sums);
    PyBuffer_Release(&values);
    PyBuffer_Release(&places);
    return wrong ? NULL : PyLong_FromLongLong(odd);
}

/* divide(sums, out, shift, grain, divisor) */
static PyObject *kernel_divide(PyObject *self, PyObject *args)
{
    Py_buffer sums, out;
    long long shift;
    double grain, divisor;
    if (!PyArg_ParseTuple(args, "y*w*Ldd", &sums, &out, &shift, &grain, &divisor))
        return NULL;
    int wrong = wrong_size(sums.len != 2 * out.len);
    if (!wrong) {
        Py_BEGIN_ALLOW_THREADS
        divide(sums.buf, out.buf, out.len / 4, shift, grain, divisor);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&sums);
    PyBuffer_Release(&out);
    if (wrong)
        return NULL;
    Py_RETURN_NONE;
}

struct look {
    const char *values;
    int64_t count;
    int width;
    _Atomic uint64_t largest;
};

#define LOOK_PIECE (1 << 18)

static void look(void *context, int64_t piece)
{
    struct look *job = context;
    int64_t start = piece * LOOK_PIECE;
    int64_t count = job->count - start < LOOK_PIECE ? job->count - start : LOOK_PIECE;
    uint64_t most, known = atomic_load(&job->largest);
    if (job->width == 4) {
        uint32_t most32;
        largest32((const single *)(job->values + 4 * start), count, &most32);
        most = most32;
    } else {
        largest64((const wide *)(job->values + 8 * start), count, &most);
    }
    while (most > known && !atomic_compare_exchange_weak(&job->largest, &known, most))
        continue;
}

/* largest(values, width, threads) -> the largest magnitude; NaN when there is one */
static PyObject *kernel_largest(PyObject *self, PyObject *args)
{
    Py_buffer values;
    int width, threads;
    uint64_t most;
    double result;
    if (!PyArg_ParseTuple(args, "y*ii", &values, &width, &threads))
        return NULL;
    if (wrong_size((width != 4 && width != 8) || values.len % width)) {
        PyBuffer_Release(&values);
        return NULL;
    }
    struct look job = {.values = values.buf, .count = values.len / width, .width = width};
    atomic_init(&job.largest, 0);
    Py_BEGIN_ALLOW_THREADS
    spread(look, &job, (job.count + LOOK_PIECE - 1) / LOOK_PIECE, threads);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&values);
    most = atomic_load(&job.largest);
    if (width == 4) {
        uint32_t bits = (uint32_t)most;
        float narrow;
        memcpy(&narrow, &bits, 4);
        result = (double)narrow;
    } else {
        memcpy(&result, &most, 8);
    }
    return PyFloat_FromDouble(result);
}

/* order(rows, count, width, first, last, halves, out) */
static PyObject *kernel_order(PyObject *self, PyObject *args)
{
    Py_buffer rows, out;
    long long count, first, last;
    int width, halves, done = 0;
    if (!PyArg_ParseTuple(args, "y*LiLLpw*", &rows, &count, &width, &first, &last, &halves, &out))
        return NULL;
    struct network network = {0};
    struct order job = {.rows = rows.buf, .out = out.buf, .network = &network, .count = count,
                        .columns = out.len / (width ? width : 1), .first = first, .last = last,
                        .halves = halves};
    if (!wrong_size((width != 4 && width != 8) || count < 1 || count > INT32_MAX
                    || rows.len != count * out.len || first < 0 || first >= last || last > count)) {
        job.scratch = calloc((size_t)count, (size_t)(ORDER_LANES * width));
        if (job.scratch && make_network(&network, count, first, last)) {
            Py_BEGIN_ALLOW_THREADS
            if (width == 4)
                order32(&job);
            else
                order64(&job);
            Py_END_ALLOW_THREADS
            done = 1;
        } else {
            PyErr_NoMemory();
        }
        free(job.scratch);
        free(network.steps);
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&out);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}

/* gram(rows, count, width, product) */
static PyObject *kernel_gram(PyObject *self, PyObject *args)
{
    Py_buffer rows, product;
    long long count;
    int width, done = 0;
    if (!PyArg_ParseTuple(args, "y*Liw*", &rows, &count, &width, &product))
        return NULL;
    if (!wrong_size((width != 4 && width != 8) || count < 1 || rows.len % (count * width)
                    || product.len != count * count * 8)) {
        struct gram job = {.rows = rows.buf, .count = count, .columns = rows.len / (count * width),
                           .double_rows = width == 8, .product = product.buf};
        size_t padded = ((size_t)count + GRAM_TILE - 1) / GRAM_TILE * GRAM_TILE;
        job.scratch = aligned_alloc(64, padded * GRAM_CHUNK * sizeof(double));
        if (job.scratch) {
            Py_BEGIN_ALLOW_THREADS
            gram(&job);
            Py_END_ALLOW_THREADS
            done = 1;
        } else {
            PyErr_NoMemory();
        }
        free(job.scratch);
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&product);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}

/* commas(text) -> how many there are */
static PyObject *kernel_commas(PyObject *self, PyObject *args)
{
    Py_buffer text;
    int64_t count = 0;
    if (!PyArg_ParseTuple(args, "y*", &text))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    const char *at = text.buf;
    for (int64_t i = 0; i < text.len; i++)
        count += at[i] == ',';
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&text);
    return PyLong_FromLongLong(count);
}

/* What Python must read: its text is known to be a number, and is copied for a zero at its end. */
static int read_slowly(const struct numbers *job)
{
    for (int64_t i = 0; i < job->slow_count; i++) {
        struct slow slow = job->slow[i];
        size_t length = (size_t)(slow.stop - slow.start);
        char *copy = malloc(length + 1);
        if (!copy) {
            PyErr_NoMemory();
            return 0;
        }
        memcpy(copy, job->text + slow.start, length);
        copy[length] = 0;
        double value = PyOS_string_to_double(copy, NULL, NULL);
        free(copy);
        if ((value == -1.0 && PyErr_Occurred()) || __builtin_isinf(value))
            return 0;
        job->out[slow.index] = value;
    }
    return 1;
}

/* numbers(text, powers, out) -> whether all of the text is `out`'s numbers */
static PyObject *kernel_numbers(PyObject *self, PyObject *args)
{
    Py_buffer text, powers, out;
    int good = 0;
    if (!PyArg_ParseTuple(args, "y*y*w*", &text, &powers, &out))
        return NULL;
    struct numbers job = {.text = text.buf, .length = text.len, .powers = powers.buf,
                          .out = out.buf, .room = out.len / 8};
    if (!wrong_size(powers.len != POWERS * (Py_ssize_t)sizeof(struct power))) {
        Py_BEGIN_ALLOW_THREADS
        good = read_numbers(&job) && job.count == job.room;
        Py_END_ALLOW_THREADS
        if (good)
            good = read_slowly(&job);
        free(job.slow);
    }
    PyBuffer_Release(&text);
    PyBuffer_Release(&powers);
    PyBuffer_Release(&out);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(good);
}

static PyMethodDef methods[] = {
    {"mean", kernel_mean, METH_VARARGS, NULL},       {"gather", kernel_gather, METH_VARARGS, NULL},
    {"divide", kernel_divide, METH_VARARGS, NULL},   {"largest", kernel_largest, METH_VARARGS, NULL},
    {"order", kernel_order, METH_VARARGS, NULL},     {"gram", kernel_gram, METH_VARARGS, NULL},
    {"commas", kernel_commas, METH_VARARGS, NULL},   {"numbers", kernel_numbers, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "kernel", .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit_kernel(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "INTERFACE", INTERFACE))
        Py_CLEAR(made);
    return made;
}
