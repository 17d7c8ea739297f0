/* numpy's arrays, checked: which blocks can be walked through, and where results may be written. */

/* What numpy says of an array: the array interface's PyArrayInterface. */
struct array {
    int two, axes;
    char kind;
    int size, flags;
    intptr_t *shape, *strides;
    void *data;
    PyObject *descr;
};

#define CONTIGUOUS 0x001
#define NATIVE 0x200
#define WRITEABLE 0x400

/* Return it, NULL with an error set where there is none; the capsule holds it. */
static const struct array *describe(PyObject *object, PyObject **capsule) {
    const struct array *array = NULL;
    *capsule = PyObject_GetAttrString(object, "__array_struct__");
    if (*capsule)
        array = (const struct array *)PyCapsule_GetPointer(*capsule, NULL);
    if (array && (array->two != 2 || array->axes < 0 || (array->axes && (!array->shape || !array->strides)))) {
        PyErr_SetString(PyExc_ValueError, "this is no array");
        return NULL;
    }
    return array;
}

static int type_of(const struct array *array) {
    static const char kinds[] = "iuiuiuiufffV";
    if (array->flags & NATIVE)
        for (int type = 0; type < TYPES; type++)
            if (kinds[type] == array->kind && type_sizes[type] == array->size)
                return type;
    return -1;
}

static ptrdiff_t count_of(const struct array *array) {
    ptrdiff_t count = 1;
    for (int axis = 0; axis < array->axes; axis++)
        count *= array->shape[axis];
    return count;
}

/* Neighbouring axes that can be walked through as one become one. Returns the number of elements, -1 with an error set, or 0 where there are none
   or this code does not know what they are. */
static ptrdiff_t make_walk(struct walk *walk, const struct array *x, const struct array *y) {
    int differ = x->axes != y->axes;
    for (int axis = 0; !differ && axis < x->axes; axis++)
        differ = x->shape[axis] != y->shape[axis];
    if (differ) {
        PyErr_SetString(PyExc_ValueError, "the two blocks differ in shape");
        return -1;
    }
    walk->x.type = type_of(x);
    walk->y.type = type_of(y);
    if (walk->x.type < 0 || walk->y.type < 0 || x->axes > MOST_AXES || count_of(x) <= 0)
        return 0;
    walk->x.data = (const char *)x->data;
    walk->y.data = (const char *)y->data;
    walk->axes = walk->done = 0;
    walk->at = walk->position = 0;
    memset(walk->index, 0, sizeof walk->index);
    for (int axis = 0; axis < x->axes; axis++) {
        ptrdiff_t size = x->shape[axis], last = walk->axes - 1;
        if (size == 1)
            continue;
        if (last >= 0 && walk->x.strides[last] == size * x->strides[axis] && walk->y.strides[last] == size * y->strides[axis]) {
            walk->shape[last] *= size;
        } else {
            last = walk->axes++;
            walk->shape[last] = size;
        }
        walk->x.strides[last] = x->strides[axis];
        walk->y.strides[last] = y->strides[axis];
    }
    if (walk->axes == 0) {
        walk->axes = 1;
        walk->shape[0] = 1;
        walk->x.strides[0] = type_sizes[walk->x.type];
        walk->y.strides[0] = type_sizes[walk->y.type];
    }
    choose_order(walk);
    return count_of(x);
}

/* Both sides of a block, described; clear them when done. */
struct block {
    PyObject *x_capsule, *y_capsule;
    struct walk walk;
};

static ptrdiff_t open_block(struct block *block, PyObject *x, PyObject *y) {
    const struct array *left, *right;
    ptrdiff_t count = -1;
    block->x_capsule = block->y_capsule = NULL;
    left = describe(x, &block->x_capsule);
    right = left ? describe(y, &block->y_capsule) : NULL;
    if (right)
        count = make_walk(&block->walk, left, right);
    return count;
}

static void close_block(struct block *block) {
    Py_CLEAR(block->x_capsule);
    Py_CLEAR(block->y_capsule);
}

/* Where results are written: contiguous doubles, so many. None gives NULL. */
static int open_output(PyObject *object, ptrdiff_t count, double **data) {
    PyObject *capsule = NULL;
    const struct array *array;
    int fits;
    *data = NULL;
    if (object == Py_None)
        return 1;
    array = describe(object, &capsule);
    fits = array && type_of(array) == FLOAT64 && (array->flags & CONTIGUOUS) && (array->flags & WRITEABLE) && count_of(array) == count;
    if (fits)
        *data = (double *)array->data;
    else if (array)
        PyErr_Format(PyExc_ValueError, "%zd contiguous float64 elements are needed to write to", (Py_ssize_t)count);
    Py_XDECREF(capsule);
    return fits;
}
