"""Where a group's member stands with its coordinator: not looked for, looked for, found, or to be tried again later.

Role.   One per member of either protocol. `member` and `kip848_member` ask it before they say anything.
Rules.  * A coordinator is looked for once at a time.
        * Until the pause after a failure is over, the member says nothing.
"""


class CoordinatorSearch:
    """The search of one member."""

    __slots__ = ("_is_under_way", "is_found", "retry_at_ms")

    def __init__(self) -> None:
        self.is_found = False
        self.retry_at_ms: int | None = None
        """When the pause after a failure ends; None without one."""
        self._is_under_way = False

    def begin(self) -> bool:
        """Whether the coordinator is to be looked for now; False while it is."""
        if self._is_under_way:
            return False
        self._is_under_way = True
        return True

    def found(self) -> None:
        """Requests can be sent."""
        self._is_under_way = False
        self.is_found = True

    def lost(self) -> None:
        """The coordinator cannot be found or reached."""
        self._is_under_way = False
        self.is_found = False

    def pause(self, until_ms: int) -> None:
        """Say nothing until then."""
        self.retry_at_ms = until_ms

    def resume(self) -> None:
        """The pause is over."""
        self.retry_at_ms = None

    def due(self, now_ms: int) -> None:
        """End a pause whose time has come."""
        if self.retry_at_ms is not None and now_ms >= self.retry_at_ms:
            self.retry_at_ms = None
