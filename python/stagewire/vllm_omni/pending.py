"""Keys that were asked for and not found."""

import threading


class Pending:
    """Which stages each key was asked for between. Bounded: of keys that nobody asks for again, the oldest go."""

    MOST = 65536

    def __init__(self):
        self._lock = threading.Lock()
        self._stages = {}

    def add(self, key, stages):
        """True when it is new."""
        with self._lock:
            known = self._stages.setdefault(key, set())
            if stages in known:
                return False
            known.add(stages)
            if len(self._stages) > self.MOST:
                del self._stages[next(iter(self._stages))]
            return True

    def discard(self, key, stages):
        with self._lock:
            known = self._stages.get(key)
            if known is None:
                return
            known.discard(stages)
            if not known:
                del self._stages[key]

    def pop(self, key):
        with self._lock:
            return self._stages.pop(key, ())
