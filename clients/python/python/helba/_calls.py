"""A call of the native module, which may be waited for by this thread or by an event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Generic, Optional, TypeVar

T = TypeVar("T")
Done = Callable[[Any, Optional[BaseException]], None]


class Call(Generic[T]):
    """`start(done)` waits and returns a value if `done` is None. Otherwise it returns at once, and a thread
    calls `done(value, error)`. `finish` makes the result of the value."""

    __slots__ = ("finish", "start")

    def __init__(self, start: Callable[[Optional[Done]], Any], finish: Callable[[Any], T]) -> None:
        self.start = start
        self.finish = finish

    def result(self) -> T:
        """Waits on this thread. Ctrl-C ends the wait."""
        return self.finish(self.start(None))

    async def awaited(self) -> T:
        """Waits without blocking the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, error: Optional[BaseException]) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def done(value: Any, error: Optional[BaseException]) -> None:
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                # The loop is closed, so that nobody waits.
                pass

        self.start(done)
        return self.finish(await future)
