"""Settings as YAML or plain mappings, checked before anything starts. Needs no torch."""

from tokenyard.config.jobs import (
    ConvertConfig,
    FilterConfig,
    MergeConfig,
    PackConfig,
    SplitConfig,
    TokenizeConfig,
)
from tokenyard.config.loading import json_schema, load_config, load_job
from tokenyard.config.sources import SourceConfig
from tokenyard.config.training import DataConfig, LoaderConfig, OrderConfig, SampleConfig, SegmentConfig, TrainConfig

__all__ = [
    "ConvertConfig",
    "DataConfig",
    "FilterConfig",
    "LoaderConfig",
    "MergeConfig",
    "OrderConfig",
    "PackConfig",
    "SampleConfig",
    "SegmentConfig",
    "SourceConfig",
    "SplitConfig",
    "TokenizeConfig",
    "TrainConfig",
    "json_schema",
    "load_config",
    "load_job",
]
