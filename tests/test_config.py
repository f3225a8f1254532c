import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tokenyard.config import (
    ConvertConfig,
    PackConfig,
    SourceConfig,
    TokenizeConfig,
    TrainConfig,
    json_schema,
    load_config,
    load_job,
)
from tokenyard.config.jobs import TextConfig
from tokenyard.config.loading import JOBS
from tokenyard.config.other_names import OTHER_NAMES
from tokenyard.config.problems import known_paths
from tokenyard.config.reading import ReadConfig
from tokenyard.converters.text import TextOptions
from tokenyard.errors import ConfigError, StorageError

CONFIGS = Path(__file__).parent.parent / "configs"
MODELS = {f"{job}.yaml": model for job, model in JOBS.items()}
SOURCE = {"path": "a/web", "weight": 1}
MINIMAL = {"data": {"path": "corpus"}, "order": {"global_batch_size": 8}}


def load(tmp_path, text, model=TrainConfig):
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return load_config(file, model)


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda file: file.name)
def test_every_ready_file_loads(file):
    settings = load_config(file, MODELS.get(file.name, TrainConfig))
    if file.name == "train-finetune.yaml":
        assert settings.order.token_budget is not None
    elif isinstance(settings, TrainConfig):
        assert file.name == f"train-{'mixture' if settings.data.sources else settings.data.format}.yaml"
        shared = {"data": settings.data}
        if settings.data.sources:
            shared["order"] = settings.order
        assert settings == load_config(CONFIGS / "train-npy.yaml").model_copy(update=shared)
    else:
        assert settings.dst


def keys_of(model, prefix=""):
    for name, field in model.model_fields.items():
        yield name
        if hasattr(field.annotation, "model_fields"):
            yield from keys_of(field.annotation)


@pytest.mark.parametrize("names", [["train-npy.yaml", "train-mixture.yaml"], *([name] for name in MODELS)])
def test_the_ready_files_explain_every_key(names):
    text = "".join((CONFIGS / name).read_text() for name in names)
    assert [key for key in keys_of(MODELS.get(names[0], TrainConfig)) if f"{key}:" not in text] == []


def test_the_ready_file_of_a_mixture_explains_every_key_of_its_sources():
    text = (CONFIGS / "train-mixture.yaml").read_text()
    own = SourceConfig.model_fields.keys() - ReadConfig.model_fields.keys()
    assert [key for key in own if f"{key}:" not in text] == []


def test_the_smallest_settings_are_a_path_and_a_batch_size():
    settings = load_config(MINIMAL)
    assert settings.order.shuffle == "block"
    assert settings.data.sample.labels == "shifted"
    assert (settings.loader.num_threads, settings.loader.num_workers) == (2, 0)
    assert load_config(settings) is settings
    assert load_config(settings.model_dump()) == settings


def test_an_unknown_key_is_told_with_its_path_its_line_and_the_nearest_one(tmp_path):
    text = "data:\n  path: c\norder:\n  global_batch_size: 8\n  shufle: block\n"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    file = tmp_path / "settings.yaml"
    assert str(caught.value) == f"{file}: order.shufle (line 5): unknown key; did you mean order.shuffle?"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"data": {"path": "c", "seq_len": 4}}, "data.seq_len: unknown key; did you mean data.sample.seq_len?"),
        ({"lodaer": {}}, "lodaer: unknown key; did you mean loader?"),
        (
            {"batch_size": 4},
            "batch_size: unknown key; did you mean order.global_batch_size or loader.micro_batch_size?",
        ),
        ({"zzz": 4}, "zzz: unknown key; known here are data, order, loader"),
        ({"shuffle_seed": 4}, "shuffle_seed: unknown key; did you mean order.seed?"),
        (
            {"order": {"global_batch_size": 8, "shuffle_seed": 4}},
            "order.shuffle_seed: unknown key; did you mean order.seed?",
        ),
        ({"data": {"path": "c", "local": "d"}}, "data.local: unknown key; did you mean data.path?"),
        (
            {"data": {"path": "c", "remote": "d"}},
            "data.remote: unknown key; did you mean data.path? It takes URLs; loader.cache names a folder on a local "
            "disk to keep what was read",
        ),
        (
            {"data": {"sources": [{"path": "c", "weight": 1, "local": "d"}]}},
            "data.sources.0.local: unknown key; did you mean data.sources.path?",
        ),
        (
            {"loader": {"num_canonical_nodes": 2}},
            "loader.num_canonical_nodes: unknown key; did you mean order.lanes? The order is the same on any number of "
            "nodes, so leave it out",
        ),
        ({"data": {}}, "data: one of data.path (a corpus) and data.sources (a mixture of several) is needed"),
        ({"data": None}, "data: one of data.path (a corpus) and data.sources (a mixture of several) is needed"),
        (
            {"data": {"sources": []}},
            "data: one of data.path (a corpus) and data.sources (a mixture of several) is needed",
        ),
        ({"data": {"sources": [{"weight": 1}]}}, "data.sources.0.path: this key is needed"),
        ({"data": {"sources": [{"path": "c"}]}}, "data.sources.0.weight: this key is needed"),
        ({"data": {"sources": {"path": "c"}}}, "data.sources: expected a list, found {'path': 'c'}"),
        (
            {"data": {"sources": [{"path": "c", "wieght": 1, "weight": 1}]}},
            "data.sources.0.wieght: unknown key; did you mean data.sources.weight?",
        ),
        (
            {"data": {"sources": [{"path": "c", "weight": 0}]}},
            "data.sources.0.weight: expected greater than 0, found 0",
        ),
        (
            {"data": {"sources": [{"path": "c", "weight": float("inf")}]}},
            "data.sources.0.weight: expected a finite number, found inf",
        ),
        (
            {"data": {"sources": [{"path": "c", "weight": float("nan")}]}},
            "data.sources.0.weight: expected a finite number, found nan",
        ),
        (
            {"data": {"sources": [{"path": "c", "weight": True}]}},
            "data.sources.0.weight: expected a number, found True",
        ),
        (
            {"data": {"sources": [{"path": "c", "weight": 1, "at_end": "end"}]}},
            "data.sources.0.at_end: expected 'repeat', 'stop' or 'raise', found 'end'",
        ),
        (
            {"data": {"sources": [{"path": "/", "weight": 1}]}},
            "data.sources.0: path '/' ends in no name; give the source one by its key name",
        ),
        (
            {"data": {"sources": [{"path": "c", "weight": 1, "at_end": "stop", "max_epochs": 0}]}},
            "data.sources.0.max_epochs: expected greater than or equal to 1, found 0",
        ),
        ({"order": {"global_batch_size": "8"}}, "order.global_batch_size: expected a whole number, found '8'"),
        ({"order": {"global_batch_size": True}}, "order.global_batch_size: expected a whole number, found True"),
        ({"order": {"global_batch_size": 0}}, "order.global_batch_size: expected greater than or equal to 1, found 0"),
        ({"loader": {"num_threads": 1.0}}, "loader.num_threads: expected a whole number, found 1.0"),
        ({"loader": {"pin_memory": "yes"}}, "loader.pin_memory: expected 'auto' or true or false, found 'yes'"),
        ({"loader": 3}, "loader: expected keys and values, found 3"),
        ({"data": {"path": ["a", 3]}}, "data.path.1: expected text, found 3"),
        (
            {"data": {"path": "c", "split": {"length": 2, "eos": 3}}},
            "data.split: split takes exactly one of 'length' and 'eos'",
        ),
        (
            {"order": {"global_batch_size": 8, "shuffle": "blok"}},
            "order.shuffle: expected 'block', 'global' or 'none', found 'blok'",
        ),
        (
            {"order": {"global_batch_size": 8, "lanes": "many"}},
            "order.lanes: expected 'auto' or a whole number, found 'many'",
        ),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected_and_found(changed, expected):
    with pytest.raises(ConfigError) as caught:
        load_config({**MINIMAL, **changed})
    assert str(caught.value) == expected


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_every_name_of_another_loader_leads_to_a_key_that_exists_and_is_none_of_ours(name):
    known = {".".join(map(str, path)) for path in known_paths(TrainConfig)}
    key, more = OTHER_NAMES[name]
    assert key in known
    assert name not in {path.rpartition(".")[2] for path in known}
    with pytest.raises(ConfigError, match=re.escape(f"{name}: unknown key; did you mean {key}?{more}")):
        load_config({**MINIMAL, name: 1})


def test_names_of_other_loaders_are_not_explained_where_settings_have_no_such_key():
    with pytest.raises(ConfigError, match="shuffle_seed: unknown key; did you mean shuffle") as caught:
        load_config({"shuffle_seed": 4}, ConvertConfig)
    assert "order.seed" not in str(caught.value)


def test_all_problems_are_told_in_the_order_of_the_file(tmp_path):
    text = "loader:\n  workers: 3\norder:\n  token_budget:\n    tokens: 8\n  sead: 4\ndata:\n  path: c\n"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).splitlines()[1:] == [
        "  loader.workers (line 2): unknown key; did you mean loader.num_workers?",
        "  order.token_budget.micro_batches (line 4): this key is needed",
        "  order.sead (line 6): unknown key; did you mean order.seed?",
    ]


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"loader": {"persistent_workers": True}}, r"loader\.persistent_workers .* loader\.num_workers is 0"),
        (
            {"loader": {"multiprocessing_context": "fork"}},
            r"loader\.multiprocessing_context .* loader\.num_workers is 0",
        ),
        (
            {"loader": {"prefetch_factor": 2, "num_threads": 0}},
            r"loader\.prefetch_factor .* loader\.num_threads and loader\.num_workers are 0",
        ),
        (
            {"data": {"path": "c", "sample": {"labels": "none", "mask_boundaries": True}}},
            r"data\.sample\.mask_boundaries .* data\.sample\.labels is none",
        ),
        ({"data": {"path": "c", "sources": [SOURCE]}}, r"data\.path and data\.sources are both given; keep one"),
        (
            {"data": {"path": "c", "weights_in": "samples"}},
            r"data\.weights_in is about data\.sources, but data\.path is given; leave it out",
        ),
        (
            {"data": {"path": "c", "allow_different_tokenizers": True}},
            r"data\.allow_different_tokenizers is about data\.sources, but data\.path is given",
        ),
        (
            {"data": {"format": "npy", "sources": [SOURCE]}},
            r"data\.format is about data\.path, but data\.sources is given; give it to the sources that need it",
        ),
        (
            {"data": {"sources": [SOURCE, {"path": "b", "weight": 1}, {"path": "b/web/", "weight": 1}]}},
            r"data\.sources\.0 and data\.sources\.2 are both named 'web'; .* data\.sources\.2\.name",
        ),
        (
            {"data": {"sources": [{**SOURCE, "max_epochs": 2}]}},
            r"data\.sources\.0: max_epochs is 2, but at_end is repeat, .* leave max_epochs out",
        ),
        (
            {"data": {"path": "c", "sample": {"documents": "eos"}}},
            r"data\.sample\.documents is eos, but nothing asks .* set data\.sample\.boundaries",
        ),
        (
            {"data": {"path": "c", "sample": {"boundaries": True, "eos_token_id": 2}}},
            r"data\.sample\.eos_token_id is 2, which needs data\.sample\.documents: eos, not auto",
        ),
        (
            {"order": {"global_batch_size": 8, "lanes": 2, "shuffle": "global"}},
            r"^order: lanes is 2, which needs order\.shuffle: block, not global",
        ),
        (
            {"order": {"global_batch_size": 8, "lanes": 3}},
            r"^order: lanes is 3, which must divide order\.global_batch_size, 8",
        ),
        (
            {"order": {"global_batch_size": 8, "segments": [{"from_step": 3, "weights": {}}]}},
            r"order\.segments\.0: weights names no source to draw from; give one or more, or leave weights out",
        ),
        (
            {"order": {"global_batch_size": 8, "segments": [{"from_step": 6}]}},
            r"order\.segments\.0: from step 6 on nothing changes; give global_batch_size, seq_len or weights, or leave",
        ),
    ],
)
def test_keys_that_do_not_work_together_are_refused_by_both_names(section, expected):
    with pytest.raises(ConfigError, match=expected):
        load_config({**MINIMAL, **section})


def test_sources_are_named_by_the_last_part_of_their_path():
    paths = ["a/web", "b/code/", "file:///c/math", ["d/one.npy", "d/two.npy"]]
    data = {"sources": [{"path": path, "weight": 1} for path in paths]}
    data["sources"].append({"path": "e", "name": "mine", "weight": 0.5, "format": "mds", "split": {"eos": 3}})
    settings = load_config({**MINIMAL, "data": data})
    assert [source.name for source in settings.data.sources] == ["web", "code", "math", "one.npy", "mine"]
    assert (settings.data.sources[0].at_end, settings.data.sources[0].max_epochs) == ("repeat", 1)
    assert settings.data.weights_in == "tokens"
    assert load_config(settings.model_dump()) == settings


def test_a_section_whose_keys_are_all_commented_out_is_empty(tmp_path):
    text = "data:\n  path: c\n  sample:\n    # mode: rows\norder: {global_batch_size: 8}\nloader:\n"
    assert load(tmp_path, text) == load_config({"data": {"path": "c"}, "order": {"global_batch_size": 8}})


def test_a_number_with_an_exponent_is_a_number(tmp_path):
    assert load(tmp_path, "prove_share: 1e-3\n", TokenizeConfig).prove_share == 0.001
    with pytest.raises(ConfigError, match=r"expected a whole number, found 1000.0"):
        load(tmp_path, "data: {path: c}\norder: {global_batch_size: 1e3}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order: {seed: 1}\ndata: {path: c}\norder: {seed: 2}\n", r"order \(line 3\): given twice, first in line 1"),
        ("data:\n  3: c\n", r"data\.3 \(line 2\): keys are text, this one is int"),
        ("data: {path: c\norder: 3\n", r"settings\.yaml \(line 2\): not valid YAML: expected ',' or '}'"),
        ("data: !!python/object/apply:os.getcwd []\n", r"\(line 1\): tag '.*os\.getcwd' is nothing for settings"),
        ("data: !!python/name:os.getcwd x\n", r"\(line 1\): not valid YAML: could not determine a constructor"),
        ("a: 1\ndata: !!set {path}\n", r"\(line 2\): tag '.*set' is nothing for settings"),
        ("order: {seed: 010}\n", r"order\.seed \(line 1\): 010 is read as 8 by the rules of YAML 1\.1"),
        ("order: {seed: 1:30}\n", r"order\.seed \(line 1\): 1:30 is read as 90 by the rules of YAML 1\.1"),
        ("data: 2026-13-01\n", "not valid YAML: month must be in"),
        ("data: &a [*a]\n", "more than 10000 values or 50 levels, aliases counted"),
        ("data: 1\n---\ndata: 2\n", "but found another document"),
        ("[data]\n", r"expected keys and values such as 'data', found \['data'\]"),
        ("", "expected keys and values such as 'data', found None"),
        ("data: \x00", "not valid YAML"),
    ],
)
def test_what_is_no_settings_file_is_refused(tmp_path, text, expected):
    with pytest.raises(ConfigError, match=expected):
        load(tmp_path, text)


def test_aliases_can_not_stand_for_more_than_settings_need(tmp_path):
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(ConfigError, match="aliases counted"):
        load(tmp_path, "\n".join(lines))
    assert load(tmp_path, "data: &d {path: c}\norder: {global_batch_size: &n 8}\nloader: {num_threads: *n}\n")


def test_a_file_of_another_kind_is_not_read_whole(tmp_path):
    with pytest.raises(ConfigError, match="more than 1048576 bytes are no settings"):
        load(tmp_path, "x" * (1 << 20) + "y")
    with pytest.raises(ConfigError, match=r"nested too deep|not valid YAML|50 levels"):
        load(tmp_path, "[" * 5000)
    with pytest.raises(StorageError, match="can't read the settings: No such file"):
        load_config(tmp_path / "nowhere.yaml")


class OmegaLike(Mapping):
    """A mapping that is no dict and holds lists that are no lists, as OmegaConf's do."""

    def __init__(self, values):
        self._values = values

    def __getitem__(self, key):
        value = self._values[key]
        return OmegaLike(value) if isinstance(value, dict) else ListLike(value) if isinstance(value, list) else value

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)


class ListLike(Sequence):
    def __init__(self, values):
        self._values = values

    def __getitem__(self, i):
        return self._values[i]

    def __len__(self):
        return len(self._values)


def test_mappings_of_any_kind_are_accepted():
    values = {"data": {"path": ["a", "b"], "sample": {"mode": "rows"}}, "order": {"global_batch_size": 8}}
    assert load_config(OmegaLike(values)) == load_config(values)


def test_settings_of_another_job_are_not_taken():
    with pytest.raises(ConfigError, match="expected settings of TrainConfig, found those of PackConfig"):
        load_config(PackConfig())


def test_settings_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        load_config(MINIMAL).order.seed = 3


def test_a_job_gives_only_the_arguments_that_are_there(tmp_path):
    file = tmp_path / "convert.yaml"
    file.write_text("src: a\nto: mds\nread: {split: {length: 4}}\noptions: {compression: zstd}\ndst: null\n")
    assert load_job(file, "convert") == {
        "src": "a",
        "to": "mds",
        "read": {"split": {"length": 4}},
        "options": {"compression": "zstd"},
    }
    assert load_job({"text": {"text_field": "body"}}, "tokenize") == {"text": {"text_field": "body"}}
    with pytest.raises(ConfigError, match=r"expected one of the jobs convert, filter, merge, .*, found 'train'"):
        load_job(file, "train")
    file.write_text("strategi: concat\n")
    with pytest.raises(ConfigError, match=r"strategi \(line 1\): unknown key; did you mean strategy\?"):
        load_job(file, "pack")


@pytest.mark.parametrize("model", [TrainConfig, *JOBS.values()])
def test_the_schema_for_editors_describes_every_key(model):
    schema = json_schema(model)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["additionalProperties"] is False
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for name, key in section["properties"].items():
            if section.get("title") != "Split":
                assert key.get("description") or "$ref" in key or "default" in key, name
    json.dumps(schema)


@pytest.mark.parametrize(
    ("job", "values"),
    [
        ("convert", {"src": "a", "dst": "b", "to": "mds", "shuffle": 7}),
        ("filter", {"src": "a", "min_tokens": 3, "where": ["n == 1"]}),
        ("split", {"src": "a", "dst": "b", "parts": {"validation": 0.1, "test": 500}, "seed": 3}),
        ("merge", {"sources": ["a", "b"], "dst": "c", "format": "npy"}),
    ],
)
def test_the_settings_of_a_job_come_as_they_are_given(job, values):
    assert load_job(values, job) == values


@pytest.mark.parametrize("size", [0, 0.0, 1.0, -1])
def test_a_part_is_a_share_or_a_number_of_rows(size):
    with pytest.raises(ConfigError, match=r"parts\.v"):
        load_job({"parts": {"v": size}}, "split")


def test_the_settings_of_texts_have_the_names_and_defaults_of_the_options_of_reading_them():
    assert TextConfig().model_dump() == asdict(TextOptions())
    assert TextOptions(**TextConfig(fields={"source": "string?", "score": "float32"}).model_dump()).field_types()
