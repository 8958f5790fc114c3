"""How a widget's script and style sheet come to the browser."""

import re
from pathlib import Path


def front_end(path: Path) -> str:
    """The file without the lines that are only a comment, and without indentation.

    Every page carries it in full, so it is made lighter. What looks like a comment line or like
    indentation must not stand in a string of several lines.
    """
    text = path.read_text(encoding="utf8")
    text = re.sub(r"^\s*/\*.*?\*/\s*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))
