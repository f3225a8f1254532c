"""Settings as YAML or plain mappings, checked before anything starts. Needs no torch."""

from tokenyard.config.jobs import ConvertConfig, PackConfig, TokenizeConfig
from tokenyard.config.loading import json_schema, load_config, load_job
from tokenyard.config.training import DataConfig, LoaderConfig, OrderConfig, SampleConfig, TrainConfig

__all__ = [
    "ConvertConfig",
    "DataConfig",
    "LoaderConfig",
    "OrderConfig",
    "PackConfig",
    "SampleConfig",
    "TokenizeConfig",
    "TrainConfig",
    "json_schema",
    "load_config",
    "load_job",
]
