"""numpy arrays of received payloads; numpy is imported when the first of them comes."""


def ndarray(raw, dtype, shape):
    """The array over the bytes of `raw`, read-only; without numpy, what it would be made of."""
    try:
        import numpy
    except ImportError:
        return {"__ndarray__": True, "dtype": dtype, "shape": list(shape), "data": raw.tobytes()}
    if raw.nbytes == 0:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(raw, dtype).reshape(shape)
