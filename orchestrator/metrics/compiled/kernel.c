/* The inner loop of the metrics: one pass over a block of stored elements to its sums, another to its divergence.

   What it computes, and when a block has to go the careful way instead, is said in metrics/numpy_kernel.py and metrics/kullback_leibler.py,
   which do the same with numpy. Arrays are read through numpy's documented C interface (__array_struct__), which is the same for all releases of
   numpy and Python; each is checked here before a byte of it is touched.

   The passes (lanes.h, convert.h, passes.h) are compiled once for each instruction set, and the widest that the processor has is chosen when
   the module is loaded. No option that lets the compiler reorder or fuse floating-point operations may be given (setup.py): then all give the
   same bits. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__)
#error "needs the vectors of gcc or clang"
#endif

#define REVISION 4 /* of what is agreed with face.py; changes with it */
#define LANES 8
#define CHUNK 1024 /* elements of both sides and their difference that lie in the first cache as doubles */
#define MOST_AXES 32
#define MOST_ROWS 64 /* of a tile */
#define TYPES 12
#define FLOAT64 10

/* As in metrics/numpy_kernel.py and metrics/pair_sums.py. */
#define RELATIVE_FLOOR 2.220446e-16
#define CANCELLED 1e-3
#define SAFE_BIG 1e250

typedef int16_t __attribute__((aligned(1), may_alias)) any_int16;
typedef uint16_t __attribute__((aligned(1), may_alias)) any_uint16;
typedef int32_t __attribute__((aligned(1), may_alias)) any_int32;
typedef uint32_t __attribute__((aligned(1), may_alias)) any_uint32;
typedef int64_t __attribute__((aligned(1), may_alias)) any_int64;
typedef uint64_t __attribute__((aligned(1), may_alias)) any_uint64;
typedef float __attribute__((aligned(1), may_alias)) any_float;
typedef double __attribute__((aligned(1), may_alias)) any_double;
#if defined(__aarch64__)
typedef __fp16 __attribute__((aligned(1), may_alias)) any_half;
#endif

union float_bits {
    uint32_t bits;
    float value;
};

static const int type_sizes[TYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 2};

/* The coefficients of (1 + u) ln(1 + u) - u behind u**2. */
static const double SERIES[12] = {1.0 / 2,  -1.0 / 6,  1.0 / 12, -1.0 / 20,  1.0 / 30,  -1.0 / 42,
                                  1.0 / 56, -1.0 / 72, 1.0 / 90, -1.0 / 110, 1.0 / 132, -1.0 / 156};

static const uint64_t ONES_THEN_ZEROS[2 * LANES] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                                    UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

#include "walk.h"

/* Lanes of what metrics/pair_sums.py's PairSums hold. */
struct pair_lanes {
    double x[LANES], y[LANES], xx[LANES], yy[LANES], xy[LANES], dd[LANES], ad[LANES], rel[LANES];
    double max_ad[LANES], max_rel[LANES], x_low[LANES], x_high[LANES], y_low[LANES], y_high[LANES];
};

#define EIGHT(v) {v, v, v, v, v, v, v, v}
static const struct pair_lanes no_sums = {
    .x_low = EIGHT(INFINITY), .x_high = EIGHT(-INFINITY), .y_low = EIGHT(INFINITY), .y_high = EIGHT(-INFINITY)};

struct moments {
    double base, mean, m2;
};

struct pair_sums {
    double x, y, xx, yy, xy, dd, ad, rel, max_ad, max_rel, x_low, x_high, y_low, y_high;
    struct moments x_moments, y_moments;
};

/* Sums of squares of a block that is seen as rows of ``length`` elements, for the golden and for the difference; NULL: not wanted. */
struct table {
    ptrdiff_t length;
    double *rows_y, *rows_d, *columns_y, *columns_d;
};

struct wanted {
    int relative, spread;
    struct table table;
    double *keep_y, *keep_d;
};

/* A value v becomes max((v - low) * factor, floor). */
struct scaling {
    double low, factor, floor;
};

static double total_of(const double *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static void add_sums(struct pair_lanes *lanes, const struct pair_lanes *part) {
    for (int lane = 0; lane < LANES; lane++) {
        lanes->x[lane] += part->x[lane];
        lanes->y[lane] += part->y[lane];
        lanes->xx[lane] += part->xx[lane];
        lanes->yy[lane] += part->yy[lane];
        lanes->xy[lane] += part->xy[lane];
        lanes->dd[lane] += part->dd[lane];
        lanes->ad[lane] += part->ad[lane];
        lanes->rel[lane] += part->rel[lane];
    }
}

static double largest_of(const double *lanes) {
    double found = lanes[0];
    for (int lane = 1; lane < LANES; lane++)
        found = lanes[lane] > found ? lanes[lane] : found;
    return found;
}

static double smallest_of(const double *lanes) {
    double found = lanes[0];
    for (int lane = 1; lane < LANES; lane++)
        found = lanes[lane] < found ? lanes[lane] : found;
    return found;
}

static void merge_lanes(const struct pair_lanes *lanes, struct pair_sums *found) {
    found->x = total_of(lanes->x);
    found->y = total_of(lanes->y);
    found->xx = total_of(lanes->xx);
    found->yy = total_of(lanes->yy);
    found->xy = total_of(lanes->xy);
    found->dd = total_of(lanes->dd);
    found->ad = total_of(lanes->ad);
    found->rel = total_of(lanes->rel);
    found->max_ad = largest_of(lanes->max_ad);
    found->max_rel = largest_of(lanes->max_rel);
    found->x_low = smallest_of(lanes->x_low);
    found->x_high = largest_of(lanes->x_high);
    found->y_low = smallest_of(lanes->y_low);
    found->y_high = largest_of(lanes->y_high);
}

/* Fill a chunk up to whole lanes. */
static void pad(double *v, ptrdiff_t n, double with) {
    while (n % LANES)
        v[n++] = with;
}

/* Which instruction sets this compiler knows how to choose from; target attributes came with these versions. */
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__clang__) ? __clang_major__ >= 7 : __GNUC__ >= 6
#define WITH_AVX512
#endif
#if defined(__clang__) ? __clang_major__ >= 4 : __GNUC__ > 4 || (__GNUC__ == 4 && __GNUC_MINOR__ >= 9)
#define WITH_AVX2
#endif
#endif

#define JOINED(name, set) name##_##set
#define JOIN(name, set) JOINED(name, set)
#define NAMED(name) JOIN(name, ISA)

#if defined(WITH_AVX512)
#define ISA avx512
#define WIDTH 8
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#include "lanes.h"
#include "convert.h"
#include "passes.h"
#include "forget.h"
#endif

#if defined(WITH_AVX2)
#define ISA avx2
#define WIDTH 4
#define TARGET __attribute__((target("avx2,f16c")))
#include "lanes.h"
#include "convert.h"
#include "passes.h"
#include "forget.h"
#endif

#define ISA plain
#define WIDTH 2
#define TARGET
#include "lanes.h"
#include "convert.h"
#include "passes.h"
#include "forget.h"

struct kernel {
    const char *name;
    void (*first_pass)(const struct walk *, const struct wanted *, struct pair_sums *);
    void (*divergence)(const struct walk *, const struct scaling *, double *);
};

static const struct kernel kernels[] = {
#if defined(WITH_AVX512)
    {"avx512", first_pass_avx512, divergence_avx512},
#endif
#if defined(WITH_AVX2)
    {"avx2", first_pass_avx2, divergence_avx2},
#endif
#if defined(__x86_64__)
    {"sse2", first_pass_plain, divergence_plain},
#elif defined(__aarch64__)
    {"neon", first_pass_plain, divergence_plain},
#else
    {"plain", first_pass_plain, divergence_plain},
#endif
};

#define KERNELS ((int)(sizeof kernels / sizeof kernels[0]))

static const struct kernel *chosen = &kernels[KERNELS - 1];

#if defined(WITH_AVX2)
/* Older compilers' __builtin_cpu_supports does not know it. */
static int converts_halves(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & (1u << 29);
}
#endif

static int can_run(const char *name) {
#if defined(__x86_64__)
#if defined(WITH_AVX512)
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512bw");
#endif
#if defined(WITH_AVX2)
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && converts_halves();
#endif
#endif
    (void)name;
    return 1;
}

#include "arrays.h"

static PyObject *py_sums(PyObject *self, PyObject *args) {
    struct block block;
    struct wanted wanted;
    struct pair_sums found;
    PyObject *x, *y, *rows_y, *rows_d, *columns_y, *columns_d, *keep_y, *keep_d, *result = NULL;
    Py_ssize_t length;
    ptrdiff_t count;
    struct table *table = &wanted.table;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOppnOOOOOO", &x, &y, &wanted.relative, &wanted.spread, &length, &rows_y, &rows_d, &columns_y, &columns_d,
                          &keep_y, &keep_d))
        return NULL;
    count = open_block(&block, x, y);
    table->length = length;
    if (count == 0) {
        result = Py_None;
        Py_INCREF(result);
    } else if (count > 0 && (length < 1 || count % length || (rows_y == Py_None) != (rows_d == Py_None) ||
                             (columns_y == Py_None) != (columns_d == Py_None))) {
        PyErr_Format(PyExc_ValueError, "rows of %zd elements in a block of %zd", length, (Py_ssize_t)count);
    } else if (count > 0 && open_output(rows_y, count / length, &table->rows_y) && open_output(rows_d, count / length, &table->rows_d) &&
               open_output(columns_y, length, &table->columns_y) && open_output(columns_d, length, &table->columns_d) &&
               open_output(keep_y, count, &wanted.keep_y) && open_output(keep_d, count, &wanted.keep_d)) {
        memset(&found, 0, sizeof found);
        Py_BEGIN_ALLOW_THREADS;
        chosen->first_pass(&block.walk, &wanted, &found);
        Py_END_ALLOW_THREADS;
        result = Py_BuildValue("(dddddddddddddddddd)", found.x_low, found.x_high, found.y_low, found.y_high, found.xx, found.yy, found.xy,
                               found.dd, found.ad, found.max_ad, found.rel, found.max_rel, found.x_moments.base, found.x_moments.mean,
                               found.x_moments.m2, found.y_moments.base, found.y_moments.mean, found.y_moments.m2);
    }
    close_block(&block);
    return result;
}

static PyObject *py_divergence(PyObject *self, PyObject *args) {
    struct block block;
    struct scaling sides[2];
    PyObject *x, *y, *result = NULL;
    ptrdiff_t count;
    double sums[5];
    (void)self;
    if (!PyArg_ParseTuple(args, "OO(dddddd)", &x, &y, &sides[0].low, &sides[0].factor, &sides[0].floor, &sides[1].low, &sides[1].factor,
                          &sides[1].floor))
        return NULL;
    count = open_block(&block, x, y);
    if (count == 0) {
        result = Py_None;
        Py_INCREF(result);
    } else if (count > 0) {
        Py_BEGIN_ALLOW_THREADS;
        chosen->divergence(&block.walk, sides, sums);
        Py_END_ALLOW_THREADS;
        result = Py_BuildValue("(ddddd)", sums[0], sums[1], sums[2], sums[3], sums[4]);
    }
    close_block(&block);
    return result;
}

static PyObject *py_revision(PyObject *self, PyObject *args) {
    (void)self;
    (void)args;
    return PyLong_FromLong(REVISION);
}

static PyObject *py_instruction_set(PyObject *self, PyObject *args) {
    (void)self;
    (void)args;
    return PyUnicode_FromString(chosen->name);
}

static PyObject *py_instruction_sets(PyObject *self, PyObject *args) {
    PyObject *names = PyList_New(0);
    (void)self;
    (void)args;
    for (int number = 0; names && number < KERNELS; number++) {
        PyObject *name = can_run(kernels[number].name) ? PyUnicode_FromString(kernels[number].name) : NULL;
        if (name && PyList_Append(names, name) != 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *py_choose(PyObject *self, PyObject *args) {
    const char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    for (int number = 0; number < KERNELS; number++)
        if (strcmp(kernels[number].name, name) == 0 && can_run(name)) {
            chosen = &kernels[number];
            Py_RETURN_NONE;
        }
    PyErr_Format(PyExc_ValueError, "this processor does not run %s", name);
    return NULL;
}

static PyMethodDef methods[] = {
    {"revision", py_revision, METH_NOARGS, "The revision of the functions' arguments and results."},
    {"sums", py_sums, METH_VARARGS, "The sums of one block."},
    {"divergence", py_divergence, METH_VARARGS, "The sums of the divergence of one block."},
    {"instruction_set", py_instruction_set, METH_NOARGS, "The instruction set in use."},
    {"instruction_sets", py_instruction_sets, METH_NOARGS, "Those that this processor runs, the widest first."},
    {"choose", py_choose, METH_VARARGS, "Use another of them."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    for (int number = KERNELS - 1; number >= 0; number--)
        if (can_run(kernels[number].name))
            chosen = &kernels[number];
    return PyModule_Create(&definition);
}
