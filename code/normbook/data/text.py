"""English prose that comes with Python."""


def topics() -> str:
    """The help topics that come with Python, as one text: English prose and grammar of Python.

    About 465,000 characters in Python 3.11; other versions have others.

    Examples
    --------
    >>> "boolean" in topics()
    True
    """
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))
