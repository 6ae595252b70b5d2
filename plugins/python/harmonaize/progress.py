"""How far a job says that it has come."""

from __future__ import annotations

import dataclasses

from harmonaize.documents import Fields, Raw


@dataclasses.dataclass(frozen=True)
class Progress:
    """A job's newest report. `samples` were processed in all; `accuracy` is from 0 to 1; None: the job has not said so.
    `step_seconds` is the median time of the last steps as the daemon has timed them; None: before the third report.
    """

    job: str
    name: str
    step: int | None
    samples: float | None
    loss: float | None
    accuracy: float | None
    step_seconds: float | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Progress:
        """Reads /v1/jobs/{job}/progress."""
        return cls(
            job=fields.text("job"),
            name=fields.text("name"),
            step=fields.optional_integer("step"),
            samples=fields.optional_number("samples"),
            loss=fields.optional_number("loss"),
            accuracy=fields.optional_number("accuracy"),
            step_seconds=fields.optional_number("step_seconds"),
            raw=fields.raw,
        )
