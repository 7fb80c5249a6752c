"""Keys that were asked for and not found."""

import threading


class Pending:
    """Bounded: of keys that nobody asks for again, the oldest go."""

    MOST = 65536

    def __init__(self):
        self._lock = threading.Lock()
        self._keys = {}  # in the order of their coming

    def add(self, key):
        """True when it is new."""
        with self._lock:
            if key in self._keys:
                return False
            self._keys[key] = None
            if len(self._keys) > self.MOST:
                del self._keys[next(iter(self._keys))]
            return True

    def discard(self, key):
        with self._lock:
            self._keys.pop(key, None)
