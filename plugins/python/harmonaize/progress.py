"""How far a job says that it has come."""

from __future__ import annotations

import dataclasses

from harmonaize.documents import Fields, Raw


@dataclasses.dataclass(frozen=True)
class Progress:
    """A job's newest report; None: the job has not said so. `samples` were processed in all, of `samples_in_all`;
    `accuracy` is from 0 to 1. `batch_size` to `learning_rate_factor` are the settings of the step, as in [adapt].
    `step_seconds` is the median time of the last steps as the daemon has timed them; None: before the third report. In
    `exchange_seconds` of a step operations were under way; None: before the fifth report with the same settings.
    """

    job: str
    name: str
    step: int | None
    samples: float | None
    loss: float | None
    accuracy: float | None
    batch_size: float | None
    accumulation: float | None
    synchronisation_interval: float | None
    learning_rate_factor: float | None
    gradient_noise_scale: float | None
    samples_in_all: float | None
    step_seconds: float | None
    exchange_seconds: float | None
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
            batch_size=fields.optional_number("batch_size"),
            accumulation=fields.optional_number("accumulation"),
            synchronisation_interval=fields.optional_number("synchronisation_interval"),
            learning_rate_factor=fields.optional_number("learning_rate_factor"),
            gradient_noise_scale=fields.optional_number("gradient_noise_scale"),
            samples_in_all=fields.optional_number("samples_in_all"),
            step_seconds=fields.optional_number("step_seconds"),
            exchange_seconds=fields.optional_number("exchange_seconds"),
            raw=fields.raw,
        )
