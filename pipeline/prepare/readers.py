"""Readers: from a block of a corpus to the raw sides of its pairs, a member a format."""

import json
from collections.abc import Callable, Iterator

from models.separators import QUESTION, SENTENCE
from pipeline.experiment import CorpusFile
from pipeline.prepare import conllu
from pipeline.prepare.babi import BabiReader
from pipeline.prepare.coco import CocoReader
from pipeline.prepare.dialogue import DialogueReader
from pipeline.prepare.reading import Block, GroupReader, Reader, starts_after_blank
from pipeline.prepare.reasons import (
    BROKEN_JSON,
    EMPTY,
    INVALID_UTF8,
    MISSING_COLUMN,
    MISSING_KEY,
    NOT_A_STRING,
    Dropped,
)
from pipeline.prepare.sentences import (
    join_question,
    join_sentences,
    lines_of,
    without_separators,
)


class ParallelReader(Reader):
    """Two files with a sentence a line."""

    def paths(self):
        """The source file and the target file."""
        return self.corpus.source, self.corpus.target

    def sides(self, lines):
        """The lines themselves."""
        source, target = lines
        return source, target


class TabSeparatedReader(Reader):
    """One file with a pair a line, its columns parted by tabs, without quoting."""

    def paths(self):
        """The one file."""
        return (self.corpus.path,)

    def sides(self, lines):
        """The two columns the input names; further columns are ignored."""
        (line,) = lines
        if not line.strip():
            return b"", b""
        columns = line.split(b"\t")
        try:
            return (
                columns[self.corpus.source_column - 1],
                columns[self.corpus.target_column - 1],
            )
        except IndexError:
            raise Dropped(MISSING_COLUMN) from None


class JsonLinesReader(Reader):
    """One file with a JSON object a line."""

    def paths(self):
        """The one file."""
        return (self.corpus.path,)

    def sides(self, lines):
        """The values of the two keys the input names; further keys are ignored."""
        (line,) = lines
        if not line.strip():
            return b"", b""
        row = self._object(line)
        return self._side(row, self.corpus.source_key), self._side(row, self.corpus.target_key)

    @staticmethod
    def _object(line: bytes) -> dict:
        try:
            row = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise Dropped(INVALID_UTF8) from None
        except (ValueError, RecursionError):
            raise Dropped(BROKEN_JSON) from None
        if not isinstance(row, dict):
            raise Dropped(BROKEN_JSON)
        return row

    @staticmethod
    def _side(row: dict, key: str) -> bytes:
        if key not in row:
            raise Dropped(MISSING_KEY)
        if not isinstance(row[key], str):
            raise Dropped(NOT_A_STRING)
        # Half a surrogate pair, which JSON can spell, passes here and fails as UTF-8 later.
        return row[key].encode("utf-8", "surrogatepass")


class DocumentsReader(JsonLinesReader):
    """One file with a JSON object a line, whose texts may have many lines.

    The lines of the source are its sentences or paragraphs, and become parted by `SENTENCE`.
    """

    @property
    def separators(self):
        """Between lines, and before the question if there is one."""
        return (SENTENCE,) if self.corpus.question_key is None else (SENTENCE, QUESTION)

    def sides(self, lines):
        """The values of the keys the input names, the question joined to the source."""
        (line,) = lines
        if not line.strip():
            return b"", b""
        row = self._object(line)
        keys = self.corpus.source_key, self.corpus.target_key
        source, target = (lines_of(self._side(row, key)) for key in keys)
        story, answer = join_sentences(source), without_separators(b" ".join(target))
        if self.corpus.question_key is None:
            return story, answer
        question = b" ".join(lines_of(self._side(row, self.corpus.question_key)))
        if not question:
            raise Dropped(EMPTY)
        return join_question(story, question), answer


class TextReader(Reader):
    """One file with a text a line and no source."""

    def paths(self):
        """The one file."""
        return (self.corpus.path,)

    def sides(self, lines):
        """Nothing, and the line itself."""
        return b"", lines[0]


class TaggedSentencesReader(GroupReader):
    """CoNLL-U, a sentence a record: its words and a column of tags, or its text and its genre."""

    starts = staticmethod(starts_after_blank)

    def groups(self, block: Block) -> Iterator[tuple[int, list[bytes]]]:
        """The records of a block; comments and blank lines alone are none."""
        return (each for each in super().groups(block) if conllu.is_record(each[1]))

    def sides(self, lines):
        """The words and their tags, or the text and what its `sent_id` begins with."""
        sentence = conllu.only_sentence(lines)
        try:
            if self.corpus.label is None:
                words = sentence.words
                return conllu.joined(words, "form"), conllu.joined(words, self.corpus.column)
            return conllu.written(sentence), conllu.genre(sentence.comments.get(b"sent_id", b""))
        except UnicodeDecodeError:
            raise Dropped(INVALID_UTF8) from None


class TaggedDocumentsReader(TaggedSentencesReader):
    """CoNLL-U, a document a record: its sentences and its genre."""

    @staticmethod
    def starts(before: bytes, line: bytes) -> bool:
        """Whether the comment `newdoc` stands there."""
        return conllu.starts_document(line)

    def sides(self, lines):
        """The sentences, parted by `SENTENCE`, and what the id of the document begins with."""
        sentences = list(conllu.parse_sentences(lines))
        try:
            text = join_sentences(map(conllu.written, sentences))
        except UnicodeDecodeError:
            raise Dropped(INVALID_UTF8) from None
        return text, conllu.genre(sentences[0].comments.get(b"newdoc id", b""))


def make_conllu_reader(corpus: CorpusFile) -> Reader:
    """The reader of the unit that an input names."""
    return (TaggedDocumentsReader if corpus.unit == "document" else TaggedSentencesReader)(corpus)


READERS: dict[str, Callable[[CorpusFile], Reader]] = {
    "parallel": ParallelReader,
    "tsv": TabSeparatedReader,
    "jsonl": JsonLinesReader,
    "text": TextReader,
    "conllu": make_conllu_reader,
    "babi": BabiReader,
    "dialogue": DialogueReader,
    "documents": DocumentsReader,
    "coco": CocoReader,
}


def make_reader(corpus: CorpusFile) -> Reader:
    """The reader of an input's format."""
    return READERS[corpus.format](corpus)
