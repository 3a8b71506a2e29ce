"""What a fetched page becomes: packets, their parts, and what can be made of them. Nothing here fetches or stores.

    normalise.py    what was extracted -> LLMPacket: content, outline, key blocks, citations, summary, warnings
    ids.py          source_id, page_id, and the one URL that a page is known by
    injection.py    look_for: text that speaks to a model; disarm: text without characters that nobody sees
                    (phrases.py, phrases_abroad.py: the signs; invisible.py: the characters; markup.py: comments, alt)
    hidden.py       orders to models in what readers do not see: taken out of the content
    chunk.py        a content in parts that fit a budget (pieces.py: where it may be cut)
    compact.py      a content made short: document.py reads it, salience.py and picking.py choose, omissions.py tells
                    what is missing, mapreduce.py lets a model write it

    blocks.py       markdown -> blocks, with their exact places; sections.py: headings; sentences.py: what blocks say
    tokens.py       how many tokens a text is; reading.py: how many minutes
    model.py        the shapes, as JSON has them

Everything takes time in proportion to the text, whatever the text.
May import: `extract.model`, `net.model`, `net.urls`.
"""
