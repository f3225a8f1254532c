"""All that every format must pass, as one class."""

from __future__ import annotations

from tokenyard.testing.access import Access
from tokenyard.testing.damage import Damage
from tokenyard.testing.native import Native
from tokenyard.testing.round_trips import RoundTrips


class FormatSuite(RoundTrips, Access, Damage, Native):
    """Tests of a storage format. Subclass it with the attributes of ``SuiteBase``."""
