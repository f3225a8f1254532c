"""A format from another package: installed as any package is, found by its entry point, and held to the same suite."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
PACKAGE = HERE / "plugin_package"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the plugin is installed in."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    target = tmp_path_factory.mktemp("target")
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    install(source, target)
    return target


def install(source: Path, target: Path) -> None:
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def run(folder: Path, *arguments: object, plugins: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST")}
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, [REPOSITORY, *plugins])),
        "TOKENYARD_CACHE": str(folder / "index-cache"),
    }
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def run_code(folder: Path, code: str, *plugins: Path) -> str:
    done = run(folder, "-W", "error", "-c", textwrap.dedent(code), plugins=plugins)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_format_is_listed_written_and_read(tmp_path: Path, installed: Path) -> None:
    code = """
        import pyarrow as pa
        import tokenyard
        from tokenyard.formats.registry import format_names

        assert format_names()[-1] == "arrowfile", format_names()
        schema = tokenyard.Schema(token_dtype="uint16", fields={"source": "string?"})
        with tokenyard.CorpusWriter("corpus", format="arrowfile", schema=schema, compression="zstd") as w:
            w.write([1, 2, 3], source="a")
            w.write([], source=None)
        corpus = tokenyard.open_corpus("corpus")
        assert corpus.format == "arrowfile"
        assert corpus.row(0)["source"] == "a"
        table = pa.ipc.open_file("corpus/shard-00000.arrow").read_all()
        print(table.to_pydict())
    """
    assert run_code(tmp_path, code, installed) == "{'tokens': [[1, 2, 3], []], 'source': ['a', None]}\n"


def test_without_the_package_its_corpora_say_what_is_missing(tmp_path: Path, installed: Path) -> None:
    code = """
        import tokenyard
        with tokenyard.CorpusWriter("corpus", format="arrowfile", schema=tokenyard.Schema()) as w:
            w.write([1])
    """
    run_code(tmp_path, code, installed)
    done = run(tmp_path, "-c", "import tokenyard; tokenyard.open_corpus('corpus')")
    assert "UnknownFormatError: unknown format 'arrowfile'; registered are mds, npy" in done.stderr


def test_an_installed_format_passes_the_suite(tmp_path: Path, installed: Path) -> None:
    suite = PACKAGE / "suite_of_arrowfile.py"
    options = ["-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", PACKAGE, "-c", os.devnull]
    done = run(tmp_path, "-m", "pytest", *options, suite, plugins=(installed,))
    assert done.returncode == 0, done.stdout[-5000:]
    assert "failed" not in done.stdout
    assert "skipped" not in done.stdout


def other_package(folder: Path, name: str, entry_point: str, module: str) -> Path:
    """A package with one module and one entry point, as an installer leaves it."""
    target = folder / name
    (target / f"{name}-1.dist-info").mkdir(parents=True)
    (target / f"{name}-1.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (target / f"{name}-1.dist-info/entry_points.txt").write_text(f"[tokenyard.formats]\n{entry_point}\n")
    (target / f"{name}_module.py").write_text(module)
    return target


@pytest.mark.parametrize(
    ("entry_point", "module", "message"),
    [
        (
            "other = other_module:FORMAT",
            "import package_that_is_not_there",
            "MissingDependencyError: format 'other' can't be loaded from other_module:FORMAT: No module named "
            "'package_that_is_not_there'; install what it needs",
        ),
        (
            "other = other_module:FORMAT",
            "",
            "ConfigError: format 'other': its entry point other_module:FORMAT does not exist",
        ),
        (
            "other = other_module:FORMAT",
            "FORMAT = 5",
            "ConfigError: format 'other': its entry point other_module:FORMAT is not a Format of that name but 5",
        ),
        (
            "other = other_module:FORMAT",
            "from tokenyard.formats.npy import FORMAT",
            "ConfigError: format 'other': its entry point other_module:FORMAT is not a Format of that name but <",
        ),
        ("other = other_module:FORMAT", "None.attribute", "AttributeError: 'NoneType' object has no attribute"),
        (
            "npy = other_module:FORMAT",
            "",
            "ConfigError: format 'npy' is registered twice: by other_module:FORMAT and by tokenyard itself; uninstall",
        ),
    ],
    ids=["missing dependency", "no attribute", "no format", "another name", "defect of its own", "taken name"],
)
def test_a_package_that_is_wrong_is_named(tmp_path: Path, entry_point: str, module: str, message: str) -> None:
    target = other_package(tmp_path, "other", entry_point, module)
    done = run(
        tmp_path, "-c", "from tokenyard.formats.registry import get_format; get_format('other')", plugins=(target,)
    )
    assert message in done.stderr


def test_a_built_in_format_is_found_without_a_look_at_other_packages(tmp_path: Path) -> None:
    target = other_package(tmp_path, "other", "npy = other_module:FORMAT", "")
    code = "from tokenyard.formats.registry import get_format; print(get_format('npy').__class__.__module__)"
    assert run(tmp_path, "-c", code, plugins=(target,)).stdout == "tokenyard.formats.npy\n"


def test_two_packages_with_one_name_are_refused(tmp_path: Path) -> None:
    targets = [other_package(tmp_path, name, f"same = {name}_module:FORMAT", "") for name in ("one", "two")]
    code = "from tokenyard.formats.registry import get_format; get_format('same')"
    done = run(tmp_path, "-c", code, plugins=tuple(targets))
    assert "ConfigError: format 'same' is registered twice: by " in done.stderr
    assert "one_module:FORMAT" in done.stderr
    assert "two_module:FORMAT" in done.stderr
    assert "uninstall one of the packages" in done.stderr
