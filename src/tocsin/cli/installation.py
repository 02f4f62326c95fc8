"""Everything that an operator may set for `tocsin up`, as one tree: the groups of its settings file."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.pipeline.session import SparkSettings
from tocsin.pipeline.stream import StreamSettings
from tocsin.site.settings import SiteSettings
from tocsin.web.limits import WebLimits


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the limits of its parts come together."""

    site: SiteSettings = SiteSettings()
    web: WebLimits = WebLimits()
    spark: SparkSettings = SparkSettings()
    stream: StreamSettings = StreamSettings()
