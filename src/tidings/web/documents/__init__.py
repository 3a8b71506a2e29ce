"""Documents: what a fetched page becomes. Nothing here fetches or stores.

    normalise.py    extracted text to a packet: content, outline, key blocks, citations, summary, warnings
    injection.py    instructions to models: found, named, removed where no reader sees them
    invisible.py    invisible characters that a model reads
    markdown.py     Markdown as blocks and headings, with places
    sentences.py    sentences, and how much each says
    chunk.py        a content in parts within a budget
    compact.py      a content made short: sentences that are chosen word for word
    difference.py   the difference of two versions, or of two states of a feed
    budget.py       token estimates; as much text as fits
    model.py        the shapes, as JSON has them; ids and hashes

Everything takes time in proportion to the text, whatever the text.
"""
