"""The page: what a person sees of the board, and what they do about it, in a browser.

Made on the server and readable without any script. `views.py` looks, `deeds.py` does, `answers.py` says how either
becomes an answer, `charts.py` draws, `words.py` makes text of everything that agents wrote; `templates/` say how it
looks, and `static/` is sent as it is.
"""
