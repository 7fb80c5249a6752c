"""What get() returns for raw tensors and bytes, and what a producer fills without a copy."""


class ManagedBuffer:
    """Bytes that lie in a pool, with the methods of vLLM-Omni's class of the name.

    A received one keeps its lease until release(), the end of its `with` block, or until it is dropped; tensors made
    of it keep the memory, so a release while they are in use is harmless. One from `connector.allocate()` can be
    written into and put, which takes it.
    """

    def __init__(self, source):
        self._source = source  # a stagewire.Delivery or a stagewire.PoolBuffer
        self.size = source.nbytes
        tensor = source.tensor() if getattr(source, "kind", None) == "tensor" else None
        self.dtype = tensor.dtype if tensor is not None else None
        self.shape = tensor.shape if tensor is not None else None

    @property
    def tensor(self):
        """The bytes as a one-dimensional torch tensor of uint8, without a copy."""
        return self._raw().torch()

    @property
    def buffer(self):
        """The bytes as a memoryview, without a copy: for those who have no torch."""
        return memoryview(self._raw())

    def as_tensor(self, dtype=None, shape=None):
        """The bytes with this dtype and shape, without a copy; those that were put when none is named."""
        if dtype is None and self.dtype is not None:
            return self._raw_source().tensor().torch()
        import torch
        item_size = torch.empty(0, dtype=dtype).element_size()
        shape = tuple(shape if shape is not None else (self.size // item_size,))
        count = 1
        for dimension in shape:
            if dimension < 0:
                raise ValueError(f"shape {shape}: every dimension must be named")
            count *= dimension
        if count * item_size != self.size:
            raise ValueError(f"{dtype} of shape {shape} takes {count * item_size} bytes, the buffer has {self.size}")
        return self.tensor.view(dtype).reshape(shape)

    def to_bytes(self):
        """A copy."""
        return self._raw().tobytes()

    def release(self):
        """Gives the memory back once nobody looks at it any more. May be called again."""
        if self._source is not None:
            self._source.release()
        self._source = None

    def take(self):
        """The stagewire.PoolBuffer to be put, or None when this one was received (or put)."""
        source = self._source
        if source is None or not hasattr(source, "taken") or source.taken:
            return None
        self._source = None
        return source

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.release()

    def _raw_source(self):
        if self._source is None:
            raise RuntimeError("this buffer was released or put")
        return self._source

    def _raw(self):
        return self._raw_source().raw
