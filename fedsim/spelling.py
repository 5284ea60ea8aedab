"""When two words are one: other spellings of a name, and slips of the fingers."""

import re

# What other tools append to the name of a thing.
_APPENDED = re.compile(
    r"(partitioner|aggregat(or|ion)|strategy|attack(er)?|defen[cs]e|selector|sampler"
    r"|(serial)?(client)?trainer|(server)?handler|server|client|compressor|dataset|optimi[sz]er"
    r"|scheduler|fn)$"
)


def plain(word: str) -> str:
    """`batchSize`, `batch-size` and `batch_size` are one word."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def spellings(word: str) -> list[str]:
    """The plain words that a word may stand for: itself, and without what other tools add to it.

    >>> spellings("optax.adam"), spellings("DirichletPartitioner"), spellings("batches")
    (['optaxadam', 'adam'], ['dirichletpartitioner', 'dirichlet'], ['batches', 'batche', 'batch'])
    """
    words = [plain(word)]
    is_path = re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", word)
    if is_path:
        words.append(plain(word.rpartition(".")[2]))
    words += [_APPENDED.sub("", each) for each in words]
    for each in list(words):
        words += singulars(each)
    return [each for each in dict.fromkeys(words) if each]


def words_of(name: str) -> set[str]:
    """The words that a name is made of, in lower case.

    >>> sorted(words_of("attack_ratio")), sorted(words_of("CNNMnist"))
    (['attack', 'ratio'], ['cnn', 'mnist'])
    """
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def singulars(word: str) -> list[str]:
    """The words that a word may be the plural of.

    >>> singulars("availabilities")
    ['availabilitie', 'availabiliti', 'availability']
    """
    endings = {"s": "", "es": "", "ies": "y"}
    return [
        word.removesuffix(ending) + replacement
        for ending, replacement in endings.items()
        if word.endswith(ending) and len(word) > 3
    ]


def is_slip(typed: str, known: str) -> bool:
    """Whether fingers may have made one of two lower-case words of the other.

    One letter in four may be wrong, or three in ten left out: what shares less is another word.

    >>> is_slip("medain", "median"), is_slip("focal", "final"), is_slip("batch", "mini_batch")
    (True, False, True)
    """
    short, long = sorted((typed, known), key=len)
    same_start = typed[:1] == known[:1]
    is_most = len(typed) > 3 and 10 * len(typed) >= 7 * len(known)
    if len(short) <= 4 and not same_start:
        return False
    if len(short) > 2 and _is_whole_word_of(short, long):
        return True
    if same_start and is_most and _is_within(typed, known):
        return True
    return edits_between(typed, known) <= max(1, len(short) // 4)


def _is_whole_word_of(short: str, long: str) -> bool:
    """Whether a name begins or ends a longer one, at an underscore or a dash."""
    short, long = short.replace("-", "_"), long.replace("-", "_")
    return long.startswith(f"{short}_") or long.endswith(f"_{short}")


def _is_within(short: str, long: str) -> bool:
    """Whether all letters of a word are in a longer one, in their order."""
    letters = iter(long)
    return all(letter in letters for letter in short)


def edits_between(one: str, other: str) -> int:
    """How many letters were added, left out, replaced or swapped with their neighbour.

    >>> edits_between("mena", "mean"), edits_between("ifca", "mifa")
    (1, 2)
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one):
        row_before = before
        before = row
        row = [i + 1]
        for j, theirs in enumerate(other):
            replaced = before[j] + (letter != theirs)
            least = min(replaced, before[j + 1] + 1, row[j] + 1)
            if i and j and letter == other[j - 1] and one[i - 1] == theirs:
                least = min(least, row_before[j - 1] + 1)
            row.append(least)
    return row[-1]
