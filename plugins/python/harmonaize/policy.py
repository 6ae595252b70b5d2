"""What the provider grants of what jobs ask (docs/operator-guide.md)."""

from __future__ import annotations

import dataclasses

from harmonaize.documents import Fields, Raw
from harmonaize.requirements import Values


@dataclasses.dataclass(frozen=True)
class TenantPolicy:
    """The bounds of one tenant's jobs, or of all. Rates and durations are texts with a unit. 0 grants no floor, sets no
    cap, leaves elastic jobs their share of all places, and leaves all processors. `defaults` are what jobs count as
    having said. `tenant` and `exists`, which says whether a tenant has this name, are for operators.
    """

    most_priority: int
    most_bandwidth_floor: str
    most_bandwidth_cap: str
    most_elastic_ranks: int
    most_processors: int
    spinning: bool
    compression: bool
    least_late_after: str
    least_checkpoint_interval: str
    changes_per_minute: int
    defaults: Values = dataclasses.field(hash=False)
    tenant: str | None
    exists: bool | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> TenantPolicy:
        """Reads "policy", or an entry of "tenants"."""
        return cls(
            most_priority=fields.integer("most_priority"),
            most_bandwidth_floor=fields.text("most_bandwidth_floor"),
            most_bandwidth_cap=fields.text("most_bandwidth_cap"),
            most_elastic_ranks=fields.integer("most_elastic_ranks", 0),
            most_processors=fields.integer("most_processors"),
            spinning=fields.yes("spinning"),
            compression=fields.yes("compression"),
            least_late_after=fields.text("least_late_after"),
            least_checkpoint_interval=fields.text("least_checkpoint_interval", "10 s"),
            changes_per_minute=fields.integer("changes_per_minute"),
            defaults=fields.fields("defaults").raw,
            tenant=fields.optional_text("tenant"),
            exists=fields.optional_yes("exists"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Policy:
    """The provider's policy. For a tenant `policy` is its own. For operators it is that of all tenants without one of
    their own, `tenants` are the others, and `text` is the whole policy in TOML.
    """

    policy: TenantPolicy
    tenants: tuple[TenantPolicy, ...]
    text: str | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Policy:
        """Reads /v1/policy."""
        return cls(
            policy=TenantPolicy.from_fields(fields.fields("policy")),
            tenants=fields.objects("tenants", TenantPolicy.from_fields) if "tenants" in fields.raw else (),
            text=fields.optional_text("text"),
            raw=fields.raw,
        )
