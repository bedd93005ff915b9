"""How far a reading has come, how fast it goes and how long it will take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """State of a reading after one more piece was counted.

    Attributes
    ----------
    rows : int
        Counted so far, those of an earlier run included.
    share : float or None
        Part of the data that is counted, where the files tell.
    rows_per_second : float
        Of this run.
    seconds_left : float or None
    """

    rows: int
    share: float | None
    rows_per_second: float
    seconds_left: float | None

    @classmethod
    def after(
        cls, rows: int, rows_before: int, share: float | None, share_before: float, seconds: float
    ) -> Progress:
        """Return the state `seconds` after this run started at `rows_before`."""
        rate = (rows - rows_before) / seconds if seconds > 0 else 0.0
        left = None
        if share is not None and share > share_before:
            left = seconds * (1 - share) / (share - share_before)
        return cls(rows, share, rate, left)

    def text(self) -> str:
        """Say it in one short line."""
        parts = [f"{self.rows:,} rows"]
        if self.share is not None:
            parts[0] += f" ({self.share:.0%})"
        parts.append(f"{self.rows_per_second:,.0f} rows/s")
        if self.seconds_left is not None:
            parts.append(f"{_duration(self.seconds_left)} left")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
