"""BOS and EOS, in documents, in packed rows, and where nobody says what documents are."""

import numpy as np
import pytest

import tokenyard
from tests.corpora import write_corpus
from tests.preflight.looked import look, of_corpus, the_line
from tests.preflight.texts import BOS, EOS, documents, marked, tokenized
from tests.real_data import gpt2_json
from tokenyard.corpus import open_corpus
from tokenyard.corpus.opening import Corpus
from tokenyard.manifest import Layout
from tokenyard.preflight.contents import look_into
from tokenyard.preflight.marks import marks_of
from tokenyard.preflight.model import ModelFacts

PACKED = Layout(kind="packed", seq_len=8)


def counted(corpus: Corpus):
    return look_into(corpus, marks_of(corpus, ModelFacts()), full=True).marks


@pytest.fixture
def said(tmp_path):
    """Write documents, and say what their line is."""

    def of(rows, status, match, **schema):
        corpus = marked(tmp_path / "c", rows, **schema)
        return the_line(look(of_corpus(corpus.path)), "documents", status, match=match)

    return of


def test_documents_with_their_marks_pass(said):
    said(documents(20), "pass", r"100 % of 20 documents begin with BOS \(1\), 100 % of 20 documents end with EOS \(2\)")


def test_documents_that_begin_with_bos_twice_fail(said):
    said(documents(20, begin=(BOS, BOS)), "fail", r"20 of 20 documents begin with BOS \(1\) twice.*add_bos: false")


def test_a_few_documents_that_begin_with_bos_twice_warn(said):
    rows = documents(20) + documents(3, begin=(BOS, BOS))
    said(rows, "warn", r"3 of 23 documents begin with BOS \(1\) twice")


def test_documents_of_which_some_begin_with_bos_warn(said):
    said(documents(15) + documents(5, begin=()), "warn", r"15 of 20 documents begin with BOS \(1\), the others don't")


def test_documents_of_which_none_ends_with_eos_warn(said):
    said(documents(20, end=()), "warn", r"no document ends with EOS \(2\): a model never learns to end one")


def test_documents_of_which_some_end_with_eos_warn(said):
    said(documents(15) + documents(5, end=()), "warn", r"15 of 20 documents end with EOS \(2\), the others don't")


def test_documents_that_end_with_eos_twice_warn(said):
    said(documents(20, end=(EOS, EOS)), "warn", r"20 of 20 documents end with EOS \(2\) twice")


def test_marks_inside_of_documents_warn(said):
    said([[1, 5, 1, 6, 2], [1, 5, 7, 2]], "warn", r"BOS \(1\) is inside of documents, 1 times.*special_text: plain")


def test_eos_inside_of_documents_warns(said):
    said([[1, 5, 2, 6, 2], [1, 5, 7, 2]], "warn", r"EOS \(2\) is inside of documents, 1 times")


def test_one_id_for_both_marks_is_neither_doubled_nor_inside(said):
    said(documents(20, begin=(EOS,)), "pass", "100 % of 20 documents begin with BOS", bos_token_id=EOS)


def test_a_corpus_without_named_marks_passes(said):
    said(documents(5), "pass", "names BOS or EOS", bos_token_id=None, eos_token_id=None)


def test_packed_rows_are_counted_by_the_lengths_they_carry(tmp_path):
    marked(tmp_path / "c", documents(60, begin=(BOS, BOS)))
    for strategy in ("concat", "best_fit"):
        packed = tmp_path / strategy
        tokenyard.pack(tmp_path / "c", packed, seq_len=64, strategy=strategy)
        counts = counted(open_corpus(packed))
        # A row may end between the two.
        assert counts.begun == counts.with_bos
        assert counts.begun - 2 <= counts.doubled_bos <= counts.begun
        assert counts.ended == counts.with_eos > 20
        assert (counts.inner_bos, counts.inner_eos) == (0, 0)
        the_line(look(of_corpus(packed)), "documents", "fail", match="begin with BOS .1. twice")


def test_packed_rows_without_lengths_are_cut_by_eos(tmp_path):
    stream = [token for document in documents(40) for token in document]
    rows = [stream[at : at + 8] for at in range(0, len(stream) - 7, 8)]
    corpus = marked(tmp_path / "c", rows, layout=PACKED)
    counts = counted(corpus)
    starts = [at for at in range(1, len(rows) * 8) if stream[at - 1] == EOS and at % 8]
    assert counts.begun == counts.with_bos == len(starts)
    assert counts.ended == 0
    the_line(look(of_corpus(corpus.path)), "documents", "pass", match="100 % of .* documents begin with BOS")


def test_packed_rows_of_which_nothing_tells_the_documents_pass(tmp_path):
    corpus = marked(tmp_path / "c", [[5] * 8] * 6, layout=PACKED, eos_token_id=None)
    the_line(look(of_corpus(corpus.path)), "documents", "pass", match="nothing tells where documents begin; 6 rows")


@pytest.mark.parametrize(("eos", "status"), [(2, "pass"), (77, "fail")])
def test_a_run_that_finds_documents_by_an_eos_that_is_not_there_fails(tmp_path, eos, status):
    rows = [[5, 6, 7, 2, 8, 9, 5, 6]] * 6
    corpus = marked(tmp_path / "c", rows, layout=PACKED, bos_token_id=None, eos_token_id=None)
    sample = {"mode": "rows", "boundaries": True, "documents": "eos", "eos_token_id": eos}
    match = "" if status == "pass" else r"data.sample.documents is eos, and no EOS \(77\) was found.*eos_token_id"
    the_line(look(of_corpus(corpus.path, sample=sample)), "documents", status, match=match)


@pytest.mark.parametrize(("every", "status"), [(100, "pass"), (1 << 22, "warn")])
def test_eos_in_rows_that_are_too_long_to_be_read_whole_is_looked_for_in_pieces(tmp_path, every, status):
    row = np.full(1_200_000, 10)
    row[every - 1 :: every] = EOS
    marked(tmp_path / "c", [row, row])
    sample = {"mode": "concat", "seq_len": 1 << 10, "documents": "eos", "boundaries": True}
    match = "nothing tells where documents begin" if status == "pass" else r"no EOS \(2\) was found in 262,144 tokens"
    the_line(look(of_corpus(tmp_path / "c", sample=sample)), "documents", status, match=match)


def test_what_tokenize_was_asked_for_is_held_to(tmp_path):
    options = {"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"}
    corpus = tokenized(tmp_path, gpt2_json(), add_bos=True, **options)
    the_line(look(of_corpus(corpus)), "documents", "pass", match="100 % of .* begin with BOS .50256., 100 % of")
    file = corpus / ".tokenyard/manifest.json"
    file.write_text(file.read_text().replace('"eos_token_id": 50256', '"eos_token_id": 198'))
    the_line(
        look(of_corpus(corpus)), "documents", "fail", match=r"\d+ documents lack EOS \(198\), which add_eos asked for"
    )
    file.write_text(file.read_text().replace('"bos_token_id": 50256', '"bos_token_id": 198'))
    the_line(look(of_corpus(corpus)), "documents", "fail", match=r"documents lack BOS \(198\), which add_bos asked for")


def test_a_bos_that_tokenize_was_not_asked_for_warns(tmp_path):
    corpus = tokenized(tmp_path, gpt2_json(), eos_token="<|endoftext|>")
    file = corpus / ".tokenyard/manifest.json"
    first = int(open_corpus(corpus)[0][0])
    file.write_text(file.read_text().replace('"bos_token_id": null', f'"bos_token_id": {first}'))
    the_line(look(of_corpus(corpus)), "documents", "warn", match="begin with BOS .*, though add_bos was false")


def test_marks_come_from_the_model_where_the_corpus_names_none(tmp_path):
    marked(tmp_path / "c", documents(20), bos_token_id=None, eos_token_id=None)
    (tmp_path / "config.json").write_text('{"vocab_size": 1024, "bos_token_id": 1, "eos_token_id": [2, 3]}')
    report = look(of_corpus(tmp_path / "c"), model=tmp_path)
    the_line(report, "documents", "pass", match="100 % of 20 documents begin with BOS .1., 100 % .* end with EOS .2.")


def test_rows_that_cut_every_document_are_told(tmp_path):
    layout = Layout(kind="packed", seq_len=8, lengths_field="lengths")
    write_corpus(tmp_path / "c", [[5] * 8] * 6, layout=layout, eos_token_id=EOS, lengths=("uint32[]", [[8]] * 6))
    the_line(look(of_corpus(tmp_path / "c")), "documents", "pass", match="rows cut documents, so that neither")


@pytest.mark.parametrize("strategy", ["concat", "best_fit"])
def test_documents_longer_than_packed_rows_are_not_taken_for_documents_without_marks(tmp_path, strategy):
    corpus = tokenized(tmp_path, gpt2_json(), add_bos=True, eos_token="<|endoftext|>", bos_token="!")
    tokenyard.pack(corpus, tmp_path / "packed", seq_len=64, strategy=strategy)
    report = look(of_corpus(tmp_path / "packed"), tokenizer=gpt2_json())
    told = "100 % of .* documents" if strategy == "concat" else r"\d\d.* % of .* documents, or rests of long ones,"
    line = the_line(report, "documents", "warn", match=f"{told} begin with BOS .0., 100 % of .* documents end with EOS")
    assert "lack" not in line.found
    the_line(report, "tokenizer", "pass", match="the fingerprint is the corpus's")
