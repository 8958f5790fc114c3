"""Makes a script or a style sheet lighter for the page: no comments, short local names."""

try:
    from minify import string as _minify
except ImportError:  # there is no wheel for Apple's processors; the page is heavier there
    _minify = None

MEDIA_TYPES = {"js": "application/javascript", "css": "text/css"}


def minify(text: str, kind: str) -> str:
    """``text``, code of the kind "js" or "css", made lighter; as it is where that can't be done.

    What is not well-formed stays: the browser says best what is wrong with it.
    """
    if _minify is None:
        return text
    try:
        return _minify(MEDIA_TYPES[kind], text)
    except ValueError:
        return text
