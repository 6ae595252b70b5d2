"""Errors of this package. All are HarmonaizeError; wrong arguments are ValueError."""

from __future__ import annotations

import unicodedata

# Longest sentence of a daemon that an error repeats, in characters: people read no more.
LONGEST_SENTENCE = 2048


class HarmonaizeError(Exception):
    """What every error of this package is."""


class NoDaemonError(HarmonaizeError):
    """No daemon answers where it was looked for. The sentence names the places and the way out."""


class UntrustedDaemonError(NoDaemonError):
    """Somebody listens there who is not the provider: another user of the host, or a wrong certificate."""


class ConnectionLostError(HarmonaizeError):
    """The connection broke before the answer was whole, or no answer came in time. Whether the daemon has carried out
    the request is not known.
    """


class AnswerError(HarmonaizeError):
    """The answer is not one of a daemon: no HTTP, too long, no JSON, a field with the wrong type, a redirect."""


class ProblemError(HarmonaizeError):
    """The daemon refuses. These are problem details (RFC 9457).

    `status` is that of HTTP, such as 404; `title` its name; `detail` the sentence with the way out; `type` a URI.
    """

    def __init__(self, status: int, title: str, detail: str, type: str = "about:blank") -> None:
        """Makes the error of an answer. The texts may be a stranger's: they are cleaned here."""
        self.status = status
        self.title = clean(title)
        self.detail = clean(detail)
        self.type = clean(type)
        super().__init__(self.detail or self.title or f"the daemon answered with status {status}")

    def __reduce__(self) -> tuple[type[ProblemError], tuple[int, str, str, str]]:
        """Lets the error go between processes."""
        return type(self), (self.status, self.title, self.detail, self.type)


def clean(text: str) -> str:
    """Returns the text without characters that could steer a terminal, and cut to what people read."""
    return "".join(
        "?" if unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else letter
        for letter in text[:LONGEST_SENTENCE]
    )
