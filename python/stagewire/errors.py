"""What can go wrong: one class for each error code, which is also what Python calls such an error."""


class Error(Exception):
    """Every error of stagewire. `code` is the code's name, chosen by what the caller can do (docs/errors.md)."""

    code = "failed"


class InvalidArgument(Error, ValueError):
    """The call or the configuration is wrong: change it."""

    code = "invalid argument"


class NotFound(Error, LookupError):
    """No such key, region, peer or file: it may come later, or never."""

    code = "not found"


class Timeout(Error, TimeoutError):
    """The deadline passed: trying again is reasonable."""

    code = "timeout"


class Cancelled(Error):
    """Somebody gave up: cancel, abort, abandon."""

    code = "cancelled"


class Unavailable(Error, ConnectionError):
    """The peer is gone or cannot be reached: try again, or another one."""

    code = "unavailable"


class Exhausted(Error, MemoryError):
    """Space or another limited thing is used up for now: free some, or raise the limit."""

    code = "exhausted"


class TooLarge(Error, ValueError):
    """It can never fit this limit: make it smaller, or raise the limit."""

    code = "too large"


class Unsupported(Error, NotImplementedError):
    """This build or this machine cannot: the message names what is missing."""

    code = "unsupported"


class PermissionDenied(Error, PermissionError):
    """Access was refused: wrong user, secret, or registration without that access."""

    code = "permission denied"


class Corrupt(Error, ValueError):
    """Bytes from outside do not follow their format: the other side is at fault."""

    code = "corrupt"


class Closed(Error, RuntimeError):
    """The object was closed."""

    code = "closed"


class Conflict(Error):
    """It exists already, or is in use."""

    code = "conflict"


class Failed(Error, OSError):
    """The system or the hardware refused; the message has its words."""

    code = "failed"


BY_CODE = {
    kind.code: kind
    for kind in (InvalidArgument, NotFound, Timeout, Cancelled, Unavailable, Exhausted, TooLarge, Unsupported,
                 PermissionDenied, Corrupt, Closed, Conflict, Failed)
}
