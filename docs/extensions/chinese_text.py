"""Sphinx extension: Chinese pages have no space where a line of their source ends, and their search works.

Sphinx splits Chinese into words with jieba, which is not maintained; without it no Chinese word is found.
Here pairs of characters are indexed, and what is typed is split likewise in the browser.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from sphinx.search import languages
from sphinx.search.en import SearchEnglish

RUN = re.compile(r"[\u4e00-\u9fff]+|[^\W_\u4e00-\u9fff]+")

_HAN = "\u4e00-\u9fff"
_OPENING, _CLOSING = "（“《", "，。；：、！？）”》"
_BLOCK = r"[-*+|#%>:]|```|\d+\. "
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINE_END = re.compile(
    rf"(?:(?<=[{_CLOSING}])\n *(?!\n| |{_BLOCK})(?=\S)|(?<=[{_HAN}])\n *(?=[{_HAN}{_OPENING}]))"
)
"""The end of a line between Chinese characters, or after a mark that brings its own space."""

SPLIT_QUERY = r"""
function splitQuery(query) {
  const words = [];
  for (const run of query.match(/[\u4e00-\u9fff]+|[\p{L}\p{N}]+/gu) || []) {
    if (!/[\u4e00-\u9fff]/.test(run) || run.length < 3) words.push(run);
    else for (let at = 0; at + 1 < run.length; at++) words.push(run.slice(at, at + 2));
  }
  return words;
}
"""


def split(text: str) -> list[str]:
    """Words of other scripts as they are; runs of Chinese as their characters and pairs."""
    found: list[str] = []
    for run in RUN.findall(text):
        if not "\u4e00" <= run[0] <= "\u9fff":
            found.append(run)
            continue
        found.extend(run)
        found.extend(run[at : at + 2] for at in range(len(run) - 1))
    return found


class SearchChinese(SearchEnglish):
    """English words by their stems, and Chinese by pairs of characters."""

    lang = "zh"
    language_name = "English"  # of the stemmer: in the browser it is called `EnglishStemmer`
    js_splitter_code = SPLIT_QUERY

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx's name
        """Split a text into what is indexed."""
        return split(input)

    def word_filter(self, word: str) -> bool:
        """Whether a word is indexed: single Chinese characters are."""
        return bool(word) and ("\u4e00" <= word[0] <= "\u9fff" or super().word_filter(word))


def join_lines(app: Sphinx, _page: str, source: list[str]) -> None:
    """Join the lines of a Chinese paragraph where a space would be wrong."""
    if app.config.language == "zh_CN":
        parts = FENCED.split(source[0])
        parts[::2] = [LINE_END.sub("", part) for part in parts[::2]]
        source[0] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", join_lines)
    languages["zh"] = SearchChinese
    return {"parallel_read_safe": True}
