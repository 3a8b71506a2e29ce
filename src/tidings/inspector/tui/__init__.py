"""The inspector in the terminal: a Textual application that reads a `Session`'s views and drives its servers.

Nothing here is imported by another command. What is shown is read from the view at most `RATE` times a second
(`app.py`), whatever arrives meanwhile; every list is one widget that draws the rows one sees (`rows.py`).

| file           | what                                                                       |
|----------------|----------------------------------------------------------------------------|
| `app.py`       | the application: the session, the clock, the keys                          |
| `deeds.py`     | what one can do with servers, requests and sessions, from anywhere         |
| `frame.py`     | what surrounds every screen: servers, facts, tabs, numbers                 |
| `rows.py`      | the list                                                                   |
| `feeds.py`     | what a list shows: entries that arrive, or a table that changes            |
| `reader.py`    | text of any length                                                         |
| `drawing.py`   | lines made of styled words                                                 |
| `inks.py`      | the two schemes, and what each colour means                                |
| `words.py`     | times, sizes, counts; texts from servers made harmless                     |
| `pane_*.py`    | one tab each; `pane_listed` and `pane_sources` are what two of them share  |
| `forms.py`     | a form from a schema; `form_widgets.py` draws it                           |
| `pages.py`     | lines that are made when they are seen                                     |
| `contents.py`  | contents, results and differences as pages                                 |
| `questions.py` | what servers ask, in a panel that never blocks                             |
| `dialog*.py`   | what is asked for a moment: servers, sessions, a request; the keys         |
| `palette.py`   | everything by name                                                         |
"""
