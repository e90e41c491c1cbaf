"""How a test ends that says so itself. No `except Exception` of a test takes these for errors of the program."""


class Failed(BaseException):
    """What `pytest.fail` raises, and `pytest.raises` when nothing was raised."""

    __module__ = "builtins"  # so that nobody is shown ours


class TestError(BaseException):
    """A test that cannot be run, whatever the program does."""
