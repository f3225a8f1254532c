"""The documentation site: `make docs` builds it, and a warning is an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import settings_reference  # beside this file

import tokenyard

project = "tokenyard"
author = "the tokenyard team"
release = tokenyard.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "settings_reference"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
default_role = "code"
nitpicky = False

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"tokenyard {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False

assert settings_reference.setup
